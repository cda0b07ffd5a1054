"""Puts results into nbgrader's gradebook: its own steps, with ours in the place where it would run the notebook.

One process writes. Each submission is staged as a clean notebook, made from the lesson's cells and the learner's text,
and goes through nbgrader's autograde; our preprocessor lays the outputs, scores and cards in where `Execute` would run
the learner's code beside the checks. Gradebook, formgrader, feedback and export stay nbgrader's.
"""

from __future__ import annotations

import html
import importlib.util
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import nbformat
from nbformat.notebooknode import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ComputeChecksums,
    NbGraderPreprocessor,
    SaveAutoGrades,
    SaveCells,
)
from traitlets.config import Config, PyFileConfigLoader

from autograder.course import Course
from autograder.grading import sanitise
from autograder.grading.submissions import Lesson


class GradebookError(Exception):
    """The gradebook refused something; the message is one line for the instructor."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What the gradebook holds of one submission."""

    student: str
    lesson: str
    score: float
    max_score: float
    needs_manual_grade: bool


FOR_MARKERS = "memory_budget_for_markers"
FEEDBACK_STEPS = [
    "nbgrader.preprocessors.GetGrades",
    "autograder.grading.gradebook.ForLearners",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]


class LayVerdicts(NbGraderPreprocessor):
    """Stands where nbgrader would execute the notebook: gives each cell its outputs and each question its score."""

    results: ClassVar[dict[tuple[str, str], dict]] = {}

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        about = resources["nbgrader"]
        result = self.results.get((about["student"], about["assignment"]))
        if result is None:
            raise NbGraderException(
                "this course is graded by `make grade`, which runs submissions in a sandbox; nothing was run"
            )
        kept = {cell["name"]: cell for cell in named_cells(result)}
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs = outputs_of(kept.get(cell.get("id"), {}), result)
                cell.execution_count = None
        return nb, resources


def named_cells(result: dict) -> list[dict]:
    """The cells of a result, each with a name of its own: the lesson's id, or own-N for a learner's."""
    taken: set[str] = set()
    named = []
    for number, cell in enumerate(result["cells"], 1):
        name = cell["id"] or f"own-{number}"
        while name in taken:
            name += f"-{number}"
        taken.add(name)
        named.append({**cell, "name": name})
    return named


def run_for(student: str, kind: Any, config: Config) -> None:
    """Run one of nbgrader's steps for one student; GradebookError with what nbgrader said against it."""
    heard = Heard()
    with quiet():
        coursedir = CourseDirectory(config=config)
        # set past the trait's own validation, which would strip what a student's id may hold
        coursedir._trait_values["student_id"] = student
        step = kind(coursedir=coursedir, config=config)
        step.force = True
        step.log = coursedir.log = heard.log
        try:
            step.start()
        except (Exception, SystemExit) as error:
            raise GradebookError(heard.last() if heard.lines else _one_line(error)) from error


def outputs_of(cell: dict, result: dict) -> list[NotebookNode]:
    """What stands below a cell: for a check its score and card, else what the cell showed."""
    if cell.get("role") != "check":
        return [nbformat.from_dict(output) for output in cell.get("outputs", [])]
    judged = result["verdicts"].get(cell["question"])
    if judged is None:
        return []
    if judged["manual"]:
        data = {"text/plain": judged["text"], "text/html": judged["html"]}
        return [nbformat.v4.new_output("display_data", data=data), mark_scheme(judged["mark_scheme"])]
    data = {"text/plain": repr(float(judged["score"])), "text/html": judged["html"]}
    return [nbformat.v4.new_output("execute_result", data=data)]


def mark_scheme(says: str) -> NotebookNode:
    """What the person who marks sees below an answer in words; `ForLearners` takes it out of feedback."""
    data = {
        "text/plain": f"Mark scheme: {says}",
        "text/html": '<div style="border-left: 4px solid #767676; padding: 4px 12px; max-width: 46em">'
        f"<strong>Mark scheme</strong> (learners do not see this)<br>{html.escape(says)}</div>",
    }
    return nbformat.v4.new_output("display_data", data=data, metadata={FOR_MARKERS: True})


