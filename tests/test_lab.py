"""JupyterLab starts with our settings, as root too, in the folder that was asked for."""

import os
from pathlib import Path

import pytest

from autograder import lab


def test_learner_starts_in_the_lessons_and_instructor_in_the_course(root):
    assert f"--ServerApp.root_dir={root / 'lessons'}" in lab.lab_command(
        folder=None, instructor=False, options=[]
    )
    assert f"--ServerApp.root_dir={root}" in lab.lab_command(folder=None, instructor=True, options=[])


def test_own_folder_and_options_are_passed_on(tmp_path):
    command = lab.lab_command(folder=tmp_path, instructor=False, options=["--port=9000"])
    assert f"--ServerApp.root_dir={tmp_path}" in command
    assert command[-1] == "--port=9000"
    assert "--LabApp.default_url=/lab" in command


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no root user on this system")
@pytest.mark.parametrize(("user", "told"), [(0, True), (1000, False)])
def test_jupyter_is_told_only_when_root_starts_it(monkeypatch, user, told):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert ("--allow-root" in lab.lab_command(folder=None, instructor=False, options=[])) is told


@pytest.mark.parametrize(("instructor", "settings"), [(False, "learner"), (True, "instructor")])
def test_our_settings_come_before_the_users(monkeypatch, instructor, settings):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "theirs")
    first, second = lab.lab_environment(instructor=instructor)["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert Path(first).is_dir()
    assert (Path(first).name, second) == (settings, "theirs")


def test_missing_folder_gets_one_line(capsys):
    with pytest.raises(SystemExit):
        lab.main(["--folder", "no/such/folder"])
    assert "there is no such folder" in capsys.readouterr().err.splitlines()[-1]
