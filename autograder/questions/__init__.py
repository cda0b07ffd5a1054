"""The questions of every lesson, by name; and how to write one.

A lesson's questions are a list `QUESTIONS` in `lesson_NN.py` beside this file; nothing else has to be told
about it. A question is data. Its name is the variable or function that the learner fills in, and the id in
notebook, check, gradebook and report, so it must be unique in the course. Say in `prompt` what is asked, in
one line; in `points` what it is worth; in `praise` what a right answer adds. Then, by kind
(`autograder/kinds/`):

    Number(right=14, unit="GB")           a number; other units of size are recognised by themselves
    Choice(options={"a": ...}, right="b") one letter; the options stand in the notebook with the same letters
    Set(options=..., right=frozenset("bd"), missing="...")     several letters
    Order(right=(...), start=scrambled(...))                   lines to move; the notebook starts with `start`
    Match(right={key: choice}, choices=(...))                  a dict to fill in, credit for each row
    Table(rows={key: number}, unit="bytes")                    a dict of numbers, credit for each row
    Rep(..., looks_at=..., around=..., deed=...)               a Table, and what the notebook's objects show was done
    Function(signature=..., reference=..., inputs=...)         called on fresh inputs that `inputs(rng)` draws
    Text(ideas=(Idea(...), ...), mark_scheme=..., examples=...)   marked by hand
    Relation(rule=..., rights=...)        right by how the parts of the learner's own answer hang together

Slips are what makes a question teach. Each has a name, the value it gives (for a Function, the wrong
function), how it arises, and a message: one or two sentences that end in a question and lead on, and never
hold the right answer. Two slips of one question may not give the same value. `tests/test_questions.py`
reads every bank: it tries each question's right answers and slips, looks for collisions and for messages
that give the answer away. For that a Function also carries `right_sources`, texts of three right functions
in different styles, and a Relation `rights`.

Whatever must be made beside the student's code (a torch model, say) is plain source sent along with the
request (`Function.around`, see `small_models.py`): the arguments of a request are a specification drawn
fresh, the right result follows from it on the trusted side without torch, and the source holds nothing that
a student may not read.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from autograder.kinds import Question


@cache
def lessons() -> tuple[str, ...]:
    """Return the ids of the lessons that have questions: ("lesson-01", "lesson-06")."""
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(name.replace("_", "-") for name in found if name.startswith("lesson_"))


@cache
def bank(lesson: str) -> dict[str, Question]:
    """Return a lesson's questions by name, in its order; ValueError for a lesson that has none."""
    if lesson not in lessons():
        raise ValueError(f"lesson is {lesson!r}; it must be one of {', '.join(lessons())}")
    module = importlib.import_module(f"{__name__}.{lesson.replace('-', '_')}")
    made = {question.name: question for question in module.QUESTIONS}
    if len(made) != len(module.QUESTIONS):
        raise ValueError(f"{lesson} names a question twice")
    return made


def find(name: str) -> tuple[str, Question]:
    """Return (lesson id, question) for a name; KeyError when no lesson has it."""
    for lesson in lessons():
        if name in bank(lesson):
            return lesson, bank(lesson)[name]
    raise KeyError(name)


def names() -> list[str]:
    """Return the names of all questions of the course."""
    return [name for lesson in lessons() for name in bank(lesson)]
