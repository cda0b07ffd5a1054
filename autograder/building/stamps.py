"""Whether anything changed since the last build: digests of what lessons are made from and of what was made.

Imports nothing slow, so that a build with nothing to do ends at once.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from autograder.course import IGNORED, PICTURE, Course

SHARED = "shared"


def lesson_stamp(here: Course, lesson: str) -> str:
    """The digest of one lesson: source, question bank, the packages, and the two folders that were made."""
    folders = [kind / lesson for kind in (here.source, here.lessons, here.solutions)]
    bank = here.questions / f"{lesson.replace('-', '_')}.py"
    paths = [*_code(), bank, here.root / "constraints.txt"]
    return _digest(here, [*paths, *(path for folder in folders for path in files(folder) or [folder])])


def shared_stamp(here: Course) -> str:
    """The digest of what all lessons share: every source, the glossary, the index and the README."""
    made = [here.lessons / name for name in ("index.ipynb", "glossary.md", PICTURE)]
    made.append(here.solutions / "glossary.md")
    return _digest(here, [*files(here.source), *_code(), *made, here.root / "README.md"])


def changed(here: Course, lessons: list[str]) -> list[str]:
    """Which of `lessons` (and SHARED) must be made again."""
    known = read(here)
    stale = [lesson for lesson in lessons if known.get(lesson) != lesson_stamp(here, lesson)]
    return stale + ([] if known.get(SHARED) == shared_stamp(here) else [SHARED])


def keep(here: Course, lessons: list[str]) -> None:
    """Remember that `lessons` and what they share are as they should be."""
    held = {lesson: stamp for lesson, stamp in read(here).items() if lesson in here.lesson_ids()}
    held |= {lesson: lesson_stamp(here, lesson) for lesson in lessons} | {SHARED: shared_stamp(here)}
    _file(here).parent.mkdir(exist_ok=True)
    _file(here).write_text(json.dumps(held, indent=1), encoding="utf-8")


def read(here: Course) -> dict[str, str]:
    """What the last build remembered; nothing when there was none."""
    try:
        held = json.loads(_file(here).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}


def files(folder: Path) -> list[Path]:
    """The files under a folder, sorted, without what editors leave behind."""
    found = [path for path in sorted(folder.rglob("*")) if not path.is_dir()]
    return [path for path in found if not any(part in IGNORED for part in path.relative_to(folder).parts)]


def _file(here: Course) -> Path:
    return here.root / "build" / "stamps.json"


def _code() -> list[Path]:
    """The two packages; not other lessons' questions, which change nothing for a lesson."""
    package = Path(__file__).parents[2]
    code = [p for part in ("memory_budget", "autograder") for p in sorted((package / part).rglob("*.py"))]
    return [path for path in code if not path.name.startswith("lesson_")]


def _digest(here: Course, paths: Iterable[Path]) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for path in paths:
        name = path.relative_to(here.root) if path.is_relative_to(here.root) else path.name
        digest.update(str(name).encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"missing")
    return digest.hexdigest()
