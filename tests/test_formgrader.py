"""formgrader's Autograde button does what `make grade` does for one student."""

from __future__ import annotations

import json

import grading_course as tiny
import nbgrader.apps.api
import pytest
from grading_course import LESSON, hand_in, perfect
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder import formgrader
from autograder.grading import sandbox
from autograder.grading.gradebook import course_config

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(bool(sandbox.why_no_sandbox()), reason=sandbox.why_no_sandbox() or ""),
]


@pytest.fixture
def pressed(tmp_path, monkeypatch):
    """A course, and what pressing Autograde for a student of it says."""
    here = tiny.make_course(tmp_path / "a course")
    monkeypatch.setattr(nbgrader.apps.api, "Autograde", nbgrader.apps.api.Autograde)
    monkeypatch.setenv("MEMORY_BUDGET_COURSE", str(here.root))
    formgrader._load_jupyter_server_extension(None)
    config = Config()
    config.merge(course_config(here))
    api = nbgrader.apps.api.NbGraderAPI(CourseDirectory(config=config), config=config)
    return here, lambda student: api.autograde(LESSON, student)


def test_the_button_grades_one_student_in_the_sandbox(pressed):
    here, press = pressed
    hand_in(here, "Zoë Q", perfect(here))
    hand_in(here, "other", perfect(here))
    said = press("Zoë Q")
    assert said["success"], said
    assert "1 graded" in said["log"]
    assert {name: row["score"] for name, row in tiny.grades(here).items()} == {"Zoë Q": "6"}
    assert press("Zoë Q")["success"]


def test_what_the_button_cannot_do_is_said_and_harms_nothing(pressed):
    here, press = pressed
    hand_in(here, "ann", perfect(here))
    assert press("ann")["success"]
    (path,) = (here.lessons / LESSON).glob("*.ipynb")
    text = path.read_text(encoding="utf-8")
    path.unlink()
    said = press("ann")
    assert not said["success"]
    assert "run `make build`" in said["log"]
    assert tiny.graded_notebook(here, "ann").cells
    path.write_text(text, encoding="utf-8")
    assert press("ann")["success"]


def test_the_instructors_server_is_told_to_load_it(root):
    path = root / "jupyter" / "instructor" / "jupyter_server_config.d" / "instructor.json"
    assert json.loads(path.read_text())["ServerApp"]["jpserver_extensions"] == {formgrader.__name__: True}
