"""Grades a lesson for the whole class: who handed in, jobs in parallel, one writer, `grades.csv` and a report.

Each result is kept under a hash of all it depends on, and each step after it can be done twice without harm, so that a
run that was killed at any moment goes on where it stopped.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import secrets
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from autograder.course import Course
from autograder.grading import apart, grader, inbox, sandbox, submissions, summary
from autograder.grading.gradebook import Book, GradebookError
from autograder.grading.grader import Job, digest
from autograder.grading.inbox import Submitted
from autograder.grading.submissions import Lesson

#: how many bytes of files may be under way at once
UNDER_WAY = 256 * 10**6
COLUMNS = ("student", "lesson", "score", "max_score", "needs_manual_grade", "note")


class Refused(Exception):
    """Grading cannot start; the message is one line that says what to do."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to grade. `seed` None draws a fresh one; `jobs` None uses every core."""

    jobs: int | None = None
    shut_in: bool = True
    seed: int | None = None
    scheduler: str | None = None
    students: tuple[str, ...] = ()
    limits: dict = field(default_factory=dict)
    share: bool = True
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where grading keeps things, all under `autograder/`."""

    root: Path

    @property
    def kept(self) -> Path:
        return self.root / "autograder"

    @property
    def submitted(self) -> Path:
        return self.kept / "submitted"

    @property
    def staged(self) -> Path:
        return self.kept / "staged"

    @property
    def results(self) -> Path:
        return self.kept / "results"

    @property
    def grades(self) -> Path:
        return self.kept / "grades.csv"

    def report(self, lesson: str) -> Path:
        return self.kept / f"report-{lesson}.md"


# ---------------------------------------------------------------- the whole run


def grade(here: Course, lesson_id: str, options: Options, say: Callable[[str], None] = print) -> int:
    """Grade a lesson; 0 when everyone was graded or has a reason in grades.csv, 1 when the grader failed on someone."""
    places = Places(root=here.root)
    lesson, text = released(here, lesson_id)
    if options.shut_in and options.scheduler is None and (why := sandbox.why_no_sandbox()):
        raise Refused(
            f"{why}. Nothing was graded. SANDBOX=off grades without a sandbox, and says so in every report."
        )
    if not places.submitted.is_dir():
        raise Refused(
            f"{places.submitted} is not there: put submissions in it as STUDENT/{lesson_id}/NOTEBOOK.ipynb"
        )
    places.results.mkdir(parents=True, exist_ok=True)
    with only_one(places, say):
        return _grade(here, places, lesson, text, options, say)


def _grade(here: Course, places: Places, lesson: Lesson, text: str, options: Options, say: Callable) -> int:
    book = Book(here, places.staged)
    register(book, places, lesson, text)
    handed_in = inbox.collect(
        places.submitted, lesson, book.students(), only=options.students, jobs=options.jobs or cores()
    )
    if not handed_in:
        raise Refused(f"no submissions of {lesson.id} in {places.submitted}")
    store = Store(places.results / lesson.id)
    begun = store.begin(options.seed)
    job = base_job(here, lesson, text, options, begun["seed"])
    if options.share:
        job = replace(job, reference=reference(store, job, options, say))
    keys = {one.student: store.key(one, job, options.seed) for one in handed_in}
    known = sum(one.path is not None and store.has(keys[one.student]) for one in handed_in)
    run = Run(book=book, lesson=lesson, store=store, job=job, options=options, keys=keys)
    failed = run.grade(handed_in)
    finish(places, book, lesson, store, handed_in)
    if not options.students:
        store.forget_others(set(keys.values()))
    store.end(begun)
    _say_what_came_of_it(places, lesson, store, handed_in, known, say)
    return 1 if failed else 0


def base_job(here: Course, lesson: Lesson, text: str, options: Options, seed: int) -> Job:
    """What the jobs of all students have in common."""
    return Job(
        student="",
        lesson=lesson.id,
        lesson_name=lesson.name,
        lesson_text=text,
        notebook=b"",
        seed=seed,
        questions=question_file(here, lesson.id),
        limits=options.limits,
        shut_in=options.shut_in,
    )


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run over the class."""

    book: Book
    lesson: Lesson
    store: Store
    job: Job
    options: Options
    #: by student, under what their result is kept
    keys: dict[str, str]

    def grade(self, handed_in: list[Submitted]) -> int:
        """Grade what is not graded yet, and enter results in the students' order while later ones are under way.

        Returns on how many of them the grader itself failed.
        """
        failed = 0
        with (
            self.book.held_open(),
            runner(self.options, self.store) as start,
            progress(len(handed_in), self.lesson.id, self.options.quiet) as step,
        ):
            left, waiting, size = deque(handed_in), deque(), 0
            while left or waiting:
                while left and (not waiting or size + left[0].size <= UNDER_WAY):
                    waiting.append((left[0], self._started(left[0], start)))
                    size += left.popleft().size
                one, future = waiting.popleft()
                failed += not self._settled(one, future)
                size -= one.size
                step(1)
        return failed

    def _started(self, one: Submitted, start: Callable) -> Any:
        """The grading of a submission under way; None when it need not be graded, or what went wrong."""
        key = self.keys[one.student]
        if one.path is None or self.store.has(key):
            return None
        try:
            return start(replace(self.job, student=one.student, notebook=one.body()), key)
        except Exception as error:
            return error

    def _settled(self, one: Submitted, future: Any) -> bool:
        """Enter what became of a submission; False when that is the grader's failure, which never stops the class."""
        try:
            self._enter(one, self._result(one, future))
            return True
        except GradebookError as error:
            says = f"not entered: {error}"
        except apart.Failed as error:
            says = f"the grader failed on it: {error}"
        except Exception as error:
            says = f"the grader failed on it: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        with suppress(GradebookError):
            self.book.write_nothing_new(one.student, self.lesson)
        self.store.note(one.student, self._ungraded(one, says))
        return False

    def _result(self, one: Submitted, future: Any) -> dict:
        if one.path is None:
            return self._ungraded(one, one.why_not or "there is nothing to grade")
        if isinstance(future, Exception):
            raise future
        try:
            if future is not None:
                future.result()
        except apart.Ended as why:
            result = self._ungraded(one, f"the grader had to stop on it: {why}")
            if why.by_share:  # otherwise it may have been the machine's doing: the next run tries again
                self.store.save(self.keys[one.student], result)
            return result
        return self.store.load(self.keys[one.student])

    def _ungraded(self, one: Submitted, why: str) -> dict:
        return grader.ungraded(replace(self.job, student=one.student), why)

    def _enter(self, one: Submitted, result: dict) -> None:
        """Put a result into the gradebook, unless exactly this one is already there."""
        book, lesson, store = self.book, self.lesson, self.store
        mark = digest(self.keys[one.student], json.dumps(result, sort_keys=True), one.timestamp, book.url)
        page = book.folder("autograded", one.student, lesson.id) / f"{lesson.name}.ipynb"
        if store.entered(one.student) != mark or not (result["unreadable"] or page.is_file()):
            if result["unreadable"]:
                book.write_nothing(one.student, lesson, one.timestamp)
            else:
                book.write(result, lesson, one.timestamp)
        store.note(one.student, result, one.notes)
        store.enter(one.student, mark)


