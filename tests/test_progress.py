"""Progress: what is right stays noted in the learner's own file, and nothing breaks when it cannot be."""

import json
import os

import pytest

from autograder import progress, questions


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    chosen = tmp_path / "a new folder" / "progress.json"
    monkeypatch.setenv("MEMORY_BUDGET_PROGRESS", str(chosen))
    return chosen


def test_nothing_is_right_at_first(file):
    assert progress.load() == {}
    assert progress.right_so_far("lesson-06") == (0, len(questions.bank("lesson-06")))


def test_what_is_right_once_stays_so(file):
    progress.record("lesson-06", "weights_7b_gb", True)
    progress.record("lesson-06", "weights_7b_gb", False)
    progress.record("lesson-06", "weights_7b_gb", True)
    progress.record("lesson-06", "adamw_state", True)
    assert progress.right_so_far("lesson-06")[0] == 2
    assert progress.right_so_far("lesson-01")[0] == 0
    assert json.loads(file.read_text()) == {"lesson-06": ["adamw_state", "weights_7b_gb"]}


def test_what_is_not_right_writes_nothing(file):
    progress.record("lesson-06", "weights_7b_gb", False)
    assert not file.exists()


def test_a_question_that_is_gone_is_not_counted(file):
    progress.record("lesson-06", "of_an_older_edition", True)
    assert progress.right_so_far("lesson-06")[0] == 0


@pytest.mark.parametrize("spoilt", ["", "{", "[]", '{"lesson-06": 3}', '{"lesson-06": [3]}', "\x00"])
def test_a_spoilt_file_counts_as_empty_and_is_replaced(file, spoilt):
    file.parent.mkdir()
    file.write_text(spoilt)
    assert progress.right_so_far("lesson-06")[0] == 0
    progress.record("lesson-06", "weights_7b_gb", True)
    assert progress.right_so_far("lesson-06")[0] == 1


def test_a_file_that_cannot_be_written_is_no_error(file, monkeypatch):
    monkeypatch.setenv("MEMORY_BUDGET_PROGRESS", str(file.parent / "x" / "y.json"))
    file.parent.mkdir()
    (file.parent / "x").write_text("a file where a folder should be")
    progress.record("lesson-06", "weights_7b_gb", True)
    assert progress.load() == {}


def test_nothing_is_kept_while_grading(file, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    progress.record("lesson-06", "weights_7b_gb", True)
    assert not file.exists()


@pytest.mark.parametrize("word", ["off", "OFF", os.devnull])
def test_it_can_be_switched_off(monkeypatch, word):
    monkeypatch.setenv("MEMORY_BUDGET_PROGRESS", word)
    assert progress.path() is None


def test_the_file_of_whoever_runs_the_tests_is_left_alone(monkeypatch):
    monkeypatch.delenv("MEMORY_BUDGET_PROGRESS", raising=False)
    assert progress.path() is None


def test_a_device_is_never_replaced_by_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("MEMORY_BUDGET_PROGRESS", str(tmp_path))
    progress.record("lesson-06", "weights_7b_gb", True)
    assert tmp_path.is_dir()
    assert not list(tmp_path.iterdir())
