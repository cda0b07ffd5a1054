"""How `lessons/` and `solutions/` are made from `source/`, all or nothing.

Nothing in `lessons/` or `solutions/` is touched until every lesson asked for has come through every check.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from autograder.building import stamps
from autograder.building.fault import BuildStopped, Fault
from autograder.course import Course, course


def main(lessons: list[str] | None = None, force: bool = False) -> int:
    """Build the lessons named, or all; returns 0, or 1 after one line for each fault."""
    try:
        build(course(), lessons, force=force, say=_say)
    except BuildStopped as stopped:
        for fault in stopped.faults:
            print(fault, file=sys.stderr)
        count = sum(fault.stops for fault in stopped.faults)
        print(f"Stopped: {count} to mend; lessons/ and solutions/ are as they were.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped by hand; lessons/ and solutions/ are as they were.", file=sys.stderr)
        return 130
    return 0


def build(
    here: Course,
    lessons: list[str] | None = None,
    *,
    force: bool = False,
    say: Callable[..., None] = lambda text, end="\n": None,
) -> None:
    """Make the lessons named (or all) of the course; BuildStopped with every fault when one stops it.

    `say(text, end)` is told how far it is; what ends in a carriage return will be written over.
    """
    chosen = _chosen(here, lessons)
    stale = [*chosen, stamps.SHARED] if force else stamps.changed(here, chosen)
    for lesson in chosen:
        if lesson not in stale:
            say(f"{lesson}: nothing changed")
    if stale:
        _make(here, [lesson for lesson in chosen if lesson in stale], chosen, lessons is None, say)
        stamps.keep(here, chosen)


def _chosen(here: Course, lessons: list[str] | None) -> list[str]:
    known = here.lesson_ids()
    unknown = [lesson for lesson in lessons or [] if lesson not in known]
    if unknown:
        says = f"is not there; lessons: {', '.join(known) or 'none'}"
        raise BuildStopped([Fault(where=f"source/{name}", says=says) for name in unknown])
    return lessons or known


def _make(here: Course, stale: list[str], chosen: list[str], whole: bool, say: Callable[..., None]) -> None:
    """Make the stale lessons and what all share in a folder aside, then put everything in place."""
    # here: reading notebooks takes a second to import, and a build with nothing to do needs none
    from autograder.building import glossary, index, making
    from autograder.building.lint import lint_source_root

    work = here.root / "build"
    work.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        staged, faults = Path(folder), lint_source_root(here) + glossary.faults(here, chosen)
        faults += making.bank_faults(here)
        for lesson in stale:
            faults += making.make_lesson(here, lesson, staged, say)
        if any(fault.stops for fault in faults):
            raise BuildStopped(faults)
        for fault in faults:
            say(str(fault))
        _make_shared(here, staged)
        _put_in_place(here, staged, whole=whole)
    index.write_readme(here)


def _make_shared(here: Course, staged: Path) -> None:
    """What all lessons share: the glossary, and the index that JupyterLab opens on."""
    from autograder import cells
    from autograder.building import glossary, index

    (staged / "lessons").mkdir(exist_ok=True)
    (staged / "solutions").mkdir(exist_ok=True)
    if text := glossary.render(here):
        for kind in ("lessons", "solutions"):
            (staged / kind / "glossary.md").write_text(text, encoding="utf-8", newline="\n")
    cells.save(index.notebook(here), staged / "lessons" / "index.ipynb")


def _put_in_place(here: Course, staged: Path, *, whole: bool) -> None:
    """Move what was made to its place, each folder by one rename; a whole build drops what has no source."""
    old = staged / "old"
    old.mkdir()
    for kind in (here.lessons, here.solutions):
        kind.mkdir(exist_ok=True)
        for fresh in sorted((staged / kind.name).iterdir()):
            target = kind / fresh.name
            if target.exists():
                os.replace(target, old / f"{kind.name}-{fresh.name}")
            os.replace(fresh, target)
        if whole:
            for left in sorted(kind.glob("lesson-*")):
                if left.name not in here.lesson_ids():
                    os.replace(left, old / f"{kind.name}-{left.name}")


def _say(text: str, end: str = "\n") -> None:
    if end == "\n" or sys.stderr.isatty():
        print(f"\r\033[K{text}" if sys.stderr.isatty() else text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word != "--force"]
    sys.exit(main(given or None, force="--force" in sys.argv))
