"""Which questions a learner has got right so far: a file of theirs that no grade depends on."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from autograder import questions


def path() -> Path | None:
    """Return the learner's file, or None where nothing is kept (MEMORY_BUDGET_PROGRESS=off, grading, tests).

    MEMORY_BUDGET_PROGRESS names another file.
    """
    chosen = os.environ.get("MEMORY_BUDGET_PROGRESS", "")
    if chosen.lower() in ("off", os.devnull) or os.environ.get("NBGRADER_EXECUTION"):
        return None
    if chosen:
        return Path(chosen).expanduser()
    if os.environ.get("PYTEST_CURRENT_TEST"):
        return None
    import platformdirs

    return Path(platformdirs.user_data_dir("memory-budget", appauthor=False)) / "progress.json"


def load() -> dict[str, list[str]]:
    """Return {lesson: names right so far}; empty where the file is missing or unreadable."""
    file = path()
    try:
        held = json.loads(file.read_text("utf-8")) if file else {}
    except (OSError, ValueError):
        return {}
    if not isinstance(held, dict):
        return {}
    return {
        lesson: [n for n in names if isinstance(n, str)] for lesson, names in held.items() if _is_list(names)
    }


def _is_list(names: object) -> bool:
    return isinstance(names, list)


def record(lesson: str, name: str, is_right: bool) -> None:
    """Note that a question was got right, which it stays; a file that cannot be written is no error."""
    file = path()
    if file is None or not is_right:
        return
    held = load()
    if name in held.get(lesson, []):
        return
    held[lesson] = sorted({*held.get(lesson, []), name})
    try:
        _write(file, held)
    except OSError:
        return


def _write(file: Path, held: dict[str, list[str]]) -> None:
    """Write beside the file and swap, so that a stop in between leaves the old one whole."""
    if file.exists() and not file.is_file():
        raise OSError(f"{file} is no file")
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=file.parent, suffix=".part")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump(held, out, indent=1, sort_keys=True)
    os.replace(beside, file)


def right_so_far(lesson: str) -> tuple[int, int]:
    """Return (questions right so far, questions there are) in a lesson."""
    known = questions.bank(lesson)
    return sum(1 for name in set(load().get(lesson, [])) if name in known), len(known)
