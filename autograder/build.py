"""How `lessons/` and `solutions/` are made from `source/`, and everything that stops them from being made.

Nothing in `lessons/` or `solutions/` is touched until every lesson asked for has come through every check.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from nbformat.notebooknode import NotebookNode

from autograder import answered, glossary, index, leaks, wire
from autograder import cells as made
from autograder.course import Course, course
from autograder.fault import BuildStopped, Fault
from autograder.lint import by_hand, lesson_files, lint, lint_files, lint_source_root

if TYPE_CHECKING:
    from autograder.rehearsal import Rehearsal

TEXT_FILES = (".svg", ".csv", ".json", ".txt")


def main(lessons: list[str] | None = None, force: bool = False) -> int:
    """Build the lessons named, or all; returns 0, or 1 after one line for each fault."""
    try:
        build(course(), lessons, force=force, say=_say)
    except BuildStopped as stopped:
        for fault in stopped.faults:
            print(fault, file=sys.stderr)
        count = sum(fault.stops for fault in stopped.faults)
        print(f"Stopped: {count} to mend; lessons/ and solutions/ are as they were.", file=sys.stderr)
        return 1
    return 0


def build(here: Course, lessons: list[str] | None = None, *, force: bool = False, say=None) -> None:
    """Make the lessons named (or all) of the course; BuildStopped with every fault when one stops it.

    `say(text, end)` is told how far it is; what ends in a carriage return will be written over.
    """
    say = say or _silent
    chosen = _chosen(here, lessons)
    work = here.root / "build"
    work.mkdir(exist_ok=True)
    stamps = _stamps(work)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        staged, faults = Path(folder), lint_source_root(here) + glossary.faults(here, chosen)
        fresh = [] if force else [lesson for lesson in chosen if stamps.get(lesson) == stamp(here, lesson)]
        for lesson in chosen:
            if lesson in fresh:
                say(f"{lesson}: nothing changed")
            else:
                faults += make_lesson(here, lesson, staged, say)
        if any(fault.stops for fault in faults):
            raise BuildStopped(faults)
        for fault in faults:
            say(str(fault))
        _make_shared(here, staged)
        _put_in_place(here, staged, whole=lessons is None)
    index.write_readme(here)
    for lesson in chosen:
        stamps[lesson] = stamp(here, lesson)
    (work / "stamps.json").write_text(json.dumps(stamps, indent=1), encoding="utf-8")


def _chosen(here: Course, lessons: list[str] | None) -> list[str]:
    known = here.lesson_ids()
    unknown = [lesson for lesson in lessons or [] if lesson not in known]
    if unknown:
        there = ", ".join(known) or "none"
        raise BuildStopped(
            [Fault(where=f"source/{name}", says=f"is not there; lessons: {there}") for name in unknown]
        )
    return lessons or known


def make_lesson(here: Course, lesson: str, staged: Path, say) -> list[Fault]:
    """Make one lesson under `staged`; returns every fault found on the way."""
    from autograder.release import release  # here: nbgrader takes seconds to import

    faults = source_faults(here, lesson)
    if any(fault.stops for fault in faults):
        return faults
    source = made.read(here.source_notebook(lesson))
    bank = load_bank(here, lesson)
    name = here.source_notebook(lesson).name
    try:
        released = made.read(release(lesson, here, staged / "lessons" / lesson))
    except ValueError as error:
        return [*faults, Fault(where=name, says=str(error))]
    solved = _rehearse(here, lesson, answered.answered(source), bank, f"{lesson}: solution", say)
    faults += solution_faults(solved, bank, f"source/{lesson}/{name}")
    faults += released_faults(here, lesson, released, source, bank)
    tried = _rehearse(here, lesson, released, bank, f"{lesson}: as a learner gets it", say)
    faults += blank_faults(tried, f"lessons/{lesson}/{name}")
    _write_solution(here, lesson, solved.notebook, staged / "solutions" / lesson)
    return faults


def source_faults(here: Course, lesson: str) -> list[Fault]:
    """Everything wrong with a source lesson that shows without running it."""
    faults = lint_files(here, lesson)
    try:
        path = here.source_notebook(lesson)
        notebook = made.read(path)
        bank = load_bank(here, lesson)
    except ValueError as error:
        return faults or [Fault(where=f"source/{lesson}", says=str(error))]
    return faults + lint(notebook, f"source/{lesson}/{path.name}", lesson, bank)


def load_bank(here: Course, lesson: str) -> dict:
    """The questions of a lesson, name to question; ValueError when the course has no bank for it."""
    path = here.questions / f"{lesson.replace('-', '_')}.py"
    if not path.is_file():
        raise ValueError(f"has no question bank: autograder/questions/{path.name} is missing")
    spec = importlib.util.spec_from_file_location(f"autograder.questions.{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        questions = list(module.QUESTIONS)
    except Exception as error:
        raise ValueError(f"{path.name} cannot be read: {type(error).__name__}: {error}") from error
    bank = {question.name: question for question in questions}
    if len(bank) != len(questions):
        raise ValueError(f"{path.name} names a question twice")
    return bank


def solution_faults(solved: Rehearsal, bank: dict, where: str) -> list[Fault]:
    """Where the solution raises, earns less than full marks, or leaves a widget that shows nothing later."""
    if solved.stopped_at:
        return [Fault(where=where, cell=solved.stopped_at, says=f"the solution {solved.error}")]
    bare = answered.widget_without_picture(answered.steady(solved.notebook))
    says = "shows a widget that leaves no picture where no kernel runs"
    faults = [Fault(where=where, cell=cell, says=says, stops=False) for cell in bare]
    for name, verdict in solved.verdicts.items():
        if not _full_marks(bank[name], verdict):
            words = " ".join([verdict.message, *verdict.details])
            says = f"the solution of {name} does not earn full marks ({verdict.status}: {words})"
            faults.append(Fault(where=where, cell=name, says=says))
    return faults


def _full_marks(question, verdict) -> bool:
    """Right; or, where a human gives the points, every key idea found."""
    if by_hand(question):
        return verdict.status == "by hand" and len(verdict.details) == len(question.ideas)
    return verdict.status == "right"


def released_faults(
    here: Course, lesson: str, released: NotebookNode, source: NotebookNode, bank: dict
) -> list[Fault]:
    """Every place in the lesson, as it would be handed out, that holds an answer."""
    folder = here.source / lesson
    files = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in lesson_files(folder)
        if path.suffix.lower() in TEXT_FILES
    }
    found = leaks.leaks(released, source, files, lambda name, value: is_right(bank[name], value))
    where = f"lessons/{lesson}/{here.source_notebook(lesson).name}"
    return [Fault(where=where, cell=cell, says=says) for cell, says in found]


def is_right(question, value: object) -> bool:
    """Whether the question bank takes `value` for right; False for what is no such answer."""
    requests = question.requests(random.Random(0))
    if by_hand(question) or [type(request) for request in requests] != [wire.Value]:
        return False
    return question.judge([{"ok": wire.encode(value)}], requests).status == "right"


def blank_faults(tried: Rehearsal, where: str) -> list[Fault]:
    """Where the lesson raises while nothing is answered, or marks something that nobody answered."""
    if tried.stopped_at:
        return [Fault(where=where, cell=tried.stopped_at, says=f"{tried.error} while nothing is answered")]
    return [
        Fault(where=where, cell=name, says=f"question {name} is {verdict.status} before anyone answered it")
        for name, verdict in tried.verdicts.items()
        if verdict.status != "unanswered"
    ]


def _rehearse(here: Course, lesson: str, notebook: NotebookNode, bank: dict, what: str, say) -> Rehearsal:
    """Run the notebook in a throw-away folder that holds the lesson's own files."""
    from autograder.rehearsal import rehearse

    with tempfile.TemporaryDirectory() as scratch:
        _copy_files(here.source / lesson, Path(scratch))
        step = lambda done, of: say(f"{what}, {done} of {of} cells", end="\r" if done < of else "\n")  # noqa: E731
        return rehearse(notebook, Path(scratch), bank, questions_folder=here.questions, progress=step)


