"""A course small enough to grade in a test: one lesson, five questions, no torch."""

from __future__ import annotations

import copy
import csv
import json
from pathlib import Path

import nbformat

from autograder import cells as made
from autograder.building.release import release
from autograder.course import Course

LESSON = "lesson-90"
NOTEBOOK = "tiny-lesson.ipynb"

BANK = '''"""Questions of a lesson made for tests."""

from autograder.kinds import Choice, Function, Idea, Number, Slip, Text


def _inputs(rng):
    return [(rng.randint(10, 10**6),) for _ in range(3)]


QUESTIONS = [
    Number(
        name="tiny_weights_gb",
        points=1,
        prompt="weights of a 7B model in 2 bytes each",
        right=14,
        unit="GB",
        slips=(Slip(name="fp32", value=28, how="4 bytes a weight", message="How many bytes has a value in 16 bits?"),),
    ),
    Choice(
        name="tiny_choice",
        points=1,
        prompt="which letter",
        options={"a": "the first", "b": "the second", "c": "the third"},
        right="b",
        slips=(Slip(name="a", value="a", message="Is it the first?"), Slip(name="c", value="c", message="The third?")),
    ),
    Function(
        name="tiny_double",
        points=2,
        prompt="twice the number",
        signature="tiny_double(n: int) -> int",
        reference=lambda n: 2 * n,
        inputs=_inputs,
        example=(3,),
        slips=(Slip(name="square", value=lambda n: n * n, message="That grows too fast. Is it twice or itself?"),),
        right_sources=("def tiny_double(n):\\n    return n + n",),
    ),
    Number(
        name="tiny_total_gb",
        points=2,
        prompt="training a 3B model",
        right=48,
        unit="GB",
        slips=(Slip(name="weights", value=6, how="2 bytes", message="Is that all that training keeps?"),),
    ),
    Text(
        name="tiny_why",
        points=2,
        prompt="why",
        ideas=(Idea(name="what is saved", all_of=(r"sav",)),),
        mark_scheme="2 points: what is saved",
        examples=("It saves four bytes.",),
    ),
]
'''

SOLUTIONS = {
    "tiny_weights_gb": "tiny_weights_gb = 7e9 * 2 / 1e9",
    "tiny_choice": 'tiny_choice = "b"',
    "tiny_double": "def tiny_double(n):\n    return 2 * n",
    "tiny_total_gb": "tiny_total_gb = 48",
    "tiny_why": 'tiny_why = """It saves four bytes."""',
}


def source_notebook() -> nbformat.NotebookNode:
    """The tiny lesson as an author writes it."""
    return made.notebook(
        [
            made.markdown("# A tiny lesson\n\nIt exists to be graded.", "title"),
            made.code("import math\n\nfrom autograder import check", "setup"),
            made.code("table = [math.sqrt(n) for n in range(3)]\ntable", "demo"),
            made.answer("tiny_weights_gb", SOLUTIONS["tiny_weights_gb"], comment="GB"),
            made.check("tiny_weights_gb", points=1),
            made.code("print('you said', tiny_weights_gb)", "echo"),
            made.answer("tiny_choice", SOLUTIONS["tiny_choice"]),
            made.check("tiny_choice", points=1),
            made.answer(
                "tiny_double", "return 2 * n", stub='def tiny_double(n: int) -> int:\n    """Twice n."""'
            ),
            made.check("tiny_double", points=2),
            made.answer("tiny_total_gb", SOLUTIONS["tiny_total_gb"], comment="GB"),
            made.check("tiny_total_gb", points=2),
            made.written("tiny_why", "It saves four bytes.", points=2),
            made.markdown("That was all.", "end"),
        ],
        lesson=LESSON,
        title="A tiny lesson",
        minutes=1,
        after=[],
        gpu="not needed",
    )


def make_course(root: Path) -> Course:
    """A course with the tiny lesson built, and nothing handed in."""
    here = Course(root=root)
    made.save(source_notebook(), here.source / LESSON / NOTEBOOK)
    here.questions.mkdir(parents=True)
    (here.questions / "lesson_90.py").write_text(BANK, encoding="utf-8")
    release(LESSON, here, here.lessons / LESSON)
    (root / "autograder" / "submitted").mkdir()
    return here


def lesson_notebook(here: Course) -> nbformat.NotebookNode:
    """The lesson as it is handed out."""
    return nbformat.read(here.lessons / LESSON / NOTEBOOK, as_version=4)


def answered(here: Course, answers: dict[str, str]) -> nbformat.NotebookNode:
    """The lesson with the source of some answers filled in."""
    notebook = copy.deepcopy(lesson_notebook(here))
    for cell in notebook.cells:
        name = made.question_name(cell)
        if made.is_answer(cell) and name in answers:
            cell.source = answers[name]
    return notebook


def perfect(here: Course, **changes: str) -> nbformat.NotebookNode:
    """The lesson answered rightly, but for `changes`."""
    return answered(here, {**SOLUTIONS, **changes})


def hand_in(here: Course, student: str, notebook, name: str = NOTEBOOK, lesson: str = LESSON) -> Path:
    """Put a notebook (or raw bytes or text) where a student's submission lies."""
    path = here.root / "autograder" / "submitted" / student / lesson / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(notebook, bytes):
        path.write_bytes(notebook)
    elif isinstance(notebook, str):
        path.write_text(notebook, encoding="utf-8")
    else:
        path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def grades(here: Course) -> dict[str, dict[str, str]]:
    """The rows of grades.csv by student."""
    with open(here.root / "autograder" / "grades.csv", encoding="utf-8", newline="") as table:
        return {row["student"]: row for row in csv.DictReader(table)}


def graded_notebook(here: Course, student: str) -> nbformat.NotebookNode:
    """A student's notebook as nbgrader keeps it after grading."""
    return nbformat.read(here.root / "autograder" / "autograded" / student / LESSON / NOTEBOOK, as_version=4)
