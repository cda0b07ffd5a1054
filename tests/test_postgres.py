"""The gradebook may be on a PostgreSQL server: the same grades as in a file."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import grading_course as tiny
import pytest
from grading_course import LESSON, hand_in, perfect

from autograder.grading import grade as grading
from autograder.grading import sandbox

pytest.importorskip("psycopg2", reason="the extra `postgres` is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.sandbox,
    pytest.mark.skipif(bool(sandbox.why_no_sandbox()), reason=sandbox.why_no_sandbox() or ""),
]


def _program(name: str) -> str | None:
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    return found[-1] if found else shutil.which(name)


@pytest.fixture(scope="module")
def server_url(tmp_path_factory):
    """A server of our own on a socket nobody else sees, as a user that is not root; or MEMORY_BUDGET_TEST_POSTGRES."""
    if url := os.environ.get("MEMORY_BUDGET_TEST_POSTGRES"):
        yield url
        return
    initdb, control = _program("initdb"), _program("pg_ctl")
    if not (initdb and control):
        pytest.skip("no PostgreSQL server is installed (on Debian: apt install postgresql)")
    # short: the path of a socket may have 107 characters
    place = Path("/tmp") / f"memory-budget-pg-{os.getpid()}"
    place.mkdir(mode=0o700)
    runner: list[str] = []
    if os.geteuid() == 0:
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user `postgres`")
        os.chown(place, owner.pw_uid, owner.pw_gid)
        runner = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
    run = {"check": True, "cwd": place, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    data = str(place / "data")
    try:
        subprocess.run([*runner, initdb, "-D", data, "-U", "grader", "-A", "trust", "-E", "UTF8"], **run)
        settings = f"-c listen_addresses='' -c unix_socket_directories={place} -c fsync=off"
        subprocess.run([*runner, control, "-D", data, "-w", "-t", "60", "-o", settings, "start"], **run)
        try:
            yield f"postgresql://grader@/postgres?host={place}"
        finally:
            subprocess.run([*runner, control, "-D", data, "-m", "immediate", "stop"], **run)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_the_same_grades_in_postgresql_as_in_a_file(server_url, tmp_path, monkeypatch):
    here = tiny.make_course(tmp_path / "course")
    for student in ("ann", "Zoë Müller"):
        hand_in(here, student, perfect(here))
    hand_in(here, "broken", "")
    options = grading.Options(jobs=2, seed=3, quiet=True)
    assert grading.grade(here, LESSON, options, say=lambda text: None) == 0
    in_file = (here.root / "autograder" / "grades.csv").read_bytes()
    (here.root / "autograder" / "gradebook.db").unlink()
    monkeypatch.setenv("MEMORY_BUDGET_DB_URL", server_url)
    for _ in range(2):
        assert grading.grade(here, LESSON, options, say=lambda text: None) == 0
        assert (here.root / "autograder" / "grades.csv").read_bytes() == in_file
    assert not (here.root / "autograder" / "gradebook.db").exists()