def finish(places: Places, book: Book, lesson: Lesson, store: Store, handed_in: list[Submitted]) -> None:
    """Write grades.csv and the report from what the gradebook and the results say now, of the whole class."""
    write_grades(places, book)
    students = {one.student for one in handed_in}
    students |= {row.student for row in book.rows() if row.lesson == lesson.id}
    notes = {student: store.noted(student) for student in sorted(students)}
    summary.write(places.report(lesson.id), lesson.id, notes, book.to_mark(lesson.id))


def write_grades(places: Places, book: Book) -> None:
    """grades.csv: one row a student and lesson, from the gradebook, with the reason where something was amiss."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in book.rows():
        noted = Store(places.results / row.lesson).noted(row.student)
        cells = (row.student, row.lesson, number(row.score), number(row.max_score), row.needs_manual_grade)
        writer.writerow([safe_cell(str(cell)) for cell in (*cells, summary.note(noted))])
    write_whole(places.grades, table.getvalue())


def number(value: float) -> str:
    """A score without idle decimals."""
    return f"{value:.4f}".rstrip("0").rstrip(".")


def safe_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    text = re.sub(r";(?=[\s\"]*[=+\-@])", ";'", text)  # where a semicolon parts the cells
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _say_what_came_of_it(
    places: Places, lesson: Lesson, store: Store, handed_in: list[Submitted], known: int, say: Callable
) -> None:
    noted = [store.noted(one.student) or {} for one in handed_in]
    bad = sum(bool(n.get("unreadable")) for n in noted)
    flagged = sum(bool(n.get("incidents")) for n in noted)
    says = f"{lesson.id}: {len(noted) - bad} graded"
    says += f" ({known} unchanged since the last run)" if known else ""
    says += f", {bad} not graded (the reasons are in grades.csv)" if bad else ""
    says += f", {flagged} with something to look at ({places.report(lesson.id).name})" if flagged else ""
    if any(n.get("shut_in") is False for n in noted):
        says += "; the sandbox was OFF"
    say(says)
    say(f"Grades: {places.grades}")


# ---------------------------------------------------------------- the lesson


def released(here: Course, lesson_id: str) -> tuple[Lesson, str]:
    """The lesson as it was handed out, and its notebook's text; Refused when it was not built."""
    folder = here.lessons / lesson_id
    found = sorted(folder.glob("*.ipynb")) if folder.is_dir() else []
    if len(found) != 1:
        known = ", ".join(sorted(p.name for p in here.lessons.glob("lesson-*"))) or "none"
        raise Refused(
            f"lessons/{lesson_id} holds no single notebook: run `make build` (lessons there: {known})"
        )
    text = found[0].read_text(encoding="utf-8")
    return submissions.read_lesson(text, lesson_id, found[0].stem), text


