"""How nbgrader turns a source lesson into the one handed out, in a folder of ours, with no trace left."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.building.stamps import files
from autograder.cells import STUB, TEXT_STUB
from autograder.course import Course

COURSE_ID = "memory-budget"


def release(lesson: str, course: Course, into: Path, db_url: str | None = None) -> Path:
    """Write the lesson as learners get it into the folder `into`; returns the notebook's path there.

    With `db_url` the gradebook there knows the lesson afterwards, as after `nbgrader generate_assignment`.
    ValueError with nbgrader's own words when it refuses.
    """
    with tempfile.TemporaryDirectory() as stage:
        root = Path(stage)
        for path in files(course.source / lesson):
            copy = root / "source" / lesson / path.relative_to(course.source / lesson)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        _generate(lesson, root, db_url)
        into.mkdir(parents=True, exist_ok=True)
        shutil.copytree(root / "lessons" / lesson, into, dirs_exist_ok=True)
    released = into / course.source_notebook(lesson).name
    notebook = nbformat.read(released, as_version=4)
    released.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8", newline="\n")
    return released


def _generate(lesson: str, root: Path, db_url: str | None) -> None:
    config = Config()
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.assignment_id = lesson
    config.CourseDirectory.course_id = COURSE_ID
    config.CourseDirectory.source_directory = "source"
    config.CourseDirectory.release_directory = "lessons"
    config.CourseDirectory.db_url = db_url or f"sqlite:///{(root / 'gradebook.db').as_posix()}"
    config.ClearSolutions.code_stub = {"python": STUB}
    config.ClearSolutions.text_stub = TEXT_STUB
    config.GenerateAssignment.no_database = db_url is None
    if db_url is None:  # nothing to save the cells in
        kept = [
            step
            for step in GenerateAssignment.class_traits()["preprocessors"].default()
            if step.__name__ != "SaveCells"
        ]
        config.GenerateAssignment.preprocessors = kept
    _let_nbgrader_find_its_commands()
    heard = _Heard()
    converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
    converter.log = heard.logger
    try:
        converter.start()
    except (Exception, SystemExit) as error:
        raise ValueError(f"nbgrader stopped: {'; '.join(heard.errors) or error}") from error


def _let_nbgrader_find_its_commands() -> None:
    """nbgrader starts `alembic` by name to make a gradebook; it lies beside this Python."""
    own = str(Path(sys.executable).parent)
    if own not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([own, os.environ.get("PATH", "")])


class _Heard(logging.Handler):
    """What nbgrader complains about, kept in place of being printed."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []
        self.logger = logging.Logger("autograder.building.release")
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        lines = [line for line in record.getMessage().splitlines() if line.strip()]
        # of a stack trace only its last line says something
        line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
        if "There was an error processing" not in line and "traceback for details" not in line:
            self.errors.append(" ".join(line.split()))
