"""How one lesson is made: released by nbgrader, solved, searched for leaks, tried as a learner gets it."""

from __future__ import annotations

import contextlib
import importlib.util
import random
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from nbformat.notebooknode import NotebookNode

from autograder import cells as made
from autograder import wire
from autograder.building import answered, leaks
from autograder.building.fault import Fault
from autograder.building.lint import by_hand, lint, lint_files
from autograder.building.stamps import files
from autograder.course import Course

if TYPE_CHECKING:
    from autograder.building.rehearsal import Rehearsal


def make_lesson(here: Course, lesson: str, staged: Path, say) -> list[Fault]:
    """Make one lesson under `staged`; returns every fault found on the way."""
    from autograder.building.release import release  # here: nbgrader takes seconds to import

    faults = source_faults(here, lesson)
    if any(fault.stops for fault in faults):
        return faults
    source = made.read(here.source_notebook(lesson))
    bank = load_bank(here, lesson)
    name = here.source_notebook(lesson).name
    try:
        released = made.read(release(lesson, here, staged / "lessons" / lesson))
    except ValueError as error:
        return [*faults, Fault(where=name, says=str(error))]
    solved = _rehearse(here, lesson, answered.answered(source), bank, f"{lesson}: solution", say)
    faults += solution_faults(solved, bank, f"source/{lesson}/{name}")
    faults += released_faults(here, lesson, released, source, bank)
    tried = _rehearse(here, lesson, released, bank, f"{lesson}: as a learner gets it", say)
    faults += blank_faults(tried, f"lessons/{lesson}/{name}")
    _write_solution(here, lesson, solved.notebook, staged / "solutions" / lesson)
    return faults


def source_faults(here: Course, lesson: str) -> list[Fault]:
    """Everything wrong with a source lesson that shows without running it."""
    faults = lint_files(here, lesson)
    try:
        path = here.source_notebook(lesson)
        notebook = made.read(path)
        bank = load_bank(here, lesson)
    except ValueError as error:
        return faults or [Fault(where=f"source/{lesson}", says=str(error))]
    return faults + lint(notebook, f"source/{lesson}/{path.name}", lesson, bank)


def bank_faults(here: Course) -> list[Fault]:
    """Question names that two lessons use: check("NAME") looks a name up in the whole course."""
    lessons: dict[str, list[str]] = {}
    for lesson in here.lesson_ids():
        with contextlib.suppress(ValueError):  # said already, with the lesson's own faults
            for name in load_bank(here, lesson):
                lessons.setdefault(name, []).append(lesson)
    return [
        Fault(where="autograder/questions", says=f"question {name} is in {' and '.join(those)}")
        for name, those in lessons.items()
        if len(those) > 1
    ]


def load_bank(here: Course, lesson: str) -> dict:
    """The questions of a lesson, name to question; ValueError when the course has no bank for it."""
    path = here.questions / f"{lesson.replace('-', '_')}.py"
    if not path.is_file():
        raise ValueError(f"has no question bank: autograder/questions/{path.name} is missing")
    spec = importlib.util.spec_from_file_location(f"autograder.questions.{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        questions = list(module.QUESTIONS)
    except Exception as error:
        raise ValueError(f"{path.name} cannot be read: {type(error).__name__}: {error}") from error
    bank = {question.name: question for question in questions}
    if len(bank) != len(questions):
        raise ValueError(f"{path.name} names a question twice")
    return bank


def solution_faults(solved: Rehearsal, bank: dict, where: str) -> list[Fault]:
    """Where the solution raises, earns less than full marks, or leaves a widget that shows nothing later."""
    if solved.stopped_at:
        return [Fault(where=where, cell=solved.stopped_at, says=f"the solution {solved.error}")]
    loud = answered.complains(solved.notebook)
    bare = answered.widget_without_picture(answered.steady(solved.notebook))
    says = "shows a widget that leaves no picture where no kernel runs"
    faults = [Fault(where=where, cell=cell, says=says, stops=False) for cell in bare]
    says = "writes to the error stream (a warning or a progress bar), which differs from run to run"
    faults += [Fault(where=where, cell=cell, says=says, stops=False) for cell in loud]
    for name, verdict in solved.verdicts.items():
        if not _full_marks(bank[name], verdict):
            words = " ".join([verdict.message, *verdict.details])
            says = f"the solution of {name} does not earn full marks ({verdict.status}: {words})"
            faults.append(Fault(where=where, cell=name, says=says))
    return faults


def _full_marks(question, verdict) -> bool:
    """Right; or, where a human gives the points, every key idea found."""
    if by_hand(question):
        return verdict.status == "by hand" and len(verdict.details) == len(question.ideas)
    return verdict.status == "right"


def released_faults(
    here: Course, lesson: str, released: NotebookNode, source: NotebookNode, bank: dict
) -> list[Fault]:
    """Every place in the lesson, as it would be handed out, that holds an answer."""
    folder = here.source / lesson
    texts = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in files(folder)
        if path.suffix != ".ipynb"
    }
    if (glossary := here.source / "glossary.md").is_file():
        texts["../glossary.md"] = glossary.read_text(encoding="utf-8")
    found = leaks.leaks(released, source, texts, lambda name, value: is_right(bank[name], value))
    where = f"lessons/{lesson}/{here.source_notebook(lesson).name}"
    return [Fault(where=where, cell=cell, says=says) for cell, says in found]


def is_right(question, value: object) -> bool:
    """Whether the question bank takes `value` for right; False for what is no such answer."""
    requests = question.requests(random.Random(0))
    if by_hand(question) or [type(request) for request in requests] != [wire.Value]:
        return False
    return question.judge([{"ok": wire.encode(value)}], requests).status == "right"


def blank_faults(tried: Rehearsal, where: str) -> list[Fault]:
    """Where the lesson raises while nothing is answered, or marks something that nobody answered."""
    if tried.stopped_at:
        return [Fault(where=where, cell=tried.stopped_at, says=f"{tried.error} while nothing is answered")]
    return [
        Fault(where=where, cell=name, says=f"question {name} is {verdict.status} before anyone answered it")
        for name, verdict in tried.verdicts.items()
        if verdict.status != "unanswered"
    ]


def _rehearse(here: Course, lesson: str, notebook: NotebookNode, bank: dict, what: str, say) -> Rehearsal:
    """Run the notebook in a throw-away folder that holds the lesson's own files."""
    from autograder.building.rehearsal import rehearse

    with tempfile.TemporaryDirectory() as scratch:
        _copy_files(here.source / lesson, Path(scratch))
        step = lambda done, of: say(f"{what}, {done} of {of} cells", end="\r" if done < of else "\n")  # noqa: E731
        return rehearse(notebook, Path(scratch), bank, questions_folder=here.questions, progress=step)


def _write_solution(here: Course, lesson: str, notebook: NotebookNode, into: Path) -> None:
    _copy_files(here.source / lesson, into)
    made.save(answered.steady(notebook), into / here.source_notebook(lesson).name)


def _copy_files(source: Path, into: Path) -> None:
    for path in files(source):
        if path.suffix != ".ipynb":
            copy = into / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