def question_file(here: Course, lesson_id: str) -> str | None:
    """The path of the question bank where the course is not the one this package lies in."""
    own = Path(__file__).resolve().parents[1] / "questions"
    path = here.questions / f"{lesson_id.replace('-', '_')}.py"
    if not path.is_file():
        raise Refused(f"{lesson_id} has no question bank ({path.name} is missing)")
    chosen = None if here.questions.resolve() == own else str(path)
    try:
        grader.question_bank(lesson_id, chosen)
    except Exception as error:
        raise Refused(
            f"the question bank of {lesson_id} cannot be read: {type(error).__name__}: {error}"
        ) from error
    return chosen


def register(book: Book, places: Places, lesson: Lesson, text: str) -> None:
    """Enter the lesson into the gradebook when it is not there as it is now."""
    mark = places.results / f"registered-{lesson.id}"
    wanted = digest(book.url, text)
    try:
        same = mark.read_text(encoding="utf-8") == wanted
    except OSError:
        same = False
    if not same or not book.knows(lesson):
        book.register(lesson, text)
        write_whole(mark, wanted)


def reference(store: Store, job: Job, options: Options, say: Callable) -> dict[str, list] | None:
    """What the lesson's own cells show for everybody, from one run of the lesson, kept until anything changes."""
    key = "reference-" + digest(job.lesson_text, grader.code_digest(), job.limits, job.shut_in)[:32]
    if not store.has(key):
        try:
            if not options.quiet:
                say(f"{job.lesson}: running the lesson once for what its own cells show")
            shown = _reference_run(job, options.scheduler)
        except Exception as error:
            say(
                f"{job.lesson}: the lesson itself did not run to its end ({error}); every cell is run for everyone"
            )
            return None
        store.save(key, shown)
    return store.load(key)


def _reference_run(job: Job, scheduler: str | None) -> dict[str, dict]:
    if scheduler is None:
        return apart.call(grader.reference_run, job, share=grader.share(job))
    with _cluster(scheduler) as submit:
        return submit(grader.reference_run, job).result()


# ---------------------------------------------------------------- where jobs run


@contextmanager
def runner(options: Options, store: Store) -> Iterator[Callable]:
    """A function that starts a job and returns its future, at whose end the job's result is in the store."""
    if options.scheduler:
        with _cluster(options.scheduler) as submit:
            yield lambda job, key: _Remote(
                future=submit(grader.grade_submission, job), keep=partial(store.save, key)
            )
        return
    with apart.pool(options.jobs or cores()) as start:
        yield lambda job, key: start(
            grader.grade_submission, job, share=grader.share(job), then=partial(store.save, key)
        )