class ForLearners(NbGraderPreprocessor):
    """Takes what only the person who marks may see out of a notebook, and says where a person changed a score.

    nbgrader runs it before it makes feedback, after `GetGrades`.
    """

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs = [o for o in cell.outputs if not o.get("metadata", {}).get(FOR_MARKERS)]
                cell.outputs = changed_by_hand(cell) + cell.outputs
        return nb, resources


def changed_by_hand(cell: NotebookNode) -> list[NotebookNode]:
    """A line above a check's card where its score is no longer the card's."""
    marks = cell.metadata.get("nbgrader", {})
    judged = [o for o in cell.outputs if o.output_type == "execute_result"]
    if marks.get("solution") or marks.get("score") is None or len(judged) != 1:
        return []
    try:
        same = abs(float(judged[0].data["text/plain"]) - marks["score"]) < 1e-9
    except (KeyError, ValueError):
        return []
    says = f"Your instructor changed the points for this to {marks['score']:g} of {marks['points']:g}."
    data = {"text/plain": says, "text/html": f"<p><strong>{says}</strong></p>"}
    return [] if same else [nbformat.v4.new_output("display_data", data=data)]


def notebook_of(result: dict, lesson: Lesson) -> NotebookNode:
    """The clean notebook of a submission, without outputs."""
    made = nbformat.v4.new_notebook(metadata=nbformat.from_dict(lesson.metadata))
    made.nbformat_minor = 5
    for cell in named_cells(result):
        new = _new_cell(cell)
        if cell["marks"]:
            new.metadata["nbgrader"] = nbformat.from_dict(cell["marks"])
        made.cells.append(new)
    return made


def _new_cell(cell: dict) -> NotebookNode:
    """A cell for nbgrader. A learner's prose is cleaned HTML by now, so that no page built from it can run anything."""
    name = cell["name"][:64]
    if cell["kind"] == "code":
        return nbformat.v4.new_code_cell(sanitise.code(cell["source"]), id=name)
    if cell["role"] == "given":
        return nbformat.v4.new_markdown_cell(cell["source"], id=name)
    # one line that begins with <div> is taken over as it stands, never read as Markdown again
    return nbformat.v4.new_markdown_cell(f"<div>{cell['shown']}</div>".replace("\n", "&#10;"), id=name)


# ---------------------------------------------------------------- nbgrader, in this process


class OneFolder:
    """Makes a step of nbgrader's take one submission whose folder is known, whatever characters its name has."""

    def init_notebooks(self) -> None:
        folder = self._format_source(self.coursedir.assignment_id, self.coursedir.student_id)
        self.assignments = {folder: sorted(str(path) for path in Path(folder).glob("*.ipynb"))}


class _One(OneFolder, Autograde):
    """nbgrader's autograde for one submission."""


class _Register(GenerateAssignment):
    """nbgrader's generate_assignment on the released lesson: only what fills the gradebook."""

    def _clean_old_notebooks(self, assignment_id: str, student_id: str) -> None:
        try:
            super()._clean_old_notebooks(assignment_id, student_id)
        except NbGraderException as error:
            raise GradebookError(
                f"the notebook of {assignment_id} has another name than the one already graded"
            ) from error


