"""Submissions of lesson 6 for the tests of grading: the released lesson with some answers filled in."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

import nbformat

from autograder import cells as made
from autograder.building.answered import answered_source
from autograder.building.release import release
from autograder.course import course
from autograder.grading import grader
from autograder.grading.grader import Job

LESSON = "lesson-06"
NAME = "gradients-and-optimizer-state"
#: two answers that are right, one above and one below the cell that is attacked
RIGHT = {"weights_7b_gb": "weights_7b_gb = 14", "cards_needed": "cards_needed = 9"}


@functools.cache
def released_text() -> str:
    """The lesson as it is handed out, made from its source."""
    with tempfile.TemporaryDirectory() as folder:
        return release(LESSON, course(), Path(folder) / "out").read_text(encoding="utf-8")


@functools.cache
def questions_text() -> str:
    """The released lesson without its demonstrations: its questions and imports, quick to run."""
    notebook = nbformat.reads(released_text(), as_version=4)
    notebook.cells = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "markdown" or cell.metadata.get("nbgrader") or "import check" in cell.source
    ]
    for cell in notebook.cells:
        if "import check" in cell.source:
            cell.source = "from autograder import check"
    return nbformat.writes(notebook)


@functools.cache
def solutions() -> dict[str, str]:
    """The lesson's own solution of each question."""
    source = made.read(course().source_notebook(LESSON))
    return {made.question_name(c): answered_source(c.source) for c in source.cells if made.is_answer(c)}


def submission(answers: dict[str, str], text: str | None = None) -> nbformat.NotebookNode:
    """A lesson (by default its questions alone) with the source of some answer cells replaced."""
    notebook = nbformat.reads(text or questions_text(), as_version=4)
    for cell in notebook.cells:
        name = made.question_name(cell)
        if made.is_answer(cell) and name in answers:
            cell.source = answers[name]
    return notebook


def job(notebook: nbformat.NotebookNode | bytes, *, student: str = "somebody", seed: int = 1, **more) -> Job:
    """The job of grading a notebook; the lesson's own cells are taken as run."""
    body = notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()
    limits = {"cell_s": 2.0, "total_s": 120.0, **more.pop("limits", {})}
    more.setdefault("reference", {})
    return Job(
        student=student,
        lesson=LESSON,
        lesson_name=NAME,
        lesson_text=more.pop("text", None) or questions_text(),
        notebook=body,
        seed=seed,
        limits=limits,
        **more,
    )


def grade(notebook: nbformat.NotebookNode | bytes, **more) -> dict:
    """The result of grading a notebook."""
    return grader.grade_submission(job(notebook, **more))


def earned(result: dict) -> dict[str, float]:
    """Scores by question, without those that earned nothing."""
    return {name: v["score"] for name, v in result["verdicts"].items() if v["score"]}


def kinds(result: dict) -> set[str]:
    """Kinds of incidents."""
    return {incident["kind"] for incident in result["incidents"]}
