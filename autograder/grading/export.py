"""Writes grades as Canvas and Moodle import them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

from autograder.course import Course
from autograder.grading import inbox, submissions
from autograder.grading.grade import Places, Refused, Store, number, safe_cell, write_whole
from autograder.grading.gradebook import Book, Row
from autograder.grading.summary import note

_CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
_CANVAS_KEYS = ("SIS Login ID", "SIS User ID", "ID", "Student")
_MOODLE_NAMES = ("Identifier", "Full name")
_MOODLE_KEYS = ("username", "Username", "Email address", "ID number", "email", "idnumber")


def export(
    here: Course, lms: str, to: str | None, roster: str | None, say: Callable[[str], None] = print
) -> int:
    """Write a file that the LMS imports; 0 when every student of the roster and of the gradebook was matched."""
    places = Places(root=here.root)
    rows = Book(here, places.staged).rows()
    if not rows:
        raise Refused("the gradebook is empty: run `make grade` first")
    lessons = sorted({row.lesson for row in rows})
    scores = _by_student(rows)
    titles = {lesson: title(here, lesson) for lesson in lessons}
    path = Path(to) if to else places.kept / f"grades-{lms}.csv"
    people = _roster(roster) if roster else None
    table = (_canvas if lms == "canvas" else _moodle)(lessons, titles, scores, people, places)
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows(
        [[safe_cell(str(cell)) for cell in line] for line in table]
    )
    write_whole(path, made.getvalue())
    say(f"{len(table) - 1} students in {path}")
    return _unmatched(rows, people, say)


def _by_student(rows: list[Row]) -> dict[tuple[str, str], Row]:
    """Rows by each spelling that names one student only: as it is, without capitals, and by Moodle's parts."""
    students = {row.student for row in rows}
    named = {inbox.person(student): student for student in students}
    others: dict[str, set[str]] = {}
    for student in students:
        for spelling in (student, *_moodle_parts(student)):
            others.setdefault(inbox.login(spelling), set()).add(student)
            others.setdefault(inbox.person(spelling), set()).add(student)
    for spelling, meant in others.items():
        if len(meant) == 1:
            named.setdefault(spelling, *meant)
    by_row = {(row.student, row.lesson): row for row in rows}
    lessons = {row.lesson for row in rows}
    return {
        (spelling, lesson): by_row[student, lesson]
        for spelling, student in named.items()
        for lesson in lessons
        if (student, lesson) in by_row
    }


def _moodle_parts(student: str) -> tuple[str, ...]:
    """The full name and the participant of an id such as "Jane Doe_4711", which a download from Moodle makes."""
    name, _, number_ = student.rpartition("_")
    return (name, f"Participant {number_}") if name and number_.isdecimal() else ()


def title(here: Course, lesson: str) -> str:
    """The column of a lesson: its title and id."""
    for path in sorted((here.lessons / lesson).glob("*.ipynb")):
        about = submissions.read_lesson(path.read_text(encoding="utf-8"), lesson, path.stem).metadata
        return f"{about.get('memory_budget', {}).get('title', lesson)} ({lesson})"
    return lesson


def _roster(path: str) -> list[dict[str, str]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as opened:
            lines = list(csv.DictReader(opened))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Refused(f"the roster {path} cannot be read: {error}") from error
    return [line for line in lines if not (line.get("Student") or "").strip().startswith("Points Possible")]


def _canvas(
    lessons: list[str], titles: dict, scores: dict, people: list[dict] | None, places: Places
) -> list[list]:
    """Canvas matches by ID, SIS User ID or SIS Login ID; without its roster a student's id here is the login."""
    table: list[list] = [[*_CANVAS, *(titles[lesson] for lesson in lessons)]]
    if people is None:
        students = _students(scores)
        people = [{"Student": student, "SIS Login ID": student} for student in students]
    for person in people:
        own = [person.get(column) or "" for column in _CANVAS]
        table.append(own + [_score(scores, person, _CANVAS_KEYS, lesson) for lesson in lessons])
    return table


def _moodle(
    lessons: list[str], titles: dict, scores: dict, people: list[dict] | None, places: Places
) -> list[list]:
    """Moodle's grade import lets one choose the column that names the user; the feedback is a column as well."""
    students = _students(scores)
    keep = [key for key in _MOODLE_KEYS if people and key in people[0]] or ["username"]
    keep += [key for key in _MOODLE_NAMES if people and key in people[0]]
    table: list[list] = [[*keep, *(titles[lesson] for lesson in lessons), "Feedback comments"]]
    for person in people or [{"username": student} for student in students]:
        own = [person.get(column) or "" for column in keep]
        marks = [_score(scores, person, _MOODLE_KEYS + _MOODLE_NAMES, lesson) for lesson in lessons]
        table.append([*own, *marks, _notes(scores, person, lessons, places)])
    return table


def _students(scores: dict) -> list[str]:
    return sorted({row.student for row in scores.values()})


def _row(scores: dict, person: dict, keys: tuple[str, ...], lesson: str) -> Row | None:
    for key in keys:
        value = person.get(key)
        for spelling in (inbox.person(value), inbox.login(value)) if value else ():
            if row := scores.get((spelling, lesson)):
                return row
    return None


def _score(scores: dict, person: dict, keys: tuple[str, ...], lesson: str) -> str:
    row = _row(scores, person, keys, lesson)
    return number(row.score) if row else ""


def _notes(scores: dict, person: dict, lessons: list[str], places: Places) -> str:
    found = [_row(scores, person, _MOODLE_KEYS + _MOODLE_NAMES, lesson) for lesson in lessons]
    return "; ".join(
        filter(None, (note(Store(places.results / r.lesson).noted(r.student)) for r in found if r))
    )


def _spellings(student: str) -> set[str]:
    return {f(s) for s in (student, *_moodle_parts(student)) for f in (inbox.person, inbox.login)}


def _unmatched(rows: list[Row], people: list[dict] | None, say: Callable[[str], None]) -> int:
    if people is None:
        return 0
    values = {v for person in people for v in person.values() if isinstance(v, str)}
    known = {inbox.person(v) for v in values} | {inbox.login(v) for v in values}
    missing = sorted({row.student for row in rows if not known & _spellings(row.student)})
    if missing:
        say(f"graded here but not in the roster: {', '.join(missing)}")
    return 0
