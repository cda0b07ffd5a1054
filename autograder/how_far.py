"""How far the learner is: the questions right so far in each lesson, as a table or in plain words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class HowFar:
    """A row a lesson: its number, the questions right so far, the questions there are."""

    rows: tuple[tuple[str, int, int], ...]

    def __repr__(self) -> str:
        rows = [f"Lesson {lesson}: {right} of {there} right so far" for lesson, right, there in self.rows]
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        return f"<table>{''.join(_row(*row) for row in self.rows)}</table>"


def _row(lesson: str, right: int, there: int) -> str:
    bar = f'<progress value="{right}" max="{there}" aria-label="{right} of {there} right"></progress>'
    name = f'<td style="text-align:left">Lesson {lesson}</td>'
    return f"<tr>{name}<td>{bar}</td><td>{right} of {there} right so far</td></tr>"


def how_far() -> HowFar:
    """Read the learner's own file of progress, for every lesson of the course."""
    from autograder import progress, questions

    rows = tuple((number(lesson), *progress.right_so_far(lesson)) for lesson in questions.lessons())
    return HowFar(rows=rows)


def number(lesson: str) -> str:
    """The number a reader calls a lesson by: lesson-06 is lesson 6."""
    return lesson.split("-")[-1].lstrip("0") or lesson