@dataclass(frozen=True, kw_only=True)
class _Remote:
    """A job on a cluster; its result stays there until it is asked for."""

    future: Any
    keep: Callable[[dict], None]

    def result(self) -> None:
        self.keep(self.future.result())
        self.future.release()


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """A function that runs work on a cluster's workers, apart from them; Refused when no scheduler answers.

    When the block is left by an exception, what is under way there is ended too.
    """
    try:
        from distributed import Client
    except ImportError:
        raise Refused("SCHEDULER needs the package's extra `cluster`: pip install -e '.[cluster]'") from None
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise Refused(f"no Dask scheduler answers at {address} ({type(error).__name__})") from None
    mark = secrets.token_hex(8)
    try:
        yield lambda work, job: client.submit(
            apart.call, work, job, share=grader.share(job), mark=mark, pure=False
        )
    except BaseException:
        with suppress(Exception):  # such as a scheduler that is gone
            client.run(apart.end, mark)
        raise
    finally:
        client.close()


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@contextmanager
def progress(total: int, what: str, quiet: bool = False) -> Iterator[Callable[[int], Any]]:
    """A progress bar on the error stream; where that is no terminal, a line now and then."""
    from tqdm import tqdm

    often = 0.1 if sys.stderr and sys.stderr.isatty() else 15.0
    quiet = quiet or sys.stderr is None
    with tqdm(total=total, desc=what, unit="submission", disable=quiet, mininterval=often) as bar:
        yield bar.update


@contextmanager
def only_one(places: Places, say: Callable) -> Iterator[None]:
    """One grader at a time: a second one waits for the first, and says so."""
    from filelock import FileLock, Timeout

    lock = FileLock(places.kept / "grading.lock")
    try:
        lock.acquire(timeout=0.1)
    except Timeout:
        say("Another grading is under way in this course; waiting for it to end.")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


# ---------------------------------------------------------------- what is kept between runs


class Store:
    """Results of one lesson on disk, each written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, seed: int | None) -> dict:
        """The run that goes on, or a new one with its own seed."""
        run = self._read("run.json") or {}
        if not run or run.get("ended") or (seed is not None and run["seed"] != seed):
            run = {
                "seed": secrets.randbits(48) if seed is None else seed,
                "started": time.time(),
                "ended": None,
            }
            self._write("run.json", run)
        return run

    def end(self, run: dict) -> None:
        """Note that a run came to its end, so that the next one draws a seed of its own."""
        self._write("run.json", {**run, "ended": time.time()})

    def key(self, one: Submitted, job: Job, seed: int | None) -> str:
        """The name of a result: a hash of all that it depends on but a seed that was drawn."""
        bank = Path(job.questions).read_bytes() if job.questions else b""
        parts = (
            one.student,
            one.sha256,
            job.lesson_text,
            bank,
            job.reference is not None,
            job.limits,
            job.shut_in,
            seed,
        )
        return digest(grader.VERSION, grader.code_digest(), *parts)[:40]

    def has(self, key: str) -> bool:
        return (self.folder / f"{key}.json").is_file()

    def load(self, key: str) -> dict:
        return json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))

    def save(self, key: str, result: dict) -> None:
        self._write(f"{key}.json", result)

    def forget_others(self, keys: set[str]) -> None:
        """Take away results that are nobody's any more: of files handed in anew, of questions since corrected."""
        for path in self.folder.glob("*.json"):
            if re.fullmatch(r"[0-9a-f]{40}", path.stem) and path.stem not in keys:
                path.unlink(missing_ok=True)

    def note(self, student: str, result: dict, notes: tuple[str, ...] = ()) -> None:
        """Keep what the report and grades.csv say of a student."""
        kept = {
            k: result.get(k)
            for k in ("student", "seed", "shut_in", "unreadable", "incidents", "usage", "seconds")
        }
        kept["scores"] = {name: judged["score"] for name, judged in result.get("verdicts", {}).items()}
        self._write(f"{self._person(student)}.note.json", {**kept, "notes": [*notes, *result["notes"]]})

    def noted(self, student: str) -> dict | None:
        return self._read(f"{self._person(student)}.note.json")

    def enter(self, student: str, mark: str) -> None:
        """Note that a student's result is in the gradebook."""
        self._write(f"{self._person(student)}.entered.json", mark)

    def entered(self, student: str) -> str | None:
        return self._read(f"{self._person(student)}.entered.json")

    def _person(self, student: str) -> str:
        return "student-" + digest(student)[:32]

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def _write(self, name: str, value: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / name, json.dumps(value))


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all, whenever the process is killed."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with open(fresh, "w", encoding="utf-8", newline="") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(fresh, path)
