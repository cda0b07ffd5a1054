"""Writes grades as Canvas and Moodle import them."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from autograder.course import Course
from autograder.grading import inbox, submissions
from autograder.grading.grade import Places, Refused, Store, number, safe_cell, write_whole
from autograder.grading.gradebook import Book, Row
from autograder.grading.summary import note

_CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
_CANVAS_KEYS = ("SIS Login ID", "SIS User ID", "ID", "Student")
_MOODLE_NAMES = ("Identifier", "Full name", "First name", "Last name", "Surname")
_MOODLE_KEYS = ("username", "Username", "Email address", "ID number", "email", "idnumber")

#: the row of a student in a lesson, by each spelling under which an LMS may know them
Found = dict[tuple[str, str], Row]


def export(
    here: Course,
    lms: str,
    to: str | None,
    roster: str | None,
    columns: dict[str, str] | None = None,
    say: Callable[[str], None] = print,
) -> int:
    """Write a file that the LMS imports, with a column for each lesson, named by `columns` or by its title; returns 0."""
    places = Places(root=here.root)
    book = Book(here, places.staged)
    rows = book.rows()
    if not rows:
        raise Refused("the gradebook is empty: run `make grade` first")
    lessons = sorted({row.lesson for row in rows})
    if unknown := sorted(set(columns or {}) - set(lessons)):
        raise Refused(f"nobody is graded for {', '.join(unknown)}; graded are {', '.join(lessons)}")
    titles = {lesson: title(here, lesson) for lesson in lessons} | (columns or {})
    path = Path(to) if to else places.kept / f"grades-{lms}.csv"
    people = _roster(roster) if roster else None
    found = _by_spelling(rows, people)
    table, used = (_canvas if lms == "canvas" else _moodle)(lessons, titles, found, people, places)
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows(
        [[safe_cell(str(cell)) for cell in line] for line in table]
    )
    write_whole(path, made.getvalue())
    say(f"{len(table) - 1} students in {path}")
    if missing := sorted({(row.student, row.lesson) for row in rows} - used):
        say("graded here but not in the file: " + ", ".join(f"{s} ({lesson})" for s, lesson in missing))
    if waiting := sum(len(book.to_mark(lesson)) for lesson in lessons):
        say(f"not final: {waiting} submissions have answers that nobody has marked yet")
    return 0


def _by_spelling(rows: list[Row], people: list[dict] | None) -> Found:
    """Rows by lesson and each spelling that names one student of that lesson, and one person of the roster, only."""
    often = Counter(spelling for person in people or [] for spelling in _names(person))
    found: Found = {}
    others: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found[inbox.person(row.student), row.lesson] = row
        for spelling in {f(s) for s in (row.student, *_moodle_parts(row.student)) for f in _SPELLINGS}:
            if often[spelling] < 2:
                others.setdefault((spelling, row.lesson), []).append(row)
    return {key: meant[0] for key, meant in others.items() if len(meant) == 1} | found


_SPELLINGS = (inbox.person, inbox.login)


def _names(person: dict) -> set[str]:
    """The spellings of a person's full name, which several people may have."""
    names = {person.get("Full name") or "", person.get("Student") or ""}
    for last in ("Last name", "Surname"):
        names.add(f"{person.get('First name') or ''} {person.get(last) or ''}")
    return {f(name) for name in names if name.strip() for f in _SPELLINGS}


def _moodle_parts(student: str) -> tuple[str, ...]:
    """The full name and the participant of an id such as "Jane Doe_4711", which a download from Moodle makes.

    Moodle numbers the participants of each assignment anew, so the number is another one in each lesson.
    """
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
    lessons: list[str], titles: dict, found: Found, people: list[dict] | None, places: Places
) -> tuple[list[list], set]:
    """Canvas matches by ID, SIS User ID or SIS Login ID; a student's id here is the first of them when it is a number."""
    table: list[list] = [[*_CANVAS, *(titles[lesson] for lesson in lessons)]]
    if people is None:
        people = [
            {"Student": student, "ID" if student.isdecimal() else "SIS Login ID": student}
            for student in _students(found)
        ]
    used = set()
    for person in people:
        theirs = _theirs(found, person, _CANVAS_KEYS, lessons)
        used |= {(row.student, row.lesson) for row in theirs.values()}
        own = [person.get(column) or "" for column in _CANVAS]
        table.append(own + [_score(theirs, lesson) for lesson in lessons])
    return table, used


def _moodle(
    lessons: list[str], titles: dict, found: Found, people: list[dict] | None, places: Places
) -> tuple[list[list], set]:
    """Moodle's grade import lets one choose the column that names the user; the feedback is a column as well."""
    keep = [key for key in _MOODLE_KEYS if people and key in people[0]] or ["username"]
    keep += [key for key in _MOODLE_NAMES if people and key in people[0]]
    table: list[list] = [[*keep, *(titles[lesson] for lesson in lessons), "Feedback comments"]]
    used = set()
    for person in people or [{"username": student} for student in _students(found)]:
        theirs = _theirs(found, person, (*_MOODLE_KEYS, "Identifier"), lessons)
        used |= {(row.student, row.lesson) for row in theirs.values()}
        own = [person.get(column) or "" for column in keep]
        notes = [note(Store(places.results / r.lesson).noted(r.student)) for r in theirs.values()]
        table.append([*own, *(_score(theirs, lesson) for lesson in lessons), "; ".join(filter(None, notes))])
    return table, used


def _students(found: Found) -> list[str]:
    return sorted({row.student for row in found.values()})


def _theirs(found: Found, person: dict, keys: tuple[str, ...], lessons: list[str]) -> dict[str, Row]:
    """A person's row in each lesson: by what only they have, else by their name."""
    spellings = [f(value) for key in keys if (value := person.get(key)) for f in _SPELLINGS]
    spellings += sorted(_names(person))
    theirs = {}
    for lesson in lessons:
        row = next((found[s, lesson] for s in spellings if (s, lesson) in found), None)
        if row is not None:
            theirs[lesson] = row
    return theirs


def _score(theirs: dict[str, Row], lesson: str) -> str:
    return number(round(theirs[lesson].score, 2)) if lesson in theirs else ""