def _write_solution(here: Course, lesson: str, notebook: NotebookNode, into: Path) -> None:
    _copy_files(here.source / lesson, into)
    made.save(answered.steady(notebook), into / here.source_notebook(lesson).name)


def _copy_files(source: Path, into: Path) -> None:
    for path in lesson_files(source):
        if path.suffix != ".ipynb":
            copy = into / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _make_shared(here: Course, staged: Path) -> None:
    """What all lessons share: the glossary, and the index that JupyterLab opens on."""
    (staged / "lessons").mkdir(exist_ok=True)
    (staged / "solutions").mkdir(exist_ok=True)
    if text := glossary.render(here):
        for kind in ("lessons", "solutions"):
            (staged / kind / "glossary.md").write_text(text, encoding="utf-8", newline="\n")
    made.save(index.notebook(here), staged / "lessons" / "index.ipynb")


def _put_in_place(here: Course, staged: Path, *, whole: bool) -> None:
    """Move what was made to its place, each folder by one rename; a whole build drops what has no source."""
    old = staged / "old"
    old.mkdir()
    for kind in (here.lessons, here.solutions):
        kind.mkdir(exist_ok=True)
        for fresh in sorted((staged / kind.name).iterdir()):
            target = kind / fresh.name
            if target.exists():
                os.replace(target, old / f"{kind.name}-{fresh.name}")
            os.replace(fresh, target)
        if whole:
            for left in sorted(kind.glob("lesson-*")):
                if left.name not in here.lesson_ids():
                    os.replace(left, old / f"{kind.name}-{left.name}")


def stamp(here: Course, lesson: str) -> str:
    """A digest of all that a lesson is made from and of what was made: equal means nothing to do."""
    package = Path(__file__).parents[1]
    code = [p for part in ("memory_budget", "autograder") for p in sorted((package / part).rglob("*.py"))]
    # other lessons' questions change nothing here
    paths = [p for p in code if not p.name.startswith("lesson_")]
    paths += [here.questions / f"{lesson.replace('-', '_')}.py", here.root / "constraints.txt"]
    for kind in (here.source, here.lessons, here.solutions):
        paths += lesson_files(kind / lesson) if (kind / lesson).is_dir() else [kind / lesson]
    digest = hashlib.sha256(sys.version.encode())
    for path in paths:
        digest.update(path.name.encode())
        digest.update(path.read_bytes() if path.is_file() else b"missing")
    return digest.hexdigest()


def _stamps(work: Path) -> dict[str, str]:
    try:
        return json.loads((work / "stamps.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _silent(text: str, end: str = "\n") -> None:
    """Tell nobody."""


def _say(text: str, end: str = "\n") -> None:
    if end == "\n" or sys.stderr.isatty():
        print(f"\r\033[K{text}" if sys.stderr.isatty() else text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word != "--force"]
    sys.exit(main(given or None, force="--force" in sys.argv))
