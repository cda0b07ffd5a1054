"""The course's commands: `python -m autograder grade lesson-06`, `feedback`, `export`, `replay`, `build`, `new-lesson`."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from autograder.course import course


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 when it did what was asked, 1 when it could not, 2 when it was asked wrongly."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    chosen = parser.parse_args(words)
    if chosen.command is None:
        parser.print_help()
        return 2
    return chosen.run(chosen)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m autograder", description="The course's own commands.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    grade = commands.add_parser("grade", help="grade what lies in autograder/submitted")
    grade.add_argument("lesson", help="such as lesson-06")
    grade.add_argument("--jobs", type=_positive, help="submissions at a time (default: every core)")
    grade.add_argument(
        "--sandbox", choices=("on", "off"), default="on", help="off: run submissions unprotected"
    )
    grade.add_argument(
        "--seed", type=int, help="draw the questions' inputs from this seed (default: a fresh one)"
    )
    grade.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="run the jobs on a Dask cluster")
    grade.add_argument("--student", action="append", default=[], help="only this student (may be repeated)")
    grade.set_defaults(run=_grade)
    feedback = commands.add_parser("feedback", help="write the HTML that a learner may see")
    feedback.add_argument("lesson")
    feedback.add_argument("--jobs", type=_positive, help="pages at a time (default: every core)")
    feedback.add_argument(
        "--student", action="append", default=[], help="only this student (may be repeated)"
    )
    feedback.set_defaults(run=_feedback)
    export = commands.add_parser("export", help="write grades as an LMS imports them")
    export.add_argument("--for", dest="lms", choices=("canvas", "moodle"), required=True)
    export.add_argument("--to", help="the file to write (default: autograder/grades-LMS.csv)")
    export.add_argument("--roster", help="a gradebook exported from the LMS, for names and ids")
    export.add_argument(
        "--column",
        action="append",
        default=[],
        type=_column,
        metavar="LESSON=NAME",
        help="the LMS's own name of a lesson's column (may be repeated)",
    )
    export.set_defaults(run=_export)
    replay = commands.add_parser(
        "replay", help="grade one submission again from its seed and show every question asked"
    )
    replay.add_argument("student")
    replay.add_argument("lesson")
    replay.add_argument(
        "--seed", type=int, help="the seed in the report (default: the one it was graded with)"
    )
    replay.add_argument("--sandbox", choices=("on", "off"), default="on")
    replay.set_defaults(run=_replay)
    build = commands.add_parser("build", help="make lessons/ and solutions/ from source/")
    build.add_argument("lessons", nargs="*", metavar="LESSON")
    build.add_argument("--force", action="store_true", help="also where nothing changed")
    build.set_defaults(run=_build)
    new_lesson = commands.add_parser("new-lesson", help="lay a new lesson's files")
    new_lesson.add_argument("lesson")
    new_lesson.add_argument("--title")
    new_lesson.add_argument("--slug")
    new_lesson.set_defaults(run=_new_lesson)
    return parser


def _column(text: str) -> tuple[str, str]:
    lesson, _, name = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not LESSON=NAME, such as 'lesson-06=Homework 6 (12345)'"
        )
    return lesson, name


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a number of jobs; 1 or more")
    return number


def _guarded(work: Callable[[], int]) -> int:
    """Run a command; what it cannot do is one line, never a stack trace; a stop leaves no file and no process."""
    from autograder.grading.grade import Refused
    from autograder.grading.gradebook import GradebookError

    try:
        with _stops():
            return work()
    except (Refused, GradebookError) as error:
        print(f"Stopped: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"Stopped: {error}. What was graded is kept: run the same command to go on.", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print("Stopped. What was graded is kept: run the same command to go on.", file=sys.stderr)
        return 128 + (stop.args[0] if stop.args else signal.SIGINT)


@contextmanager
def _stops() -> Iterator[None]:
    """Let the signals by which a system ends a program end it as Ctrl-C does, the first of them only."""

    def stop(number: int, frame: object) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    here = threading.current_thread() is threading.main_thread()
    names = ("SIGINT", "SIGTERM", "SIGHUP") if here else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _grade(chosen: argparse.Namespace) -> int:
    from autograder.grading import grade

    options = grade.Options(
        jobs=chosen.jobs,
        shut_in=chosen.sandbox == "on",
        seed=chosen.seed,
        scheduler=chosen.scheduler,
        students=tuple(chosen.student),
    )
    return _guarded(lambda: grade.grade(course(), chosen.lesson, options))


def _feedback(chosen: argparse.Namespace) -> int:
    from autograder.grading import feedback

    return _guarded(
        lambda: feedback.feedback(course(), chosen.lesson, tuple(chosen.student), jobs=chosen.jobs)
    )


def _export(chosen: argparse.Namespace) -> int:
    from autograder.grading import export

    return _guarded(
        lambda: export.export(course(), chosen.lms, chosen.to, chosen.roster, dict(chosen.column))
    )


def _replay(chosen: argparse.Namespace) -> int:
    from autograder.grading import replay

    return _guarded(
        lambda: replay.replay(
            course(), chosen.student, chosen.lesson, chosen.seed, shut_in=chosen.sandbox == "on"
        )
    )


def _build(chosen: argparse.Namespace) -> int:
    from autograder.building import build

    return build.main(chosen.lessons or None, force=chosen.force)


def _new_lesson(chosen: argparse.Namespace) -> int:
    from autograder.building import new_lesson

    return new_lesson.main(chosen.lesson, chosen.title, chosen.slug)


if __name__ == "__main__":
    sys.exit(main())