class Heard(logging.Handler):
    """What nbgrader complains about, kept in place of being printed."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        self.log = logging.Logger("autograder.nbgrader", logging.ERROR)
        self.log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage().strip())

    def last(self) -> str:
        """The last line of the last complaint, which names the reason."""
        lines = [line for text in self.lines for line in text.splitlines() if line.strip()]
        wanted = [
            line for line in lines if re.match(r"[\w.]+(?:Error|Exception|Entry)\b", line.strip())
        ] or lines
        return wanted[-1].strip()[:300] if wanted else "nbgrader gave no reason"


def course_config(here: Course) -> Config:
    """The course's nbgrader settings: its nbgrader_config.py if it has one, with our folders where it says nothing."""
    config = Config()
    path = here.root / "nbgrader_config.py"
    if path.is_file():
        config.merge(PyFileConfigLoader(path.name, path=str(here.root)).load_config())
    folders = config.CourseDirectory
    folders.root = str(here.root)
    kept = here.root / "autograder"
    defaults = {
        "course_id": "memory-budget",
        "submitted_directory": "autograder/submitted",
        "autograded_directory": "autograder/autograded",
        "feedback_directory": "autograder/feedback",
        "db_url": f"sqlite:///{(kept / 'gradebook.db').as_posix()}",
    }
    for name, value in defaults.items():
        if name not in folders:
            folders[name] = value
    config.GenerateFeedback.preprocessors = FEEDBACK_STEPS
    if url := os.environ.get("MEMORY_BUDGET_DB_URL"):
        folders.db_url = url
    folders.db_url = _with_driver(folders.db_url)
    return config


def _with_driver(url: str) -> str:
    """A PostgreSQL address that names no driver gets the one that is installed."""
    plain = re.match(r"postgres(?:ql)?://", url)
    if plain and importlib.util.find_spec("psycopg") is None and importlib.util.find_spec("psycopg2"):
        return f"postgresql+psycopg2://{url[plain.end() :]}"
    return url


@contextmanager
def quiet() -> Iterator[None]:
    """nbgrader's own deprecation warnings are not our instructors' business; alembic is found beside our Python."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.environ["PATH"] = before


@contextmanager
def _in_place_of_gradebook(book: Gradebook) -> Iterator[None]:
    """Give nbgrader's steps the gradebook that is open already, each time they would open one."""

    class Lent:
        def __enter__(self):
            return book

        def __exit__(self, *error):
            return None

        def __getattr__(self, name):
            return getattr(book, name)

    modules = [sys.modules[f"nbgrader.{name}"] for name in _OPENING]
    before = [module.Gradebook for module in modules]
    for module in modules:
        module.Gradebook = lambda *given: Lent()
    try:
        yield
    finally:
        for module, kept in zip(modules, before, strict=True):
            module.Gradebook = kept


#: nbgrader's modules that open the gradebook while a submission is graded
_OPENING = (
    "converters.autograde",
    "preprocessors.overwritecells",
    "preprocessors.overwritekernelspec",
    "preprocessors.saveautogrades",
    "preprocessors.latesubmissions",
)


