"""Who handed in what: the folders under `submitted/`, and which file of each is to be graded."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

from autograder.grading import apart, submissions, summary
from autograder.grading.submissions import Lesson, Unreadable

_DEPTH = 3
_LONGEST = 300
_MOST_FILES = 500
_NOTEBOOK = re.compile(r"\.ipynb(?:\.(?:txt|json))?$", re.I)
_COPY = re.compile(r"\(\d{1,3}\)$| - copy$", re.I)
_JUNK = re.compile(r"^(?:\.|__MACOSX$|__pycache__$|Thumbs\.db$|timestamp\.txt$)|\.pyc$", re.I)


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """One student's submission: the file to grade, or the reason why there is none; notes for the report."""

    student: str
    path: Path | None = None
    size: int = 0
    sha256: str = ""
    why_not: str | None = None
    timestamp: str | None = None
    notes: tuple[str, ...] = ()

    def body(self) -> bytes:
        """The bytes of the file; OSError when it is not any more what was chosen."""
        read = read_file(self.path)
        if hashlib.sha256(read).hexdigest() != self.sha256:
            raise OSError("the file was changed while the class was graded: run the same command again")
        return read


@dataclass(kw_only=True)
class _Folder:
    """What a student's folder holds for a lesson, as plain data."""

    name: str
    chosen: str | None = None
    size: int = 0
    sha256: str = ""
    why_not: str | None = None
    timestamp: str | None = None
    changed: float = 0.0
    notes: list[str] = field(default_factory=list)


def collect(
    submitted: Path,
    lesson: Lesson,
    known: Iterable[str] = (),
    *,
    only: Iterable[str] = (),
    jobs: int = 1,
) -> list[Submitted]:
    """Every student's submission of a lesson, or those of `only`, sorted by student; one student's folders count once.

    Folders are looked through by processes that a hostile file may end, `jobs` at a time; no file's bytes are kept.
    """
    same: dict[str, list[str]] = {}
    names = sorted(os.listdir(submitted)) if submitted.is_dir() else []
    people = {person(name) for name in names}
    for name in names:
        copied = _COPY.sub("", person(name)).strip()
        same.setdefault(copied if copied in people else person(name), []).append(name)
    ids = {person(student): student for student in known}
    if wanted := {person(name) for name in only}:
        same = {
            key: names
            for key, names in same.items()
            if key in wanted or wanted & {person(student_id(name)) for name in names}
        }
    with apart.pool(jobs) as start:
        looked = {
            key: [
                (name, start(look, str(submitted), name, lesson))
                for name in names
                if _is_there(submitted / name, lesson)
            ]
            for key, names in same.items()
        }
        found = {key: [f for f in map(_looked, looks) if f] for key, looks in looked.items()}
    everyone = [_one(submitted, folders, ids.get(key)) for key, folders in found.items() if folders]
    return sorted(everyone, key=lambda one: one.student)


def _is_there(folder: Path, lesson: Lesson) -> bool:
    """Whether there is anything to look at."""
    return folder.is_symlink() or os.path.lexists(folder / lesson.id)


def _looked(started: tuple[str, Future]) -> _Folder | None:
    name, future = started
    try:
        found = future.result()
    except (apart.Ended, apart.Failed) as why:
        found = asdict(_Folder(name=name, why_not=f"it cannot be read ({why})"))
    return _Folder(**found) if found else None


def person(name: str) -> str:
    """What two spellings of the same student's folder have in common; capitals and ß tell people apart."""
    return " ".join(unicodedata.normalize("NFC", name).split())


def login(name: str) -> str:
    """A student as an LMS knows them, which may spell a login in capitals; only to look up who is found by no other."""
    return person(name).lower()


def student_id(name: str) -> str:
    """A folder's name as the gradebook keeps it: composed letters, no space at the ends, what is unprintable as %XX.

    Two people never have one id: a % that could be read so is written as %25.
    """
    name = " ".join(unicodedata.normalize("NFC", name).split())
    name = re.sub(r"%(?=[0-9A-Fa-f]{2})", "%25", name)
    return "".join(c if c.isprintable() else quote(os.fsencode(c)) for c in name) or "%20"


def _one(submitted: Path, folders: list[_Folder], known: str | None) -> Submitted:
    """The folder that counts: one that can be read before one that cannot, then the newest, then the plainest name."""
    best = max(folders, key=lambda f: (f.chosen is not None, f.timestamp or "", f.changed, -len(f.name)))
    notes = list(best.notes)
    if len(folders) > 1:
        others = ", ".join(repr(f.name) for f in folders if f is not best)
        notes.insert(0, f"handed in twice: graded {best.name!r}, not {others}")
    plainest = min((f.name for f in folders), key=lambda name: (len(student_id(name)), name))
    return Submitted(
        student=known or student_id(plainest),
        path=None if best.chosen is None else submitted / best.name / best.chosen,
        size=best.size,
        sha256=best.sha256,
        why_not=best.why_not and summary.one_line(best.why_not)[:_LONGEST],
        timestamp=best.timestamp,
        notes=tuple(summary.one_line(note)[:_LONGEST] for note in notes),
    )


