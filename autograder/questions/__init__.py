"""The questions of every lesson, by name."""

from __future__ import annotations

import importlib
import os
import pkgutil
from functools import cache

from autograder.kinds import Question

if _other_folder := os.environ.get("MEMORY_BUDGET_QUESTIONS"):
    __path__ = [_other_folder]  # a course of one's own (or a test's) brings its own questions


@cache
def lessons() -> tuple[str, ...]:
    """Return the ids of the lessons that have questions: ("lesson-01", "lesson-06")."""
    found = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith("lesson_"))
    return tuple(name.replace("_", "-") for name in found)


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
