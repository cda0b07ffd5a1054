"""How long grading takes beside plain nbgrader, on the same submissions of lesson 6 and in the same run.

    python tests/benchmarks/grading.py [--plain-sample N] [--sizes 10 60 240] [--jobs N]

Makes 60 submissions (perfect, blank, typical slips, a few broken), grades the sound ones with `nbgrader autograde` and
with ours, sandbox on, and prints both times, the ratio, whether the scores agree, and how our time grows. Plain nbgrader
takes long: `--plain-sample 6` times it on the first 6 of them (which hold every kind) and says so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import lesson_six  # noqa: E402  tests/ is no package

from autograder import questions  # noqa: E402
from autograder.building.release import release  # noqa: E402
from autograder.course import Course  # noqa: E402
from autograder.grading import grade as grading  # noqa: E402
from autograder.grading import sandbox  # noqa: E402
from autograder.grading.gradebook import Book  # noqa: E402

LESSON, NAME = lesson_six.LESSON, lesson_six.NAME
#: one submission of each kind first, so that a small sample holds them all
KINDS = ("perfect", "slips", "blank", "slips", "perfect", "slips")
BROKEN = ("", "<html>Sign in</html>", '{"cells": [', "<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> x\n")


def slips(rng: random.Random) -> dict[str, str]:
    """Right and wrong answers as a class gives them: each question right, a slip, or not answered."""
    chosen = {}
    for name, question in questions.bank(LESSON).items():
        draw = rng.random()
        wrong = [slip for slip in question.slips if slip.source or isinstance(slip.value, int | float | str)]
        if draw < 0.55 or (draw < 0.85 and not wrong):
            chosen[name] = lesson_six.solutions()[name]
        elif draw < 0.85:
            slip = rng.choice(wrong)
            chosen[name] = slip.source or f"{name} = {slip.value!r}"
    return chosen


def submissions(count: int) -> list[tuple[str, str]]:
    """(student, notebook text), the kinds in turn."""
    text, rng = lesson_six.released_text(), random.Random(6)
    made = []
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        answers = {"perfect": lesson_six.solutions(), "blank": {}}.get(kind)
        notebook = lesson_six.submission(slips(rng) if answers is None else answers, text)
        made.append((f"{number:03d}-{kind}", json.dumps(notebook)))
    return made


def course_in(folder: Path) -> Course:
    """A course of its own with lesson 6 built."""
    here = Course(root=folder)
    shutil.copytree(ROOT / "source" / LESSON, here.source / LESSON)
    here.questions.mkdir(parents=True)
    shutil.copy(ROOT / "autograder" / "questions" / "lesson_06.py", here.questions)
    release(LESSON, here, here.lessons / LESSON)
    return here


def hand_in(here: Course, folder: str, made: list[tuple[str, str]]) -> None:
    for student, text in made:
        path = here.root / folder / student / LESSON / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def scores(here: Course) -> dict[str, float]:
    """Automatic scores in the gradebook."""
    with Book(here, here.root / "staged").open() as book:
        found = book.find_assignment(LESSON).submissions
        return {s.student_id: sum(g.auto_score or 0.0 for n in s.notebooks for g in n.grades) for s in found}


def ours(made: list[tuple[str, str]], broken: bool, jobs: int | None) -> tuple[float, dict[str, float]]:
    """Seconds that ours takes, with everything a first run needs, and the scores."""
    with tempfile.TemporaryDirectory() as folder:
        here = course_in(Path(folder))
        hand_in(here, "autograder/submitted", made)
        if broken:
            hand_in(here, "autograder/submitted", [(f"broken-{i}", text) for i, text in enumerate(BROKEN)])
        started = time.monotonic()
        code = grading.grade(here, LESSON, grading.Options(jobs=jobs, quiet=True), say=lambda text: None)
        took = time.monotonic() - started
        assert code == 0
        return took, {s: v for s, v in scores(here).items() if not s.startswith("broken")}


def plain(made: list[tuple[str, str]]) -> tuple[float, dict[str, float]]:
    """Seconds that `nbgrader autograde` takes, and the scores."""
    with tempfile.TemporaryDirectory() as folder:
        here = course_in(Path(folder))
        config = (
            "c = get_config()\nc.CourseDirectory.course_id = 'memory-budget'\n"
            "c.CourseDirectory.release_directory = 'lessons'\n"
            f"c.CourseDirectory.db_url = 'sqlite:///{here.root}/autograder/gradebook.db'\n"
            "c.Execute.timeout = 600\n"
        )
        (here.root / "nbgrader_config.py").write_text(config)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "MEMORY_BUDGET_PROGRESS": os.devnull,
        }
        run = {"cwd": here.root, "env": environment, "check": True, "capture_output": True}
        nbgrader = [sys.executable, "-m", "nbgrader"]
        subprocess.run([*nbgrader, "generate_assignment", LESSON, "--force"], **run)
        hand_in(here, "submitted", made)
        started = time.monotonic()
        subprocess.run([*nbgrader, "autograde", LESSON], **run)
        return time.monotonic() - started, scores(here)


def expected(made: list[tuple[str, str]]) -> dict[str, float]:
    """What each submission should get: known for the perfect and the blank ones."""
    full = sum(q.points for q in questions.bank(LESSON).values() if not q.manual)
    return {s: full if "perfect" in s else 0.0 for s, _ in made if "slips" not in s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=56, help="sound submissions (4 broken ones are added)")
    parser.add_argument("--plain-sample", type=int, help="time plain nbgrader on the first N only")
    parser.add_argument("--sizes", type=int, nargs="*", default=[10, 60, 240], help="show how our time grows")
    parser.add_argument("--jobs", type=int)
    chosen = parser.parse_args()
    if why := sandbox.why_no_sandbox():
        sys.exit(f"needs the sandbox: {why}")
    made = submissions(chosen.count)
    our_s, our_scores = ours(made, True, chosen.jobs)
    each = our_s / len(made)
    print(
        f"ours, sandbox on, {len(made)} sound and {len(BROKEN)} broken: {our_s:.1f} s, {each:.2f} s each",
        flush=True,
    )
    sample = made[: chosen.plain_sample] if chosen.plain_sample else made
    plain_s, plain_scores = plain(sample)
    plain_each = plain_s / len(sample)
    note = f" (a sample: the first {len(sample)} of {len(made)})" if len(sample) < len(made) else ""
    print(f"nbgrader autograde, {len(sample)} sound{note}: {plain_s:.1f} s, {plain_each:.2f} s each")
    print(f"ratio: {plain_each / each:.1f} times faster, on {grading.cores()} cores")
    right = expected(made)
    ours_right = sum(our_scores[s] == score for s, score in right.items())
    print(f"ours is right on {ours_right} of {len(right)} whose score is known")
    same = [s for s in plain_scores if our_scores[s] == plain_scores[s]]
    partial = [s for s in plain_scores if s not in same]
    print(f"scores agree on {len(same)} of {len(plain_scores)}; the others: ", end="")
    print(", ".join(f"{s} ours {our_scores[s]:g} plain {plain_scores[s]:g}" for s in partial) or "none")
    wrong = [
        s for s in partial if our_scores[s] < plain_scores[s] or (s in right and plain_scores[s] == right[s])
    ]
    print(
        f"of these, plain nbgrader's score is the right one on {len(wrong)} (it gives no credit for parts of a table)"
    )
    for size in chosen.sizes:
        took, _ = ours(submissions(size), False, chosen.jobs)
        grader_gb = psutil.Process().memory_info().rss / 1e9
        says = f"{size} submissions: {took:.1f} s, {took / size:.2f} s each; the grading process holds {grader_gb:.2f} GB"
        print(says, flush=True)


if __name__ == "__main__":
    main()
