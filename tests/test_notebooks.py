"""Every notebook replays: solutions/ with the outputs it keeps, lessons/ without an error."""

import os
import subprocess
import sys

import nbformat
import pytest
from conftest import ROOT, lesson_names

LESSONS = lesson_names()


def only_notebook(kind: str, lesson: str):
    (path,) = (ROOT / kind / lesson).glob("*.ipynb")
    return path


def replay(path, *, compare: bool) -> subprocess.CompletedProcess:
    """Run one notebook by nbval in a process of its own, as a learner's CI would."""
    command = [sys.executable, "-m", "pytest", "--nbval" if compare else "--nbval-lax", "--nbval-current-env"]
    command += [
        "--nbval-cell-timeout=120",
        "--nbval-kernel-startup-timeout=120",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    command += ["-p", "no:xdist", "--nbval-sanitize-with", str(ROOT / "tests/nbval_sanitize.cfg")]
    command += ["-o", "filterwarnings=default", "-o", "addopts=", str(path)]
    outer = ("NBGRADER_EXECUTION", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST")
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_solution_replays_with_the_outputs_it_keeps(lesson):
    answer = replay(only_notebook("solutions", lesson), compare=True)
    assert answer.returncode == 0, answer.stdout[-8000:] + answer.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_lesson_runs_to_its_end_while_nothing_is_answered(lesson):
    answer = replay(only_notebook("lessons", lesson), compare=False)
    assert answer.returncode == 0, answer.stdout[-8000:] + answer.stderr[-2000:]


@pytest.mark.parametrize("lesson", LESSONS)
def test_source_and_lesson_are_committed_without_outputs(lesson):
    for kind in ("source", "lessons"):
        notebook = nbformat.read(only_notebook(kind, lesson), as_version=4)
        assert [cell.id for cell in notebook.cells if cell.get("outputs")] == [], kind


@pytest.mark.parametrize("lesson", LESSONS)
def test_solution_keeps_the_outputs_of_its_pictures(lesson):
    notebook = nbformat.read(only_notebook("solutions", lesson), as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("text/html" in output.get("data", {}) for output in outputs)
    assert [output for output in outputs if output.output_type == "error"] == []


@pytest.mark.slow
def test_replay_notices_an_output_that_changed(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(6 * 7)", execution_count=1)])
    notebook.cells[0].outputs = [nbformat.v4.new_output("stream", name="stdout", text="41\n")]
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "wrong.ipynb")
    assert replay(tmp_path / "wrong.ipynb", compare=True).returncode == 1