def look(submitted: str, name: str, lesson: Lesson) -> dict | None:
    """What a student's folder holds for the lesson, a `_Folder` as a dict; None when it holds nothing for it."""
    if name.startswith(".") or name == "__MACOSX":
        return None
    found = _Folder(name=name)
    path = Path(submitted, name)
    place = path / lesson.id
    if path.is_symlink() or place.is_symlink():
        found.why_not = "the folder is a symbolic link, which is not followed"
        return asdict(found)
    if not place.is_dir():
        return None
    try:
        _choose(found, place, lesson)
    except OSError as error:
        found.why_not = f"the folder cannot be read ({error.strerror})"
    except Exception as error:  # one folder never stops the class
        found.chosen, found.why_not = None, _unforeseen("the folder", error)
    return asdict(found)


def _unforeseen(what: str, error: Exception) -> str:
    says = submissions.clean_text(" ".join(str(error).split()))[:200]
    return f"{what} cannot be read ({type(error).__name__}: {says})"


def _choose(found: _Folder, place: Path, lesson: Lesson) -> None:
    notebooks, others, links = _files(place)
    found.timestamp = _timestamp(place, found.notes)
    if links:
        found.notes.append(f"symbolic links are not followed: {_some(links)}")
    if others:
        found.notes.append(f"other files were ignored: {_some(others)}")
    tried = [_try(path, lesson) for path in notebooks]
    good = [(path, count) for path, count, why in tried if why is None]
    if not good:
        found.why_not = tried[0][2] if len(tried) == 1 else _no_notebook(tried, links)
        return
    own = f"{lesson.name}.ipynb"
    best = max(good, key=lambda g: (g[1], g[0].name == own, g[0].stat().st_mtime, str(g[0])))
    body = read_file(best[0])
    found.size, found.sha256 = len(body), hashlib.sha256(body).hexdigest()
    found.chosen = str(best[0].relative_to(place.parent))
    found.changed = best[0].stat().st_mtime
    if best[0].name != own or len(good) > 1:
        found.notes.append(f"graded {str(best[0].relative_to(place))!r}")
    for path, _, why in tried:
        if path != best[0]:
            found.notes.append(f"not graded: {path.name!r} ({why or 'another copy'})")


def _no_notebook(tried: list, links: list[str]) -> str:
    if tried:
        return "; ".join(f"{path.name}: {why}" for path, _, why in tried[:3])
    return "the notebook is a symbolic link, which is not followed" if links else "no notebook in the folder"


def _files(place: Path) -> tuple[list[Path], list[str], list[str]]:
    """Notebooks, other files and links below a folder, neither too deep nor too many."""
    notebooks, others, links = [], [], []
    seen = 0
    for folder, inside, names in os.walk(place, followlinks=False):
        depth = len(Path(folder).relative_to(place).parts)
        for name in [name for name in inside if Path(folder, name).is_symlink()]:
            links.append(name)
        inside[:] = sorted(
            n for n in inside if not _JUNK.search(n) and depth < _DEPTH and not Path(folder, n).is_symlink()
        )
        for name in sorted(names):
            seen += 1
            path = Path(folder, name)
            if path.is_symlink():
                links.append(name)
            elif _JUNK.search(name) or seen > _MOST_FILES:
                continue
            else:
                (notebooks if _NOTEBOOK.search(name) else others).append(path)
    return notebooks, [path.name for path in others], links


def _try(path: Path, lesson: Lesson) -> tuple[Path, int, str | None]:
    """A file and how much of it is answered, or why it cannot be graded."""
    try:
        read = submissions.read(read_file(path))
        if submissions.belongs(read, lesson):
            return path, submissions.answered_count(read, lesson), None
    except Unreadable as reason:
        return path, 0, str(reason)
    except OSError as error:
        return path, 0, f"the file cannot be read ({error.strerror})"
    except Exception as error:  # one file never stops the class
        return path, 0, _unforeseen("the file", error)
    says = (
        f"this is the notebook of {' '.join(read.lesson.split())[:60]}"
        if read.lesson
        else f"it is not the notebook of {lesson.id}"
    )
    return path, 0, submissions.clean_text(says)


def read_file(path: Path) -> bytes:
    """The bytes of a regular file that is not too large; nothing else is opened."""
    flags = (
        os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    number = os.open(path, flags)
    with os.fdopen(number, "rb") as opened:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            raise Unreadable("it is not a regular file")
        if about.st_size > submissions.MAX_BYTES:
            raise Unreadable(
                f"the file is larger than {submissions.MAX_BYTES // 10**6} MB ({about.st_size / 1e6:.0f} MB); "
                "clear its outputs"
            )
        return opened.read(submissions.MAX_BYTES + 1)


def _timestamp(place: Path, notes: list[str]) -> str | None:
    """The text of timestamp.txt when nbgrader can read it as a date."""
    from nbgrader.utils import parse_utc

    path = place / "timestamp.txt"
    if path.is_symlink() or not path.is_file():
        return None
    try:
        text = read_file(path)[:200].decode("utf-8").strip()
        return str(parse_utc(text)) if text else None
    except Exception:
        notes.append("timestamp.txt is not a date and was ignored")
        return None


def _some(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
