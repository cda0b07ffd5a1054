"""A third lesson needs no change elsewhere: laid, built, linted, graded, removed in a copy of the course."""

import os
import shutil
import subprocess
import sys

import nbformat
import pytest
from conftest import ROOT

from autograder.building import build, making, new_lesson
from autograder.course import Course, course

LESSON, TITLE = "lesson-07", "Activations: what the sixteen bytes leave out"
NOTEBOOK = "activations-what-the-sixteen-bytes-leave-out.ipynb"


@pytest.fixture
def here(tmp_path):
    return Course(root=tmp_path / "a course")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The course's own code and question banks, without lessons, in a path with a space."""
    root = tmp_path_factory.mktemp("copies") / "a copy of the course"
    made = ("submitted", "autograded", "feedback", "staged", "results", "*.db", "__pycache__")
    for part in ("autograder", "memory_budget"):
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns(*made))
    shutil.copy(ROOT / "nbgrader_config.py", root)
    return root


def run(copy, *words) -> subprocess.CompletedProcess:
    """One command of the course in the copy, by the copy's own code."""
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONWARNINGS": "default"}
    command = [sys.executable, "-m", "autograder", *words]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_a_new_lesson_is_laid_built_graded_and_removed_without_any_other_change(copy):
    before = files(copy)
    laid = run(copy, "new-lesson", LESSON, "--title", TITLE)
    assert laid.returncode == 0, laid.stderr
    assert files(copy) - before == {f"source/{LESSON}/{NOTEBOOK}", "autograder/questions/lesson_07.py"}

    built = run(copy, "build", LESSON)
    assert built.returncode == 0, built.stderr
    assert (copy / "lessons" / LESSON / NOTEBOOK).is_file()
    assert (copy / "solutions" / LESSON / NOTEBOOK).is_file()

    submit(copy, "perfect", {"example_07_gb = None  # GB": "example_07_gb = 2"})
    submit(copy, "blank", {})
    graded = run(copy, "grade", LESSON)
    assert graded.returncode == 0, graded.stderr
    rows = (copy / "autograder" / "grades.csv").read_text().splitlines()
    scores = {row.split(",")[0]: float(row.split(",")[2]) for row in rows[1:]}
    assert scores == {"perfect": 1.0, "blank": 0.0}

    shutil.rmtree(copy / "source" / LESSON)
    (copy / "autograder" / "questions" / "lesson_07.py").unlink()
    assert run(copy, "build").returncode == 0
    assert not (copy / "lessons" / LESSON).exists()
    assert not (copy / "solutions" / LESSON).exists()


def files(root) -> set[str]:
    there = [path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(root).as_posix() for path in there}


def submit(copy, student, changes) -> None:
    notebook = nbformat.read(copy / "lessons" / LESSON / NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        for old, new in changes.items():
            cell.source = cell.source.replace(old, new)
    folder = copy / "autograder" / "submitted" / student / LESSON
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / NOTEBOOK)


def test_a_new_lesson_lints_clean(here):
    new_lesson.new_lesson(here, LESSON, TITLE)
    assert making.source_faults(here, LESSON) == []


def test_a_new_lesson_builds_at_once(here):
    new_lesson.new_lesson(here, LESSON, TITLE)
    build.build(here)
    assert (here.lessons / LESSON / NOTEBOOK).is_file()


def test_a_new_lesson_has_every_section():
    text = "\n".join(cell.source for cell in new_lesson.template(LESSON, TITLE).cells)
    for heading in ("Warm-up", "Know this", "Practice", "Real-world reps", "Going further", "Not landing?"):
        assert f"## {heading}\n" in text


def test_the_notebook_may_be_named(here):
    new_lesson.new_lesson(here, LESSON, TITLE, "activations")
    assert (here.source / LESSON / "activations.ipynb").is_file()


@pytest.mark.parametrize("title", ['It costs "nothing"', "Back \\ slash", "Ünïcode: größer", "100% {braces}"])
def test_any_title_gives_a_lesson_that_can_be_read(here, title):
    new_lesson.new_lesson(here, LESSON, title)
    assert making.source_faults(here, LESSON) == []


@pytest.mark.parametrize(
    ("lesson", "title", "slug", "says"),
    [
        ("lesson7", TITLE, None, "named lesson-NN"),
        ("lesson-7", TITLE, None, "named lesson-NN"),
        ("../lesson-07", TITLE, None, "named lesson-NN"),
        (LESSON, " ", None, "needs a TITLE"),
        (LESSON, "two\nlines", None, "one line"),
        (LESSON, "???", None, "--slug"),
        (LESSON, TITLE, "../up", "--slug"),
    ],
)
def test_a_bad_name_is_one_clear_line_and_lays_nothing(here, lesson, title, slug, says):
    with pytest.raises(ValueError, match=r"lesson|TITLE|slug") as caught:
        new_lesson.new_lesson(here, lesson, title, slug)
    assert says in str(caught.value)
    assert not here.root.exists()


def test_what_is_there_already_is_never_written_over(here):
    new_lesson.new_lesson(here, LESSON, TITLE)
    with pytest.raises(ValueError, match="is there already"):
        new_lesson.new_lesson(here, LESSON, "Another")


def test_the_command_says_what_was_laid_and_what_comes_next(here, monkeypatch, capsys):
    monkeypatch.setenv("MEMORY_BUDGET_COURSE", str(here.root))
    here.root.mkdir()
    assert new_lesson.main(LESSON, TITLE) == 0
    assert f"make build LESSON={LESSON}" in capsys.readouterr().out
    assert new_lesson.main(LESSON, TITLE) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_course_is_found_from_the_package_or_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("MEMORY_BUDGET_COURSE", raising=False)
    assert course().root == ROOT
    monkeypatch.setenv("MEMORY_BUDGET_COURSE", str(tmp_path))
    assert course().root == tmp_path.resolve()
