"""Writes the HTML that a learner may see: their own work, what it was worth, and nothing else of ours.

nbgrader's generate_feedback makes the page. Everything of the learner's in it was cleaned when it was graded; on top of
that the finished page may run only the scripts that the template brings, and names no path of this machine.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Callable
from functools import cache

import nbformat
from nbgrader.api import MissingEntry
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.card import NO_FORMULAS
from autograder.course import Course
from autograder.grading import apart, grader, inbox, summary
from autograder.grading.grade import (
    Places,
    Refused,
    Store,
    cores,
    only_one,
    progress,
    released,
    write_whole,
)
from autograder.grading.gradebook import Book, GradebookError, OneFolder, quiet, run_for
from autograder.grading.submissions import Lesson

_NO_ALT = "No description has been provided for this image"
_SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>", re.S | re.I)
_STYLE = """<style>
.memory-budget-card { color: #222 !important; }
img, svg { max-width: 100%; }
summary { display: list-item !important; cursor: pointer; }
#notebook th, #notebook td { padding: 2px 10px !important; }
</style>"""


class _Page(OneFolder, GenerateFeedback):
    """nbgrader's feedback for one submission."""


def feedback(
    here: Course,
    lesson_id: str,
    students: tuple[str, ...] = (),
    say: Callable[[str], None] = print,
    jobs: int | None = None,
) -> int:
    """Write a lesson's feedback, `jobs` pages at a time; 0 when everyone's is there, 1 when one could not be made."""
    places = Places(root=here.root)
    lesson, _ = released(here, lesson_id)
    with only_one(places, say):
        book = Book(here, places.staged)
        wanted = {inbox.person(name) for name in students}
        graded = [s for s in _graded(book, lesson) if not wanted or inbox.person(s) in wanted]
        if not graded:
            raise Refused(f"nobody is graded for {lesson_id} yet: run `make grade LESSON={lesson_id}` first")
        failed = []
        to_mark = book.to_mark(lesson_id)
        with apart.pool(jobs or cores()) as start, progress(len(graded), f"{lesson_id} feedback") as step:
            started = [
                (student, start(write_page, here, lesson_id, student, to_mark.get(student, {})))
                for student in graded
            ]
            for student, page in started:
                try:
                    page.result()
                except (apart.Ended, apart.Failed) as error:
                    failed.append(student)
                    say(f"{student}: no feedback ({error})")
                step(1)
        if waiting := sum(student in graded for student in to_mark):
            says = f"answers of {waiting} of {len(graded)} students wait for a mark; their pages say so"
            say(f"{lesson_id}: {says}")
    say(
        f"{lesson_id}: {len(graded) - len(failed)} pages in {book.here.root / book.config.CourseDirectory.feedback_directory}"
    )
    return 1 if failed else 0


def _graded(book: Book, lesson: Lesson) -> list[str]:
    with book.open() as gradebook:
        try:
            found = gradebook.find_assignment(lesson.id).submissions
        except MissingEntry:
            return []
        return sorted(submission.student_id for submission in found)


def write_page(here: Course, lesson_id: str, student: str, waiting: dict[str, bool]) -> None:
    """Write one student's page; `waiting` is what `Book.to_mark` says of them."""
    places = Places(root=here.root)
    lesson, _ = released(here, lesson_id)
    book = Book(here, places.staged)
    noted = Store(places.results / lesson.id).noted(student) or {}
    page = book.folder("feedback", student, lesson.id) / f"{lesson.name}.html"
    if not (book.folder("autograded", student, lesson.id) / f"{lesson.name}.ipynb").is_file():
        if noted and not noted.get("unreadable"):
            raise GradebookError(f"the graded notebook is gone: run `make grade LESSON={lesson.id}` again")
        page.parent.mkdir(parents=True, exist_ok=True)
        write_whole(page, _reason_page(lesson, noted))
        return
    config = Config()
    config.merge(book.config)
    config.CourseDirectory.assignment_id, config.CourseDirectory.notebook_id = lesson.id, lesson.name
    run_for(student, _Page, config)
    write_whole(page, finished(page.read_text(encoding="utf-8"), noted, waiting))


def finished(page: str, noted: dict, waiting: dict[str, bool]) -> str:
    """A page as it is given out: only known scripts may run, pictures have a text, no path of this machine.

    Of the questions that are `waiting` for a person, none shows a zero that nobody gave.
    """
    page = _named(page)
    for question, marked in waiting.items():
        page = _unmarked(page, question, marked)
    page = page.replace(f'alt="{_NO_ALT}"', 'alt="A figure drawn by the code above"')
    page = re.sub(r"<img(?![^>]*\balt=)", '<img alt="A figure drawn by the code above"', page)
    for path in grader.hidden_paths():
        page = page.replace(path, "…")
    policy = content_policy(template_scripts())
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n{_STYLE}'
    page, found = re.subn(r'<meta charset="utf-8" ?/>', lambda m: f"{m[0]}\n{head}", page, count=1)
    if not found:
        raise GradebookError("the page is not as expected: it could not be protected")
    return page.replace("<body>", f"<body>\n{_waits(waiting)}{_notes(noted)}", 1)


def _named(page: str) -> str:
    """nbgrader's list of scores with the questions' names, and links that lead out of the page as plain words."""
    page = re.sub(
        r'(<li><a href="#(\w+)">)(?:Test cell|Coding free-response)(</a>)', r"\1<code>\2</code>\3", page
    )
    return re.sub(r'<a href="\.\./[^"<>]*">((?:[^<]|<(?!/a>))*)</a>', r"\1", page)


def _unmarked(page: str, question: str, marked: bool) -> str:
    """A page that says of a question that its mark is still to come, in the list and at the answer."""
    what = r"\1, to be looked at again" if marked else r"not marked yet, of \2"
    score = r"(Score: [\d.]+ / ([\d.]+))"
    page = re.sub(
        rf'(<li><a href="#{question}">[^\n]*?\()Score: [^\n)]*(\)</li>)',
        lambda m: m[0] if marked else f"{m[1]}not marked yet{m[2]}",
        page,
        count=1,
    )
    begin = page.find(f'<a name="{question}"></a>')
    if begin < 0:
        return page
    return page[:begin] + re.sub(score, what, page[begin:], count=1)


def _waits(waiting: dict[str, bool]) -> str:
    if not waiting:
        return ""
    names = ", ".join(f"<code>{html.escape(name)}</code>" for name in waiting)
    return (
        f'<div class="container"><p><strong>Not final:</strong> a person still has to mark {names}; '
        "the score below counts only what is marked.</p></div>\n"
    )


def _notes(noted: dict) -> str:
    """What was put right or left out, so that a learner knows what was graded."""
    says = [html.escape(summary.one_line(line)) for line in noted.get("notes") or []]
    says += [
        html.escape(summary.one_line(f"{i['where']}: {i['says']}"))
        for i in noted.get("incidents") or []
        if i["kind"] not in ("worth a look", "tampering", "protocol", "grader") and not i.get("hidden")
    ]
    items = "".join(f"<li>{line}</li>" for line in dict.fromkeys(says))
    return (
        f'<div class="container {NO_FORMULAS}"><p>About your file:</p><ul>{items}</ul></div>' if items else ""
    )


def content_policy(hashes: tuple[str, ...]) -> str:
    """A policy under which nothing runs but the template's own scripts, and nothing is sent anywhere."""
    allowed = " ".join([*(f"'sha256-{h}'" for h in hashes), "https://cdnjs.cloudflare.com"])
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline' https://cdnjs.cloudflare.com; "
        "img-src data: 'self'; font-src data: https://cdnjs.cloudflare.com; base-uri 'none'; form-action 'none'"
    )


@cache
def template_scripts() -> tuple[str, ...]:
    """Hashes of the scripts that stand in a page of an empty notebook."""
    from nbconvert.exporters import HTMLExporter

    config = GenerateFeedback(coursedir=CourseDirectory()).config
    about = {"notebook": "", "score": 0, "max_score": 0, "late_penalty": 0}
    with quiet():
        page, _ = HTMLExporter(config=config).from_notebook_node(
            nbformat.v4.new_notebook(), resources={"nbgrader": about}
        )
    inline = [body for attributes, body in _SCRIPT.findall(page) if "src=" not in attributes]
    return tuple(base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in inline)


def _reason_page(lesson: Lesson, noted: dict) -> str:
    why = html.escape(
        summary.one_line(noted.get("unreadable") or "nothing that could be graded was handed in")
    )
    title = html.escape(str(lesson.metadata.get("memory_budget", {}).get("title", lesson.id)))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8" />'
        f"<title>{title}</title></head><body><h1>{title}</h1>"
        f"<p>Your file could not be graded: {why}.</p><p>Save the notebook in JupyterLab and hand it in again.</p>"
        "</body></html>\n"
    )
