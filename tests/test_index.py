"""The index that JupyterLab opens on, the README's table, and the learner's own progress."""

import json
import re

import pytest
import tiny_course
from conftest import ROOT, lesson_names

from autograder import cells as made
from autograder import questions
from autograder.building import index
from autograder.course import PICTURE, course
from autograder.how_far import how_far, number

HERE = course(ROOT)


@pytest.fixture
def here(tmp_path):
    return tiny_course.tiny_course(tmp_path / "a course")


def test_the_index_names_every_lesson_with_its_questions():
    said = {lesson.id: lesson.questions for lesson in index.lessons(HERE)}
    assert said == {lesson: len(questions.bank(lesson)) for lesson in lesson_names()}


def test_the_made_index_is_current():
    assert made.read(HERE.lessons / "index.ipynb") == index.notebook(HERE), "run make build"


def test_every_link_of_the_index_leads_to_a_file():
    text = made.read(HERE.lessons / "index.ipynb").cells[0].source
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > len(lesson_names())
    assert [link for link in links if not (HERE.lessons / link).is_file()] == []


def test_the_readmes_table_of_lessons_is_in_step_with_their_metadata():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == index.with_table(readme, HERE), "run make build"


def test_the_readmes_picture_shows_and_says_what_the_bars_do():
    words, drawing = index.picture()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == index.with_picture(readme, words), "run make build"
    assert (HERE.lessons / PICTURE).read_text(encoding="utf-8") == drawing, "run make build"
    assert f"![{words}](lessons/{PICTURE})" in readme


def test_a_row_tells_title_questions_minutes_prerequisites_and_gpu(here):
    (row,) = index.table(here).splitlines()[2:]
    assert row == "| [3. A tiny lesson](lesson-03/tiny.ipynb) | 4 | 5 | 2 | no |"


def test_a_prerequisite_that_exists_is_a_link(here):
    notebook = tiny_course.read(here)
    notebook.metadata.memory_budget.update(lesson="lesson-04", after=["lesson-03"])
    made.save(notebook, here.source / "lesson-04" / "next.ipynb")
    assert "| [3](lesson-03/tiny.ipynb) |" in index.table(here).splitlines()[3]


def test_lessons_still_to_be_written_are_named(here):
    assert "(2) are still to be written" in index.notebook(here).cells[0].source


def test_a_readme_without_the_marks_is_told():
    with pytest.raises(ValueError, match="the README has no <!-- lessons: begin -->"):
        index.with_table("# A readme", HERE)


def test_the_table_is_written_between_the_marks_alone(here):
    text = f"before\n{index.BEGIN}\nold\n{index.END}\nafter"
    fresh = index.with_table(text, here)
    assert fresh.startswith(f"before\n{index.BEGIN}\n| lesson |")
    assert fresh.endswith(f"| no |\n{index.END}\nafter")
    assert "lessons/lesson-03/tiny.ipynb" in fresh
    assert index.with_table(fresh, here) == fresh


def test_the_learners_progress_is_shown_as_a_table_and_in_words(tmp_path, monkeypatch):
    lesson = lesson_names()[0]
    first, second, *_ = questions.bank(lesson)
    kept = tmp_path / "progress.json"
    kept.write_text(json.dumps({lesson: [first, second, "no such question"]}))
    monkeypatch.setenv("MEMORY_BUDGET_PROGRESS", str(kept))
    there = len(questions.bank(lesson))
    shown = how_far()
    assert f"Lesson {number(lesson)}: 2 of {there} right so far" in repr(shown)
    assert f'<progress value="2" max="{there}" aria-label="2 of {there} right">' in shown._repr_html_()


def test_progress_that_cannot_be_read_counts_as_none(tmp_path, monkeypatch):
    kept = tmp_path / "progress.json"
    kept.write_text("not json")
    monkeypatch.setenv("MEMORY_BUDGET_PROGRESS", str(kept))
    assert all(f": 0 of {len(questions.bank(lesson))} " in repr(how_far()) for lesson in lesson_names())


def test_the_index_cell_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORY_BUDGET_PROGRESS", str(tmp_path / "none.json"))
    (cell,) = [cell for cell in index.notebook(HERE).cells if cell.cell_type == "code"]
    *most, last = cell.source.split("\n")
    names = {}
    exec("\n".join(most), names)
    assert "right so far" in repr(eval(last, names))
