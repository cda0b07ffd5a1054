"""Lets formgrader's *Autograde* button grade as `make grade` does: in the sandbox, and entered like any other grading.

nbgrader's own autograde would run a submission unprotected, beside the checks. This is an extension of the instructor's
Jupyter server (`make instructor` turns it on) that gives formgrader another class in its place.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException


class GradeInSandbox(Autograde):
    """Grades one student of one lesson in a process of its own; what it says goes into formgrader's log."""

    def start(self) -> None:
        lesson, student = self.coursedir.assignment_id, self.coursedir.student_id
        command = [sys.executable, "-m", "autograder", "grade", lesson, f"--student={student}"]
        done = subprocess.run(
            command, cwd=self.coursedir.root, capture_output=True, text=True, errors="replace", check=False
        )
        said = [line for line in (done.stdout + done.stderr).splitlines() if line and "%|" not in line]
        for line in said:
            self.log.info(line)
        if done.returncode != 0:
            raise NbGraderException("\n".join(said[-3:]) or f"grading ended with {done.returncode}")


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    import nbgrader.apps.api

    nbgrader.apps.api.Autograde = GradeInSandbox