class Book:
    """The gradebook of a course, and the folders nbgrader keeps beside it."""

    def __init__(self, here: Course, staged: Path) -> None:
        self.here = here
        self.staged = staged
        self.config = course_config(here)
        self.url = self.config.CourseDirectory.db_url
        self.course_id = self.config.CourseDirectory.course_id
        self._shared: Gradebook | None = None

    def folder(self, step: str, student: str, lesson: str) -> Path:
        """nbgrader's folder of a submission in a step: "autograded", "feedback"."""
        return self.here.root / self.config.CourseDirectory[f"{step}_directory"] / student / lesson

    @contextmanager
    def open(self) -> Iterator[Gradebook]:
        """nbgrader's gradebook; GradebookError when it cannot be opened."""
        if self._shared is not None:
            yield self._shared
            return
        with quiet():
            try:
                book = Gradebook(self.url, self.course_id)
            except Exception as error:
                raise GradebookError(f"the gradebook cannot be opened: {_one_line(error)}") from error
            with book:
                yield book

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Keep one connection for many submissions: nbgrader opens a dozen for each otherwise."""
        with self.open() as book:
            self._shared = book
            try:
                with _in_place_of_gradebook(book):
                    yield
            finally:
                self._shared = None

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """All that is written about a submission, or nothing: what nbgrader commits cell by cell waits for the end."""
        with self.open() as book:
            commit, book.db.commit = book.db.commit, book.db.flush
            try:
                yield
            except BaseException:
                book.db.rollback()
                raise
            finally:
                book.db.commit = commit
            commit()

    # -- the lesson

    def register(self, lesson: Lesson, text: str) -> None:
        """Let the gradebook know a released lesson; GradebookError when it may not change any more."""
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "lessons", lesson.id)
            place.mkdir(parents=True)
            (place / f"{lesson.name}.ipynb").write_text(text, encoding="utf-8")
            config = Config()
            config.CourseDirectory.root = folder
            config.CourseDirectory.assignment_id = lesson.id
            config.CourseDirectory.course_id = self.course_id
            config.CourseDirectory.source_directory = "lessons"
            config.CourseDirectory.release_directory = "made"
            config.CourseDirectory.db_url = self.url
            config.GenerateAssignment.preprocessors = [CheckCellMetadata, ComputeChecksums, SaveCells]
            self._run(_Register, config, f"{lesson.id} cannot be entered into the gradebook")

    def _run(self, kind: Any, config: Config, what: str) -> None:
        heard = Heard()
        with quiet():
            step = kind(coursedir=CourseDirectory(config=config), config=config)
            step.log = heard.log
            step.coursedir.log = heard.log
            try:
                step.start()
            except GradebookError:
                raise
            except (Exception, SystemExit) as error:
                raise GradebookError(
                    f"{what}: {heard.last() if heard.lines else _one_line(error)}"
                ) from error

    # -- a submission

    def write(self, result: dict, lesson: Lesson, timestamp: str | None) -> None:
        """Enter one result: nbgrader's autograde on the clean notebook. Marks given by hand stay as they are."""
        student = result["student"]
        self._stage(result, lesson, timestamp)
        texts = self._answers(student, lesson)
        with self._at_once():
            before = self._marks_by_hand(student, lesson)
            self._write(result, lesson)
            self._keep_marks(student, lesson, before, texts)

    def _write(self, result: dict, lesson: Lesson) -> None:
        student = result["student"]
        config = Config()
        config.merge(self.config)
        folders = config.CourseDirectory
        folders.submitted_directory = str(self.staged)
        folders.source_directory = "lessons"
        folders.assignment_id, folders.notebook_id = lesson.id, lesson.name
        config.Autograde.autograde_preprocessors = [
            LayVerdicts,
            SaveAutoGrades,
            AssignLatePenalties,
            CheckCellMetadata,
        ]
        LayVerdicts.results[student, lesson.id] = result
        try:
            self._autograde(student, config)
        finally:
            LayVerdicts.results.pop((student, lesson.id), None)

    def _autograde(self, student: str, config: Config) -> None:
        try:
            run_for(student, _One, config)
        except GradebookError as error:
            raise GradebookError(f"nbgrader refused the notebook: {error}") from error

    def _stage(self, result: dict, lesson: Lesson, timestamp: str | None) -> None:
        place = self.staged / result["student"] / lesson.id
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / f"{lesson.name}.ipynb").write_text(
            nbformat.writes(notebook_of(result, lesson)) + "\n", encoding="utf-8"
        )
        if timestamp:
            (place / "timestamp.txt").write_text(timestamp, encoding="utf-8")

    def _marks_by_hand(self, student: str, lesson: Lesson) -> dict[str, tuple]:
        with self.open() as book:
            try:
                notebook = book.find_submission_notebook(lesson.name, lesson.id, student)
            except MissingEntry:
                return {}
            return {
                g.name: (g.auto_score, g.needs_manual_grade)
                for g in notebook.grades
                if g.manual_score is not None
            }

    def _answers(self, student: str, lesson: Lesson) -> dict[str, str]:
        """The learner's text of each question as it was last graded."""
        path = self.folder("autograded", student, lesson.id) / f"{lesson.name}.ipynb"
        try:
            made = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        texts = {}
        for cell in made["cells"]:
            marks = cell["metadata"].get("nbgrader", {})
            if marks.get("solution"):
                source = cell["source"]
                name = marks["grade_id"].removesuffix("-answer")
                texts[name] = "".join(source) if isinstance(source, list) else source
        return texts

    def _keep_marks(
        self, student: str, lesson: Lesson, before: dict[str, tuple], texts: dict[str, str]
    ) -> None:
        """A mark by hand need not be looked at again where neither the answer nor the automatic score changed."""
        if not before:
            return
        now = self._answers(student, lesson)
        with self.open() as book:
            notebook = book.find_submission_notebook(lesson.name, lesson.id, student)
            for grade in notebook.grades:
                auto, needed = before.get(grade.name, (None, True))
                same = (
                    grade.name in texts
                    and texts[grade.name] == now.get(grade.name)
                    and grade.auto_score == auto
                )
                if grade.name in before and same and not needed:
                    grade.needs_manual_grade = False
            book.db.commit()

    def write_nothing(self, student: str, lesson: Lesson, timestamp: str | None) -> None:
        """Enter a submission that could not be read: there, with nothing earned; marks by hand stay."""
        from nbgrader.utils import parse_utc

        for step in ("autograded", "feedback"):
            _remove(self.folder(step, student, lesson.id))
        with self.open() as book:
            book.update_or_create_student(student)
            more = {"timestamp": parse_utc(timestamp)} if timestamp else {}
            book.update_or_create_submission(lesson.id, student, **more)
            for grade in book.find_submission_notebook(lesson.name, lesson.id, student).grades:
                grade.auto_score = 0
                grade.needs_manual_grade = False
            book.db.commit()

    def write_nothing_new(self, student: str, lesson: Lesson) -> None:
        """See that a submission has its row; what an earlier grading entered stays."""
        with self.open() as book:
            try:
                book.find_submission(lesson.id, student)
            except MissingEntry:
                self.write_nothing(student, lesson, None)

    # -- what it holds

    def to_mark(self, lesson: str) -> dict[str, dict[str, bool]]:
        """By student, the questions that wait for a person, and whether one has marked an earlier answer to it."""
        with self.open() as book:
            try:
                found = book.find_assignment(lesson).submissions
            except MissingEntry:
                return {}
            waiting = {
                s.student_id: {
                    g.name: g.manual_score is not None
                    for notebook in s.notebooks
                    for g in notebook.grades
                    if g.needs_manual_grade
                }
                for s in found
            }
        return {student: names for student, names in sorted(waiting.items()) if names}

    def knows(self, lesson: Lesson) -> bool:
        """Whether the lesson is in the gradebook."""
        with self.open() as book:
            try:
                book.find_notebook(lesson.name, lesson.id)
            except MissingEntry:
                return False
        return True

    def students(self) -> list[str]:
        """Ids of all students in the gradebook."""
        with self.open() as book:
            return sorted(student.id for student in book.students)

    def rows(self) -> list[Row]:
        """Every submission in the gradebook, by lesson and student."""
        found = []
        with self.open() as book:
            for assignment in book.assignments:
                for submission in assignment.submissions:
                    found.append(
                        Row(
                            student=submission.student_id,
                            lesson=assignment.name,
                            score=max(0.0, submission.score - (submission.late_submission_penalty or 0.0)),
                            max_score=submission.max_score,
                            needs_manual_grade=bool(submission.needs_manual_grade),
                        )
                    )
        return sorted(found, key=lambda row: (row.lesson, row.student))


def _remove(folder: Path) -> None:
    """Take away a folder of nbgrader's, whose files are read-only."""
    if folder.is_dir() and not folder.is_symlink():
        for path in folder.rglob("*"):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() else 0o644)
        shutil.rmtree(folder)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
