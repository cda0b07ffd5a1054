"""Whatever is handed in, everyone gets a row with marks or a reason, and honest people keep their marks."""

from __future__ import annotations

import copy
import json
import os
import unicodedata

import grading_course as tiny
import nbformat
import pytest
from grading_course import LESSON, hand_in, perfect

from autograder.grading import grade as grading
from autograder.grading import sandbox

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(bool(sandbox.why_no_sandbox()), reason=sandbox.why_no_sandbox() or ""),
]
LIMITS = {"cell_s": 2.0, "total_s": 120.0, "memory_bytes": 2 * 2**30}


def code(source: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_code_cell(source)


def index_of(notebook, grade_id: str) -> int:
    return next(
        i for i, c in enumerate(notebook.cells) if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id
    )


def with_cell(here, source: str):
    """A perfect notebook with one more cell, at the top."""
    notebook = perfect(here)
    notebook.cells.insert(1, code(source))
    return notebook


def duplicated(here):
    notebook = perfect(here)
    for name in ("tiny_weights_gb-answer", "tiny_weights_gb", "tiny_why"):
        at = index_of(notebook, name)
        notebook.cells.insert(at + 1, copy.deepcopy(notebook.cells[at]))
    return notebook


def duplicated_stub(here):
    """The answer is in the first of two copies; the second is as it came."""
    notebook = perfect(here)
    at = index_of(notebook, "tiny_weights_gb-answer")
    again = copy.deepcopy(tiny.lesson_notebook(here).cells[at])
    notebook.cells.insert(at + 1, again)
    return notebook


def deleted(here):
    notebook = perfect(here)
    gone = {"tiny_weights_gb", "tiny_choice", "tiny_double"}
    notebook.cells = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") not in gone]
    return notebook


def moved(here):
    notebook = perfect(here)
    notebook.cells.append(notebook.cells.pop(index_of(notebook, "tiny_double-answer")))
    notebook.cells.insert(0, notebook.cells.pop(index_of(notebook, "tiny_total_gb")))
    return notebook


def edited(here):
    """The answers stand in the check cells, and the check cells say something else."""
    notebook = perfect(here, tiny_weights_gb="")
    cell = notebook.cells[index_of(notebook, "tiny_weights_gb")]
    cell.source = "tiny_weights_gb = 14\n" + cell.source
    notebook.cells[index_of(notebook, "tiny_double")].source = "assert True"
    return notebook


def stripped(here):
    notebook = perfect(here)
    for cell in notebook.cells:
        cell.metadata.clear()
        cell.id = "x" + cell.id
    notebook.metadata.clear()
    return notebook


def forged(here):
    notebook = tiny.lesson_notebook(here)
    for cell in notebook.cells:
        marks = cell.metadata.get("nbgrader")
        if marks and marks["grade"]:
            marks["points"] = 300
            marks["grade"] = marks["solution"]
            cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/plain": "300.0"})]
    return notebook


def typed_into_new_cell(here):
    notebook = tiny.lesson_notebook(here)
    for source in tiny.SOLUTIONS.values():
        notebook.cells.append(code(source))
    return notebook


def much_code(here):
    notebook = perfect(here)
    notebook.cells += [code("a = 1\n" * 33_000) for _ in range(12)]
    return notebook


HONEST = {
    "warning": lambda here: with_cell(here, "import warnings\nwarnings.warn('careful')"),
    "stderr": lambda here: with_cell(here, "import sys\nprint('hm', file=sys.stderr)"),
    "duplicated": duplicated,
    "duplicated stub": duplicated_stub,
    "deleted": deleted,
    "moved": moved,
    "edited": edited,
    "stripped": stripped,
    "new cells": typed_into_new_cell,
    "exits": lambda here: with_cell(here, "import os\nos._exit(3)"),
    "segfaults": lambda here: with_cell(here, "import ctypes\nctypes.string_at(0)"),
    "loops": lambda here: with_cell(
        here, "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    ),
    "eats memory": lambda here: with_cell(here, "x = bytearray(5 * 10**9)"),
    "prints": lambda here: with_cell(here, "for i in range(400000): print('x' * 60)"),
    "processes": lambda here: with_cell(
        here,
        "import subprocess\nps = [subprocess.Popen(['sleep', '30'], start_new_session=True) for _ in range(200)]",
    ),
    "asks": lambda here: with_cell(here, "name = input('your name? ')"),
    "sys exit": lambda here: with_cell(here, "import sys\nsys.exit(1)"),
    "bad syntax": lambda here: with_cell(here, "def f(:\n"),
    "magic": lambda here: with_cell(here, "%timeit -n1 -r1 1 + 1\n!echo hello"),
}

BROKEN = {
    "truncated": lambda here: json.dumps(perfect(here))[:-200],
    "empty": lambda here: "",
    "blanks": lambda here: " \n\n",
    "html": lambda here: "<!DOCTYPE html><html><body>Sign in</body></html>",
    "merge": lambda here: "<<<<<<< HEAD\n" + json.dumps(perfect(here)) + "\n=======\n{}\n>>>>>>> other\n",
    "binary": lambda here: b"PK\x03\x04\x00\x00\x00\x00" + os.urandom(2000),
    "list": lambda here: "[1, 2]",
    "no cells": lambda here: '{"cells": []}',
    "deep": lambda here: "[" * 200_000,
    "long number": lambda here: '{"cells": ' + "9" * 10_000 + "}",
    "other lesson": lambda here: json.dumps(perfect(here)).replace(LESSON, "lesson-01"),
    "worksheets": lambda here: '{"worksheets": [{"cells": 5}, 7]}',
    "long code": lambda here: json.dumps(with_cell(here, "a = 1\n" * 40_000)),
    "much code": lambda here: json.dumps(much_code(here)),
    "something else": lambda here: json.dumps(nbformat.v4.new_notebook(cells=[code("1 + 1")])),
}
SAYS = {
    "truncated": "it ends in the middle",
    "empty": "the file is empty",
    "blanks": "the file is empty",
    "html": "a web page",
    "merge": "unfinished git merge",
    "binary": "it is not text",
    "list": "no notebook",
    "no cells": "the notebook is empty",
    "deep": "nested too deeply",
    "long number": "damaged",
    "other lesson": "this is the notebook of lesson-01",
    "worksheets": "the notebook is empty",
    "long code": "a code cell is longer than 200,000 characters",
    "much code": "at most 2,000,000 are read",
    "something else": "not the notebook of lesson-90",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A course in which everything that can be handed in has been, graded once."""
    here = tiny.make_course(tmp_path_factory.mktemp("a course, with spaces") / "course")
    for name, make in {**HONEST, **BROKEN}.items():
        hand_in(here, name, make(here))
    hand_in(here, "forged", forged(here))
    hand_in(here, "utf-16", json.dumps(perfect(here), ensure_ascii=False).encode("utf-16"))
    latin = perfect(here)
    latin.cells.insert(1, nbformat.v4.new_markdown_cell("Müller, naïve"))
    hand_in(here, "latin", json.dumps(latin, ensure_ascii=False).encode("cp1252"))
    kernel = perfect(here)
    kernel.metadata["kernelspec"] = {"name": "julia-1.9", "display_name": "Julia", "language": "julia"}
    hand_in(here, "wrong kernel", kernel)
    bare = perfect(here)
    bare.metadata.pop("kernelspec")
    hand_in(here, "no kernel", bare)
    hand_in(here, "renamed", perfect(here), name="Final version 2.ipynb")
    hand_in(here, "browser copy", tiny.lesson_notebook(here))
    hand_in(here, "browser copy", perfect(here), name="tiny-lesson (1).ipynb")
    hand_in(here, "saved as text", perfect(here), name="tiny-lesson.ipynb.txt")
    hand_in(here, "in a folder", perfect(here), name="download/tiny-lesson.ipynb")
    hand_in(here, "extra files", perfect(here))
    hand_in(here, "extra files", "raise SystemExit", name="math.py")
    hand_in(here, "extra files", "#!/bin/sh\nrm -rf /", name="setup.sh")
    hand_in(here, "no notebook", "hello", name="essay.docx")
    hand_in(here, "bad time", perfect(here))
    hand_in(here, "bad time", "yesterday-ish", name="timestamp.txt")
    hand_in(here, "good time", perfect(here))
    hand_in(here, "good time", "2026-01-31 12:00:00 UTC", name="timestamp.txt")
    stub = perfect(here, tiny_double="def tiny_double(n):\n    raise NotImplementedError\n    return 2 * n")
    hand_in(here, "stub raises", stub)
    for student in ("Zoë Müller", "o'brien.jr", "back\\slash", "[glob]*", "=1+1", "-dash", "{curly}"):
        hand_in(here, student, perfect(here))
    hand_in(here, unicodedata.normalize("NFC", "José"), perfect(here))
    hand_in(here, unicodedata.normalize("NFD", "José"), perfect(here))
    hand_in(here, "twice", tiny.lesson_notebook(here))
    hand_in(here, " twice ", perfect(here))
    hand_in(here, "TWICE", perfect(here))
    hand_in(here, "Straße", perfect(here))
    hand_in(here, "Strasse", tiny.lesson_notebook(here))
    os.utime(here.root / "autograder/submitted/twice" / LESSON / tiny.NOTEBOOK, (1, 1))
    linked = here.root / "autograder" / "submitted" / "linked" / LESSON
    linked.mkdir(parents=True)
    (linked / tiny.NOTEBOOK).symlink_to(here.lessons / LESSON / tiny.NOTEBOOK)
    (here.root / "autograder" / "submitted" / "linked folder").symlink_to(here.root)
    pipe = here.root / "autograder" / "submitted" / "pipe" / LESSON
    pipe.mkdir(parents=True)
    os.mkfifo(pipe / tiny.NOTEBOOK)
    huge = hand_in(here, "huge", "x")
    with huge.open("wb") as opened:
        opened.truncate(200 * 10**6)
    for name in (b"J\xf6rg", b"J\xe4rg", "zo\u200be".encode(), "zo\u200ce".encode()):
        hand_in(
            here,
            os.fsdecode(name),
            perfect(here) if name.endswith((b"\xf6rg", b"\x8be")) else tiny.lesson_notebook(here),
        )
    hand_in(here, "J%F6rg", perfect(here))
    shows = perfect(here)
    many = "from IPython.display import display\nfor i in range(90): display(i)"
    shows.cells += [nbformat.v4.new_code_cell(many) for _ in range(40)]
    shows.cells += [nbformat.v4.new_raw_cell("<" * 900_000) for _ in range(15)]
    hand_in(here, "shows much", shows)
    hand_in(here, "perfect", perfect(here))
    code_ = grading.grade(
        here, LESSON, grading.Options(jobs=2, limits=LIMITS, quiet=True), say=lambda text: None
    )
    assert code_ == 0
    return here


@pytest.fixture(scope="module")
def rows(here):
    return tiny.grades(here)


@pytest.mark.parametrize("student", HONEST)
def test_honest_work_keeps_its_marks(rows, student):
    assert rows[student]["score"] == "6", rows[student]["note"]
    assert rows[student]["needs_manual_grade"] == "True"


@pytest.mark.parametrize("student", BROKEN)
def test_a_file_that_cannot_be_graded_gets_a_line_with_its_reason(rows, student):
    assert rows[student]["score"] == "0"
    assert "not graded" in rows[student]["note"]
    assert SAYS[student] in rows[student]["note"]
    assert "\n" not in rows[student]["note"]


def test_forged_metadata_and_outputs_earn_nothing(rows):
    assert rows["forged"]["score"] == "0"
    assert rows["forged"]["max_score"] == "8"


@pytest.mark.parametrize(
    "student",
    [
        "utf-16",
        "latin",
        "wrong kernel",
        "no kernel",
        "renamed",
        "browser copy",
        "saved as text",
        "in a folder",
        "extra files",
        "bad time",
        "good time",
        "Zoë Müller",
        "o'brien.jr",
        "back\\slash",
        "[glob]*",
        "{curly}",
        "José",
        "perfect",
    ],
)
def test_odd_names_kernels_encodings_and_copies_are_graded(rows, student):
    assert rows[student]["score"] == "6", rows[student]["note"]


@pytest.mark.parametrize(
    ("student", "says"),
    [
        ("renamed", "graded 'Final version 2.ipynb'"),
        ("browser copy", "not graded: 'tiny-lesson.ipynb' (another copy)"),
        ("extra files", "other files were ignored: 'math.py', 'setup.sh'"),
        ("no notebook", "no notebook in the folder"),
        ("bad time", "timestamp.txt is not a date"),
        ("stub raises", "a `raise` in line 2 stands above the answer"),
        ("duplicated", "copies of this cell"),
        ("deleted", "put back"),
        ("latin", "not UTF-8"),
        ("José", "handed in twice"),
        ("linked", "symbolic link"),
        ("linked folder", "symbolic link"),
        ("pipe", "not a regular file"),
        ("huge", "larger than"),
        ("exits", "ended Python (exit 3)"),
        ("segfaults", "SIGSEGV"),
        ("loops", "cell 2: time ("),
        ("processes", "more than 64 processes"),
    ],
)
def test_the_note_says_what_happened(rows, student, says):
    assert says in rows[student]["note"]


def test_the_same_student_twice_is_one_row_with_the_newest_work(rows):
    assert rows["twice"]["score"] == "6"
    assert "handed in twice: graded ' twice ', not 'twice'" in rows["twice"]["note"]
    assert sum(name.strip() == "twice" for name in rows) == 1
    assert sum("Jos" in name for name in rows) == 1


def test_people_whose_names_differ_in_capitals_or_letters_are_different_people(rows):
    assert "handed in twice" not in rows["TWICE"]["note"]
    assert (rows["Straße"]["score"], rows["Strasse"]["score"]) == ("6", "0")


def test_people_whose_names_cannot_be_read_or_seen_are_not_one(rows):
    scores = {
        name: rows[name]["score"] for name in ("J%F6rg", "J%E4rg", "zo%E2%80%8Be", "zo%E2%80%8Ce", "J%25F6rg")
    }
    assert list(scores.values()) == ["6", "0", "6", "0", "6"]


def test_what_a_notebook_shows_is_cut_in_sum_and_costs_no_mark(here, rows):
    assert rows["shows much"]["score"] == "6"
    assert "it shows more than 30 MB and 2,000 outputs" in rows["shows much"]["note"]
    notebook = tiny.graded_notebook(here, "shows much")
    assert sum(len(cell.get("outputs", [])) for cell in notebook.cells) < 2_100
    assert len(json.dumps(notebook)) < 40 * 10**6


def test_no_cell_of_grades_csv_is_a_formula(here):
    text = (here.root / "autograder" / "grades.csv").read_text(encoding="utf-8")
    assert "\n=1+1" not in text
    assert "'=1+1" in text
    assert "\n-dash" not in text


def test_a_raise_above_a_return_costs_that_question_only(rows):
    assert rows["stub raises"]["score"] == "4"


def test_everyone_is_in_the_report_once(here, rows):
    report = (here.root / "autograder" / f"report-{LESSON}.md").read_text(encoding="utf-8")
    assert report.count("\n| ") == len(rows) + 2


def test_what_was_handed_in_is_as_it_was(here):
    path = here.root / "autograder" / "submitted" / "perfect" / LESSON / tiny.NOTEBOOK
    assert json.loads(path.read_text()) == json.loads(json.dumps(perfect(here)))


def test_prints_of_24_megabytes_are_cut_in_the_graded_notebook(here):
    text = json.dumps(tiny.graded_notebook(here, "prints"))
    assert "output cut here" in text
    assert len(text) < 400_000


def test_the_timestamp_reaches_the_gradebook(here):
    from autograder.grading.gradebook import Book

    with Book(here, here.root / "x").open() as book:
        assert str(book.find_submission(LESSON, "good time").timestamp) == "2026-01-31 12:00:00"
