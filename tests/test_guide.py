"""Every command of the instructor's guide, run as it stands there on a course made for the test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import grading_course as tiny
import nbformat
import pytest
from grading_course import LESSON, NOTEBOOK

from autograder.grading import sandbox

ROOT = Path(__file__).resolve().parents[1]
GUIDE = (ROOT / "autograder" / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", GUIDE, re.S)
    for line in block.splitlines()
    if line.strip()
]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.sandbox,
    pytest.mark.skipif(bool(sandbox.why_no_sandbox()), reason=sandbox.why_no_sandbox() or ""),
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A course with the files that the commands need, and two downloads from an LMS."""
    here = tiny.make_course(tmp_path_factory.mktemp("guide") / "course")
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "nbgrader_config.py"):
        shutil.copy2(ROOT / name, here.root)
    venv = here.root / ".venv"  # the environment the tests run in, as `make` would have made it
    venv.mkdir()
    for entry in Path(sys.prefix).iterdir():
        if not entry.name.startswith(".installed"):
            (venv / entry.name).symlink_to(entry)
    (venv / ".installed").touch()
    archive = here.root / "downloaded" / LESSON / "archive"
    archive.mkdir(parents=True)
    text = nbformat.writes(tiny.perfect(here))
    with zipfile.ZipFile(archive / "moodle.zip", "w") as zipped:
        zipped.writestr(f"Jane Doe_4711_assignsubmission_file_/{NOTEBOOK}", text)
        zipped.writestr(f"Jane Doe_4713_assignsubmission_file_/{NOTEBOOK}", text)
        zipped.writestr(f"Li Wei_4712_assignsubmission_file_{NOTEBOOK}", text)
    with zipfile.ZipFile(archive / "canvas.zip", "w") as zipped:
        zipped.writestr(f"doejane_LATE_101_5555_{NOTEBOOK}", text)
    return here


@pytest.fixture(scope="module")
def environment(here, tmp_path_factory):
    settings = tmp_path_factory.mktemp("settings")
    exchange = settings / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    (settings / "nbgrader_config.py").write_text(f"c = get_config()\nc.Exchange.root = {str(exchange)!r}\n")
    return {
        **os.environ,
        "MEMORY_BUDGET_COURSE": str(here.root),
        "MEMORY_BUDGET_QUESTIONS": str(here.questions),
        "PYTHONPATH": str(ROOT),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "JUPYTER_CONFIG_PATH": str(settings),
    }


def run(command: str, here, environment) -> subprocess.CompletedProcess:
    command = command.replace("lesson-06", LESSON).replace("gradients-and-optimizer-state.ipynb", NOTEBOOK)
    return subprocess.run(
        ["sh", "-c", command],
        cwd=here.root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_command_of_the_guide_works_in_its_order(here, environment):
    for command in COMMANDS:
        if command == "make instructor":  # opens JupyterLab: its command line is tested with the lab
            continue
        done = run(command, here, environment)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    rows = tiny.grades(here)
    assert rows["ada"]["score"] == "0"
    assert {name for name in rows if rows[name]["score"] == "6"} == {
        "Jane Doe_4711",
        "Jane Doe_4713",
        "Li Wei_4712",
        "101",
    }
    assert (here.root / "autograder" / "feedback" / "Jane Doe_4711" / LESSON / "tiny-lesson.html").is_file()
    assert "Jane Doe_4711" in (here.root / "autograder" / "grades-moodle.csv").read_text(encoding="utf-8")


def test_the_guide_names_only_files_that_are_there():
    table = GUIDE[GUIDE.index("## What is where") :]
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", table):
        assert (ROOT / "autograder" / name).exists(), name
