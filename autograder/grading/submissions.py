"""What was handed in: reading a notebook that anyone may have written, and finding each question's answer in it.

A raw file is read with limits and never run or rewritten. `read` turns bytes into cells or says in one line why it
cannot; `arrange` lays a learner's cells over the lesson's, so that a duplicated, deleted, moved, edited or renamed cell
is still graded by its question's name.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

MAX_BYTES = 60 * 10**6
MAX_CELLS = 2_000
MAX_SOURCE = 1_000_000
MAX_CELL_CODE = 200_000
MAX_CODE = 2_000_000
_LONGEST_CHECK = 300
_CHECK = re.compile(r"""check\([^\S\n]*(['"])(?P<name>\w+)\1[^\S\n]*\)[^\S\n]*;?""")
_BINDS = re.compile(r"(?:(?:async[ \t]+)?def[ \t]+|class[ \t]+)?(\w+)[ \t]*[(:=]")


class Unreadable(Exception):
    """A file that cannot be graded; the message is one line that says why."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell, whoever wrote it. `marks` is nbgrader's metadata, empty when it has none."""

    kind: str
    source: str
    id: str = ""
    marks: dict = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A released lesson: its id, the name of its notebook (without .ipynb), its cells, and its own metadata."""

    id: str
    name: str
    cells: tuple[Cell, ...]
    metadata: dict

    @property
    def questions(self) -> tuple[str, ...]:
        """Names of the questions, in order."""
        return tuple(question_of(cell) for cell in self.cells if cell.marks.get("grade"))


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A cell of the notebook that is graded: what it is there for, and whether it is to be run.

    `role` is "answer", "check", "given" (the lesson's own, unchanged) or "own" (the learner's, or a given cell that was
    changed); `index` is the lesson's cell it stands for, None for a learner's own.
    """

    cell: Cell
    role: str
    question: str | None = None
    index: int | None = None
    runs: bool = False

    @property
    def untouched(self) -> bool:
        """Whether this is the lesson's own text."""
        return self.role == "given"


@dataclass(frozen=True, kw_only=True)
class Arranged:
    """The notebook to grade, in the learner's order, and one line for each thing that was put right."""

    cells: tuple[Placed, ...]
    notes: tuple[str, ...]


# ---------------------------------------------------------------- reading


def read_lesson(text: str, lesson: str, name: str) -> Lesson:
    """A released lesson from its notebook's JSON."""
    made = json.loads(text)
    cells = tuple(_cell(raw) for raw in made["cells"])
    return Lesson(id=lesson, name=name, cells=cells, metadata=made.get("metadata", {}))


@dataclass(frozen=True, kw_only=True)
class Read:
    """A learner's notebook as it was read: its cells, the lesson it says it is, notes."""

    cells: tuple[Cell, ...]
    lesson: str | None
    notes: tuple[str, ...] = ()


def read(body: bytes) -> Read:
    """The cells of a notebook file; Unreadable with the reason when it is none."""
    if len(body) > MAX_BYTES:
        raise Unreadable(
            f"the file is larger than {MAX_BYTES // 10**6} MB ({len(body) / 1e6:.0f} MB); clear its outputs"
        )
    text, notes = _decoded(body)
    made = _parsed(text)
    if type(made) is not dict:
        raise Unreadable("the file is no notebook (its JSON is not an object)")
    raw_cells = made.get("cells")
    if raw_cells is None and type(made.get("worksheets")) is list:
        sheets = [sheet.get("cells") for sheet in made["worksheets"] if type(sheet) is dict]
        raw_cells = [cell for cells in sheets if type(cells) is list for cell in cells]
    if type(raw_cells) is not list:
        raise Unreadable("the file is no notebook (it has no cells)")
    if len(raw_cells) > MAX_CELLS:
        raise Unreadable(f"the notebook has {len(raw_cells):,} cells; at most {MAX_CELLS:,} are read")
    cells = tuple(_cell(raw) for raw in raw_cells)
    written = sum(len(cell.source) for cell in cells if cell.kind == "code")
    if written > MAX_CODE:
        raise Unreadable(f"its code cells hold {written:,} characters; at most {MAX_CODE:,} are read")
    if not any(cell.source.strip() for cell in cells):
        raise Unreadable("the notebook is empty")
    return Read(cells=cells, lesson=_says_lesson(made), notes=tuple(notes))


def _decoded(body: bytes) -> tuple[str, list[str]]:
    if not body.strip(b" \t\r\n\x00"):
        raise Unreadable("the file is empty")
    for start, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig")):
        if body.startswith(start):
            try:
                return body.decode(encoding), [] if encoding == "utf-8-sig" else [f"read as {encoding}"]
            except UnicodeDecodeError:
                break
    try:
        return body.decode("utf-8"), []
    except UnicodeDecodeError:
        if b"\x00" in body[:1000]:
            raise Unreadable("the file is no notebook (it is not text)") from None
        return body.decode("cp1252", "replace"), ["not UTF-8: read as Windows-1252, letters may differ"]


def _parsed(text: str) -> Any:
    start = text.lstrip()[:400].lower()
    if start.startswith("<") and not start.startswith("<<<<<<<"):
        raise Unreadable("the file is a web page, not a notebook")
    if re.search(r"^(<<<<<<<|>>>>>>>) ", text, re.M) and re.search(r"^=======\s*$", text, re.M):
        raise Unreadable("the file holds an unfinished git merge (<<<<<<<); save it again from JupyterLab")
    try:
        return json.loads(text)
    except RecursionError:
        raise Unreadable("the file is no notebook (nested too deeply)") from None
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated")
        what = "it ends in the middle" if cut else f"line {error.lineno}: {error.msg}"
        raise Unreadable(f"the file is damaged ({what})") from None
    except ValueError:
        raise Unreadable("the file is damaged (a number too long to be one)") from None


def _cell(raw: Any) -> Cell:
    """A cell from whatever stands in its place; what cannot be read is left out."""
    raw = raw if type(raw) is dict else {}
    kind = raw.get("cell_type")
    kind = kind if kind in ("code", "markdown", "raw") else "markdown"
    source = raw.get("source", raw.get("input", ""))
    if type(source) is list:
        source = "".join(part for part in source if type(part) is str)
    source = source if type(source) is str else ""
    most = MAX_CELL_CODE if kind == "code" else MAX_SOURCE
    if len(source) > most:
        raise Unreadable(f"a {kind} cell is longer than {most:,} characters")
    metadata = raw.get("metadata")
    marks = metadata.get("nbgrader") if type(metadata) is dict else None
    name = raw.get("id")
    return Cell(
        kind=kind,
        source=clean_text(source),
        id=name if type(name) is str else "",
        marks=dict(marks) if type(marks) is dict else {},
    )


def clean_text(text: str) -> str:
    """Text that every tool down the line can store: one kind of line end, no lone surrogates, no NUL."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    return text.encode("utf-8", "replace").decode("utf-8")


def _says_lesson(made: dict) -> str | None:
    metadata = made.get("metadata")
    about = metadata.get("memory_budget") if type(metadata) is dict else None
    lesson = about.get("lesson") if type(about) is dict else None
    return lesson if type(lesson) is str else None


def belongs(read_: Read, lesson: Lesson) -> bool:
    """Whether a notebook is this lesson: it says so, or, saying nothing, it holds the lesson's questions."""
    if read_.lesson is not None:
        return read_.lesson == lesson.id
    return bool(_questions_in(read_.cells, lesson))


def _questions_in(cells: tuple[Cell, ...], lesson: Lesson) -> set[str]:
    """Questions of the lesson that these cells mark, check or answer."""
    known = set(lesson.questions)
    found = {question_of(cell) for cell in cells}
    found |= {checked(cell) for cell in cells}
    for cell in cells:
        found |= bound_names(cell.source) if cell.kind == "code" else frozenset()
    return found & known


def answered_count(read_: Read, lesson: Lesson) -> int:
    """How many answer cells differ from the lesson's own, to tell which of several copies to grade."""
    given = {cell.source.strip() for cell in lesson.cells}
    known = set(lesson.questions)
    written = [cell for cell in read_.cells if cell.kind == "code" and cell.source.strip() not in given]
    return len({name for cell in written for name in bound_names(cell.source) & known})


# ---------------------------------------------------------------- which cell is which


def question_of(cell: Cell) -> str | None:
    """The question a marked cell belongs to, None for an unmarked one."""
    name = cell.marks.get("grade_id")
    return re.sub(r"-(answer|check)$", "", name) if type(name) is str else None


def checked(cell: Cell) -> str | None:
    """The question that a cell checks, if checking is all it does."""
    source = cell.source.strip()
    found = _CHECK.fullmatch(source) if len(source) <= _LONGEST_CHECK else None
    return found["name"] if found else None


@lru_cache(maxsize=2048)
def bound_names(source: str) -> frozenset[str]:
    """Names that a cell's source binds at its top level; by pattern where it is no valid Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        found_ = (_BINDS.match(line.strip()) for line in source.splitlines())
        return frozenset(match[1] for match in found_ if match)
    found: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(statement.name)
        else:
            found |= {
                n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
    return frozenset(found)


def role_of(cell: Cell) -> str:
    """What a lesson's own cell is there for: "answer", "check" or "given"."""
    if cell.marks.get("solution"):
        return "answer"
    return "check" if checked(cell) else "given"


# ---------------------------------------------------------------- arranging


def arrange(read_: Read, lesson: Lesson) -> Arranged:
    """The learner's cells laid over the lesson's, each of the lesson's graded cells there exactly once."""
    notes = list(read_.notes)
    matched = _match(read_.cells, lesson)
    primary = _primary(read_.cells, matched, lesson, notes)
    placed: list[Placed] = []
    for position, cell in enumerate(read_.cells):
        placed += _place(
            cell, matched[position], primary.get(matched[position]) == position, lesson, primary, read_
        )
    _add_missing(placed, lesson, notes)
    return Arranged(cells=tuple(placed), notes=tuple(notes))


def _match(cells: tuple[Cell, ...], lesson: Lesson) -> list[int | None]:
    """For each of the learner's cells the lesson's cell it stands for."""
    by_mark = {c.marks["grade_id"]: i for i, c in enumerate(lesson.cells) if "grade_id" in c.marks}
    by_id = {c.id: i for i, c in enumerate(lesson.cells) if c.id}
    by_text: dict[tuple[str, str], int] = {}
    for i, c in enumerate(lesson.cells):
        by_text.setdefault((c.kind, c.source.strip()), i)
    checks = {checked(c): i for i, c in enumerate(lesson.cells) if role_of(c) == "check"}
    answers = {question_of(c): i for i, c in enumerate(lesson.cells) if role_of(c) == "answer"}
    found: list[int | None] = []
    for cell in cells:
        mark = cell.marks.get("grade_id")
        match = by_mark.get(mark) if type(mark) is str else None
        if (name := checked(cell)) in checks:
            match = checks[name]
        if match is None:
            match = by_id.get(cell.id)
        if match is None:
            match = by_text.get((cell.kind, cell.source.strip()))
        found.append(match)
    for name, index in answers.items():
        _match_by_name(name, index, cells, found, lesson)
    return found


def _match_by_name(
    name: str, index: int, cells: tuple[Cell, ...], found: list[int | None], lesson: Lesson
) -> None:
    """An answer whose marks were lost, or that was written into a new cell, is known by the name it binds."""
    stub = lesson.cells[index].source.strip()
    if any(match == index and cells[i].source.strip() != stub for i, match in enumerate(found)):
        return
    for i, cell in enumerate(cells):
        if found[i] is None and cell.kind == "code" and name in bound_names(cell.source):
            found[i] = index


def _primary(
    cells: tuple[Cell, ...], matched: list[int | None], lesson: Lesson, notes: list[str]
) -> dict[int, int]:
    """For each of the lesson's cells the one of its copies that keeps the lesson's marks."""
    copies: dict[int, list[int]] = {}
    for position, index in enumerate(matched):
        if index is not None:
            copies.setdefault(index, []).append(position)
    chosen = {}
    for index, positions in copies.items():
        own = lesson.cells[index]
        written = [p for p in positions if cells[p].source.strip() not in ("", own.source.strip())]
        name = question_of(own)
        binding = [p for p in written if name and name in bound_names(cells[p].source)]
        chosen[index] = (binding or written or positions)[-1] if role_of(own) == "answer" else positions[0]
        if len(positions) > 1 and own.marks:
            which = "the last one that was answered counts" if role_of(own) == "answer" else "one was kept"
            notes.append(f"{own.marks.get('grade_id')}: {len(positions)} copies of this cell, {which}")
    return chosen


def _place(
    cell: Cell, index: int | None, is_primary: bool, lesson: Lesson, primary: dict[int, int], read_: Read
) -> list[Placed]:
    """What one of the learner's cells becomes: usually one cell, none for a spare check."""
    plain = replace(cell, marks={}, id="")
    runs = cell.kind == "code" and bool(cell.source.strip()) and checked(cell) is None
    if index is None:
        return [Placed(cell=plain, role="own", runs=runs)]
    own = lesson.cells[index]
    role, name = role_of(own), question_of(own)
    same = cell.source.strip() == own.source.strip()
    if role == "check":
        kept = [] if same or checked(cell) else [Placed(cell=plain, role="own", runs=runs)]
        return kept + ([Placed(cell=own, role="check", question=name, index=index)] if is_primary else [])
    if role == "answer":
        if is_primary:
            written = replace(own, source=cell.source)
            return [
                Placed(
                    cell=written, role="answer", question=name, index=index, runs=bool(cell.source.strip())
                )
            ]
        spare = same and read_.cells[primary[index]].source.strip() != own.source.strip()
        return [] if spare else [Placed(cell=plain, role="own", question=name, runs=runs)]
    if same and cell.kind == own.kind:
        return [Placed(cell=own if is_primary else plain, role="given", index=index, runs=own.kind == "code")]
    marks = own.marks if is_primary else {}
    if marks.get("locked"):
        return [Placed(cell=own, role="given", index=index, runs=own.kind == "code")]
    edited = replace(cell, marks=marks, id=own.id if is_primary else "")
    return [Placed(cell=edited, role="own", index=index if is_primary else None, runs=runs)]


def _add_missing(placed: list[Placed], lesson: Lesson, notes: list[str]) -> None:
    """Put the lesson's graded cells that are gone back behind the cell they followed, and lost import cells too."""
    there = {p.index for p in placed if p.index is not None}
    lost = []
    for index, own in enumerate(lesson.cells):
        role = role_of(own)
        imports = role == "given" and own.kind == "code" and only_imports(own.source)
        if index in there or not (own.marks or role != "given" or imports):
            continue
        before = [i for i, p in enumerate(placed) if p.index is not None and p.index < index]
        at = max(before, key=lambda i: placed[i].index) + 1 if before else 0
        placed.insert(at, Placed(cell=own, role=role, question=question_of(own), index=index, runs=imports))
        if own.marks:
            lost.append(own.marks["grade_id"])
    if lost:
        notes.append(f"cells put back that were missing: {', '.join(lost)}")


def only_imports(source: str) -> bool:
    """Whether a cell does nothing but import."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return bool(body) and all(isinstance(step, ast.Import | ast.ImportFrom) for step in body)


def stub_raises(source: str) -> str | None:
    """One line when a `raise` still stands above the answer, so that nothing below it runs; else None."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    bodies = [tree.body] + [
        n.body for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for body in bodies:
        for step in body[:-1]:
            if isinstance(step, ast.Raise):
                return (
                    f"a `raise` in line {step.lineno} stands above the answer, so that nothing below it runs"
                )
    return None
