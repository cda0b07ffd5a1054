"""The environment is told once: conda's file, the pinned versions and the Makefile follow pyproject.toml."""

import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
import yaml
from conftest import ROOT
from packaging.requirements import Requirement

# the names that conda-forge gives to packages PyPI knows by another name
CONDA_NAMES = {"torch": "pytorch"}


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements(group: str | None = None) -> dict[str, Requirement]:
    texts = project()["optional-dependencies"][group] if group else project()["dependencies"]
    return {found.name: found for found in map(Requirement, texts)}


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def conda() -> dict[str, Requirement]:
    entries = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    return {found.name: found for found in map(Requirement, (e for e in entries if isinstance(e, str)))}


def test_conda_environment_has_every_dependency_with_the_same_range():
    wanted = requirements() | {"nbval": requirements("test")["nbval"]}
    found = conda()
    for name, requirement in wanted.items():
        assert found[CONDA_NAMES.get(name, name)].specifier == requirement.specifier, name
    assert set(found) - {"python", "pip"} == {CONDA_NAMES.get(name, name) for name in wanted}


def test_conda_environment_has_the_fixed_stack_and_the_project_itself():
    entries = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert {"jupyterlab", "nbgrader", "pytorch", "matplotlib", "ipywidgets", "nbval"} <= set(conda())
    assert entries[-1] == {"pip": ["--editable ."]}
    assert str(conda()["python"].specifier) == project()["requires-python"]


def test_every_dependency_is_pinned_to_a_version_inside_its_range():
    wanted = requirements()
    for group in project()["optional-dependencies"]:
        wanted |= requirements(group)
    wanted.pop("memory-budget")
    known = {name.lower(): version for name, version in pins().items()}
    for name, requirement in wanted.items():
        assert known.get(name.lower()) in requirement.specifier, name


def test_torch_is_pinned_to_the_version_the_course_was_tested_with():
    assert pins()["torch"] == "2.13.0"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not on this machine")
@pytest.mark.parametrize("target", ["lab", "test"])
def test_make_says_in_one_line_that_python_is_too_old(tmp_path, target):
    old = tmp_path / "python-old"
    old.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "raise SystemExit(1)"\n')
    old.chmod(0o755)
    # `make test` may run this: the inner make must not know of the outer one, which would make it say more
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    command = ["make", target, f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert answer.returncode != 0
    said = answer.stdout.strip().splitlines()
    assert len(said) == 1
    assert "needs Python 3.11 or newer" in said[0]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not on this machine")
def test_make_lists_its_targets():
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    for target in ("lab", "test", "build", "grade", "feedback", "instructor", "new-lesson"):
        assert re.search(rf"^{target}\s", said, re.MULTILINE), target


def test_no_absolute_path_of_a_developers_machine_is_committed():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    homes = re.compile(r"(/home/(?!user\b|jovyan\b)\w+/|/Users/(?!user\b)\w+/|/root/|/work/)")
    guilty = []
    for name in filter(None, names.stdout.split("\0")):
        path = ROOT / name
        if path.suffix in {".png", ".jpg"} or not path.is_file() or name == "tests/test_environment.py":
            continue
        guilty += [
            name for line in path.read_text("utf-8", errors="replace").splitlines() if homes.search(line)
        ]
    assert guilty == []
