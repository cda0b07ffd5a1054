"""A stop loses nothing: killed at any moment and run again, grading ends where an unbroken run does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import grading_course as tiny
import pytest
from grading_course import LESSON, hand_in, perfect

from autograder.course import Course
from autograder.grading import grade as grading
from autograder.grading import sandbox
from autograder.grading.gradebook import Book

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(bool(sandbox.why_no_sandbox()), reason=sandbox.why_no_sandbox() or ""),
]
ROOT = Path(__file__).resolve().parents[1]


def start(here: Course, *more: str) -> subprocess.Popen:
    """`make grade`, in a process of its own."""
    environment = {**os.environ, "MEMORY_BUDGET_COURSE": str(here.root), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "autograder", "grade", LESSON, "--jobs", "2", "--seed", "3", *more]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=here.root
    )


def contents(here: Course) -> tuple[list[tuple], bytes]:
    """All marks in the gradebook, and grades.csv."""
    marks = []
    with Book(here, here.root / "x").open() as book:
        for submission in book.find_assignment(LESSON).submissions:
            for notebook in submission.notebooks:
                for g in notebook.grades:
                    needs = bool(g.needs_manual_grade)
                    marks.append((submission.student_id, g.name, g.auto_score, g.manual_score, needs))
    return sorted(marks), (here.root / "autograder" / "grades.csv").read_bytes()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Course:
    """Five students graded in one go."""
    here = tiny.make_course(tmp_path_factory.mktemp("unbroken") / "course")
    for number in range(4):
        hand_in(here, f"s{number}", perfect(here, tiny_total_gb=f"tiny_total_gb = {6 * (number + 5)}"))
    hand_in(here, "s9 broken", "")
    process = start(here)
    assert process.communicate()[1] is None
    assert process.returncode == 0
    return here


def fresh_copy(unbroken: Course, into: Path) -> Course:
    """The same course with nothing graded yet."""
    shutil.copytree(
        unbroken.root, into, ignore=shutil.ignore_patterns("results", "staged", "autograded", "*.db", "*.csv")
    )
    return Course(root=into)


def after(here: Course, what: str) -> bool:
    """Whether a grading has come as far as `what`."""
    kept = here.root / "autograder"
    counts = {
        "database": len(list(kept.glob("gradebook.db*"))),
        "registered": len(list(kept.glob("results/registered-*"))),
        "reference": len(list(kept.glob(f"results/{LESSON}/reference-*.json"))),
        "staged": len(list(kept.glob("staged/*"))),
        "autograded": len(list(kept.glob("autograded/*/*/*.ipynb"))),
        "two entered": len(list(kept.glob(f"results/{LESSON}/*.entered.json"))) - 1,
    }
    return counts[what] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment", ["database", "registered", "reference", "staged", "autograded", "two entered"]
)
def test_killed_and_run_again_it_ends_as_an_unbroken_run(unbroken, tmp_path, moment):
    here = fresh_copy(unbroken, tmp_path / "course")
    process = start(here)
    until = time.monotonic() + 120
    while not after(here, moment) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = start(here)
    said = again.communicate()[0]
    assert again.returncode == 0, said
    assert contents(here) == contents(unbroken)


@pytest.mark.slow
def test_two_graders_at_once_do_not_spoil_each_other(unbroken, tmp_path):
    here = fresh_copy(unbroken, tmp_path / "course")
    both = [start(here), start(here)]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sum("waiting for it to end" in text for text in said) == 1
    assert contents(here) == contents(unbroken)


def test_marks_by_hand_survive_grading_again(tmp_path):
    here = tiny.make_course(tmp_path / "course")
    hand_in(here, "ann", perfect(here))
    hand_in(here, "bob", perfect(here, tiny_total_gb="tiny_total_gb = 6"))
    options = grading.Options(jobs=2, quiet=True)
    grading.grade(here, LESSON, options, say=lambda text: None)
    with Book(here, here.root / "x").open() as book:
        for student, question, mark in (
            ("ann", "tiny_why", 2),
            ("bob", "tiny_why", 1),
            ("bob", "tiny_total_gb", 1),
        ):
            grade = book.find_grade(question, "tiny-lesson", LESSON, student)
            grade.manual_score, grade.needs_manual_grade = mark, False
        book.db.commit()
    for path in (here.root / "autograder" / "results" / LESSON).glob("*"):
        path.unlink()  # everything is graded again
    grading.grade(here, LESSON, options, say=lambda text: None)
    rows = tiny.grades(here)
    assert (rows["ann"]["score"], rows["ann"]["needs_manual_grade"]) == ("8", "False")
    assert (rows["bob"]["score"], rows["bob"]["needs_manual_grade"]) == ("6", "False")
    hand_in(here, "ann", perfect(here, tiny_why='tiny_why = "Something new."'))
    grading.grade(here, LESSON, options, say=lambda text: None)
    row = tiny.grades(here)["ann"]
    assert (row["score"], row["needs_manual_grade"]) == ("8", "True")


def test_a_run_that_was_stopped_goes_on_with_its_seed_and_a_new_one_draws_its_own(tmp_path):
    store = grading.Store(tmp_path / "lesson")
    first = store.begin(None)
    assert store.begin(None)["seed"] == first["seed"]
    store.end(first)
    assert store.begin(None)["seed"] != first["seed"]
    assert store.begin(4)["seed"] == 4


def test_a_file_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "grades.csv"
    grading.write_whole(path, "old")

    def full(number):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        grading.write_whole(path, "new")
    assert path.read_text() == "old"
