"""Writes grades as Canvas and Moodle import them."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autograder.course import Course
from autograder.grading import inbox, submissions
from autograder.grading.grade import Places, Refused, Store, number, safe_cell, write_whole
from autograder.grading.gradebook import Book, Row
from autograder.grading.summary import note

_CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
_CANVAS_KEYS = ("SIS Login ID", "SIS User ID", "ID")
_MOODLE_NAMES = ("Identifier", "Full name", "First name", "Last name", "Surname")
_MOODLE_KEYS = ("username", "Username", "Email address", "ID number", "email", "idnumber")


@dataclass(frozen=True, kw_only=True)
class Found:
    """Each student's row in each lesson, by what only they have and, apart from that, by name."""

    by_id: dict[tuple[str, str], Row]
    by_participant: dict[tuple[str, str], Row]
    by_name: dict[tuple[str, str], Row]

    def students(self) -> list[str]:
        return sorted({row.student for row in self.by_id.values()})


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
    found = _found(rows, people)
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


def _found(rows: list[Row], people: list[dict] | None) -> Found:
    """Rows by spelling. A name counts only where it is one person's of the roster and one student's of the lesson.

    People choose their names: one that is somebody else's login or address is nobody's.
    """
    often = Counter(spelling for person in people or [] for spelling in _names(person))
    keys = {spelling for person in people or [] for spelling in _keys(person)}
    by_id: dict[tuple[str, str], list[Row]] = {}
    by_name: dict[tuple[str, str], list[Row]] = {}
    by_participant: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        name, participant = _moodle_parts(row.student)
        for spell in _SPELLINGS:
            by_id.setdefault((spell(row.student), row.lesson), []).append(row)
            if name and often[spell(name)] < 2 and spell(name) not in keys:
                by_name.setdefault((spell(name), row.lesson), []).append(row)
            if participant:
                by_participant.setdefault((spell(participant), row.lesson), []).append(row)
    exact = {(inbox.person(row.student), row.lesson): row for row in rows}
    return Found(by_id=_only(by_id) | exact, by_participant=_only(by_participant), by_name=_only(by_name))


def _only(meant: dict[tuple[str, str], list[Row]]) -> dict[tuple[str, str], Row]:
    return {key: rows[0] for key, rows in meant.items() if len({row.student for row in rows}) == 1}


_SPELLINGS = (inbox.person, inbox.login)


def _keys(person: dict) -> list[str]:
    """The spellings of what only one person has."""
    values = [person.get(key) for key in (*_MOODLE_KEYS, *_CANVAS_KEYS)]
    return [spell(value) for value in values if value for spell in _SPELLINGS]


def _names(person: dict) -> set[str]:
    """The spellings of a person's full name, which several people may have."""
    names = {person.get("Full name") or "", person.get("Student") or ""}
    for last in ("Last name", "Surname"):
        names.add(f"{person.get('First name') or ''} {person.get(last) or ''}")
    return {spell(name) for name in names if name.strip() for spell in _SPELLINGS}


def _moodle_parts(student: str) -> tuple[str, str]:
    """The full name and the participant of an id such as "Jane Doe_4711", which a download from Moodle makes.

    Moodle numbers the participants of each assignment anew, so the number is another one in each lesson. An id of several
    words without a number is a name as well.
    """
    name, _, number_ = student.rpartition("_")
    if name and number_.isdecimal():
        return name, f"Participant {number_}"
    return (student if " " in student else ""), ""


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
            for student in found.students()
        ]
    used = set()
    for person, theirs in zip(people, _theirs(found, people, lessons), strict=True):
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
    if people is None:
        people = [{"username": student} for student in found.students()]
    for person, theirs in zip(people, _theirs(found, people, lessons), strict=True):
        used |= {(row.student, row.lesson) for row in theirs.values()}
        own = [person.get(column) or "" for column in keep]
        notes = [note(Store(places.results / r.lesson).noted(r.student)) for r in theirs.values()]
        table.append([*own, *(_score(theirs, lesson) for lesson in lessons), "; ".join(filter(None, notes))])
    return table, used


def _theirs(found: Found, people: list[dict], lessons: list[str]) -> list[dict[str, Row]]:
    """For each person their row in each lesson: by what only they have, else by their name; no row is two people's."""
    theirs: list[dict[str, Row]] = [{} for _ in people]
    taken: set[tuple[str, str]] = set()
    ways = (
        (found.by_id, _keys),
        (
            found.by_participant,
            lambda p: [spell(p["Identifier"]) for spell in _SPELLINGS if p.get("Identifier")],
        ),
        (found.by_name, lambda p: sorted(_names(p))),
    )
    for table, spellings in ways:
        for person, own in zip(people, theirs, strict=True):
            for lesson in lessons:
                row = next((table[s, lesson] for s in spellings(person) if (s, lesson) in table), None)
                if row is not None and lesson not in own and (row.student, lesson) not in taken:
                    own[lesson] = row
                    taken.add((row.student, lesson))
    return theirs


def _score(theirs: dict[str, Row], lesson: str) -> str:
    return number(round(theirs[lesson].score, 2)) if lesson in theirs else ""
