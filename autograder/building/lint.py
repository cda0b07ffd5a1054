"""What is wrong with a source lesson before it is run: markers, cells, questions, files, style."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from nbformat.notebooknode import NotebookNode

from autograder import cells as made
from autograder.building import markers
from autograder.building.fault import Fault
from autograder.building.stamps import files
from autograder.course import IGNORED, Course

LESSON_FILES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".csv", ".json", ".txt")
ABOUT_KEYS = {"lesson": str, "title": str, "minutes": int, "after": list, "gpu": str}
NOTEBOOK_KEYS = {"kernelspec", "language_info", "memory_budget"}
KNOWN_KEYS = {
    "kernelspec": {"display_name", "language", "name"},
    "language_info": {
        *("name", "version", "mimetype", "file_extension"),
        *("pygments_lexer", "nbconvert_exporter", "codemirror_mode"),
    },
}
CODE_LINES = 8
PROSE_WORDS = 90


def lint(notebook: NotebookNode, where: str, lesson: str, bank: dict) -> list[Fault]:
    """Every fault of a source notebook; `bank` maps the lesson's question names to questions."""
    checks = (
        _about(notebook, lesson),
        _metadata(notebook),
        _markers(notebook),
        _hidden_text(notebook),
        _cell_kinds(notebook, bank),
        _questions(notebook, bank),
        _headings(notebook),
        _style(notebook),
    )
    return [
        Fault(where=where, cell=cell, says=says, stops=stops)
        for found in checks
        for cell, says, stops in found
    ]


def lint_files(course: Course, lesson: str) -> list[Fault]:
    """Every file in a lesson's source folder that must not be handed out, or that no cell names."""
    folder = course.source / lesson
    try:
        notebook = course.source_notebook(lesson)
    except ValueError as error:
        return [Fault(where=f"source/{lesson}", says=str(error))]
    text = "\n".join(cell.source for cell in made.read(notebook).cells)
    found = [_file_fault(path, folder, text) for path in files(folder) if path != notebook]
    return [Fault(where=f"source/{lesson}/{path}", says=says) for path, says in filter(None, found)]


def lint_source_root(course: Course) -> list[Fault]:
    """Files that lie in source/ itself: only the glossary belongs there."""
    loose = [p.name for p in sorted(course.source.iterdir()) if p.is_file() and p.name not in IGNORED]
    return [
        Fault(where=f"source/{name}", says="is neither the glossary nor in a lesson's folder")
        for name in loose
        if name != "glossary.md"
    ]


def _file_fault(path: Path, folder: Path, text: str) -> tuple[str, str] | None:
    name = path.relative_to(folder).as_posix()
    if path.is_symlink():
        return name, "is a link; put the file itself here"
    if path.suffix.lower() not in LESSON_FILES:
        return (
            name,
            f"would be handed out to learners; only {' '.join(LESSON_FILES)} may lie beside a notebook",
        )
    if name not in text:
        return name, "would be handed out, but no cell of the notebook names it"
    return None


Found = Iterator[tuple[str, str, bool]]


def _about(notebook: NotebookNode, lesson: str) -> Found:
    about = made.lesson_about(notebook)
    for key, kind in ABOUT_KEYS.items():
        if key not in about:
            yield "", f'the notebook\'s metadata lacks memory_budget "{key}"', True
        elif not isinstance(about[key], kind) or isinstance(about[key], bool):
            yield "", f'memory_budget "{key}" must be a {kind.__name__}, not {about[key]!r}', True
    for key in sorted(set(about) - set(ABOUT_KEYS)):
        yield "", f'memory_budget "{key}" is not a key we know ({", ".join(ABOUT_KEYS)})', True
    strange = [before for before in about.get("after", []) if not re.fullmatch(r"lesson-\d\d", str(before))]
    if strange:
        yield "", f'memory_budget "after" holds names such as lesson-04, not {strange[0]!r}', True
    if about.get("lesson", lesson) != lesson:
        yield "", f"says it is {about['lesson']!r} but lies in source/{lesson}", True


def _metadata(notebook: NotebookNode) -> Found:
    for key in sorted(set(notebook.metadata) - NOTEBOOK_KEYS):
        yield (
            "",
            f"metadata {key!r} would be handed out; remove it (python -m autograder.building.lint --tidy)",
            True,
        )
    for key, known in KNOWN_KEYS.items():
        for other in sorted(set(notebook.metadata.get(key, {})) - known):
            yield "", f"{key} holds {other!r}, which would be handed out; remove it", True
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "", 'the kernel must be "python3"', True
    for cell_id, count in Counter(cell.get("id") for cell in notebook.cells).items():
        if count > 1:
            yield str(cell_id), f"{count} cells have this id", True
    for cell in notebook.cells:
        for says in _cell_metadata(cell):
            yield cell.id, says, True


def _cell_metadata(cell: NotebookNode) -> Iterator[str]:
    tidy = "(python -m autograder.building.lint --tidy)"
    if cell.get("outputs") or cell.get("execution_count"):
        yield f"keeps outputs; clear them {tidy}"
    if cell.get("attachments"):
        yield "has an attachment; put the picture in a file beside the notebook"
    for key in sorted(cell.metadata):
        if not _harmless(key, cell.metadata[key]):
            yield f"has metadata {key!r} that would be handed out; remove it {tidy}"


def _harmless(key: str, value: object) -> bool:
    if key == "nbgrader":
        return True
    if key == "tags":
        return all(re.fullmatch(r"nbval-[a-z-]+|hide-input", str(tag)) for tag in value)
    if key in ("editable", "deletable", "jp-MarkdownHeadingCollapsed", "collapsed"):
        return isinstance(value, bool)
    return False


def _markers(notebook: NotebookNode) -> Found:
    for cell in notebook.cells:
        answer = made.is_answer(cell) and cell.cell_type == "code"
        for line in cell.source.split("\n"):
            exact = markers.marker(line)
            if exact and not answer:
                yield (
                    cell.id,
                    f"has {line.strip()!r} but is not an answer cell (its nbgrader metadata is lost?)",
                    True,
                )
            elif not exact and markers.resembles_marker(line):
                yield (
                    cell.id,
                    f"{line.strip()!r} resembles a marker; the two markers are {made.BEGIN!r}, {made.END!r}",
                    True,
                )
        if answer:
            try:
                _, inside, _ = markers.split_region(cell.source)
            except ValueError as error:
                yield cell.id, str(error), True
            else:
                if not inside.strip():
                    yield cell.id, "has no solution between its markers", True


def _hidden_text(notebook: NotebookNode) -> Found:
    hidden = {
        r"<!--": "an HTML comment",
        r"^\s*\[[^\]]*\]:\s*#?\s*\(|^\s*\[//\]:": "a link that is a comment",
        r"<(script|style|template|noscript)\b": "an HTML element that is not shown",
        r"display\s*:\s*none|visibility\s*:\s*hidden|\shidden(\s|=|>)": "text that is not shown",
        r"data:[a-z]+/": "a file written into the text",
    }
    for cell in notebook.cells:
        if cell.cell_type == "raw":
            yield cell.id, "is a raw cell, which JupyterLab does not show as prose", True
        if cell.cell_type != "markdown":
            continue
        prose = re.sub(r"```.*?```", "", cell.source, flags=re.S)
        for pattern, what in hidden.items():
            if re.search(pattern, prose, re.I | re.M):
                yield cell.id, f"has {what}, which a learner can read in the file", True


def _cell_kinds(notebook: NotebookNode, bank: dict) -> Found:
    for cell in notebook.cells:
        if "nbgrader" in cell.metadata:
            yield from ((cell.id, says, True) for says in _nbgrader(cell, bank))
        elif cell.cell_type == "code":
            yield from ((cell.id, says, True) for says in _plain(cell, bank))


def _nbgrader(cell: NotebookNode, bank: dict) -> Iterator[str]:
    """Whether a cell with nbgrader metadata is one of the four kinds of the course, to the letter."""
    about, name = made.about(cell), made.question_name(cell)
    if name not in bank:
        yield f"grade_id {about.get('grade_id')!r} belongs to no question of the bank"
        return
    wanted = _wanted(about["grade_id"], name, bank[name])
    if wanted is None:
        yield f"grade_id {about['grade_id']!r} is not one that question {name} has"
        return
    if cell.cell_type != "code":
        yield f"question {name} is answered in code, this is a {cell.cell_type} cell"
    for key, value in wanted.items():
        if about.get(key) != value:
            yield f"nbgrader {key!r} is {about.get(key)!r}, for question {name} it must be {value!r}"
    for key in sorted(set(about) - set(wanted) - {"cell_type", "checksum"}):
        yield f"nbgrader {key!r} is not a key we know"
    if not about.get("solution") and cell.source.strip() != f'check("{name}")':
        yield f'must be exactly check("{name}")'


def _wanted(grade_id: str, name: str, question) -> dict | None:
    kinds = {
        (f"{name}-answer", False): {"solution": True, "grade": False, "locked": False},
        (name, False): {"solution": False, "grade": True, "locked": True, "points": question.points},
        (name, True): {"solution": True, "grade": True, "locked": False, "points": question.points},
        (f"{name}-check", True): {"solution": False, "grade": False, "locked": True},
    }
    kind = kinds.get((grade_id, by_hand(question)))
    return kind and {"schema_version": 3, "task": False, "grade_id": grade_id} | kind


def by_hand(question) -> bool:
    """Whether a human gives the points of this question."""
    return bool(getattr(question, "manual", False))


def _plain(cell: NotebookNode, bank: dict) -> Iterator[str]:
    """Code that nobody marks must not answer a question, nor check one."""
    for name in sorted(assigned_names(cell.source) & set(bank)):
        yield f"answers question {name} but is not its answer cell (its nbgrader metadata is lost?)"
    if re.search(r"\bcheck\(", cell.source):
        yield "calls check(...) outside a check cell"


def assigned_names(source: str) -> set[str]:
    """The names that a cell's code gives a value to, at any depth; none when it is not Python."""
    try:
        tree = ast.parse(_without_magics(source))
    except SyntaxError:
        return set(re.findall(r"^\s*(\w+)\s*=(?!=)", source, re.M))
    names = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return names | {node.name for node in ast.walk(tree) if isinstance(node, defined)}


def _without_magics(source: str) -> str:
    return "\n".join("pass" if re.match(r"[%!]", line) else line for line in source.split("\n"))


def _questions(notebook: NotebookNode, bank: dict) -> Found:
    ids = [made.about(cell).get("grade_id") for cell in notebook.cells if "nbgrader" in cell.metadata]
    for grade_id, count in Counter(ids).items():
        if count > 1:
            yield "", f"grade_id {grade_id!r} is used by {count} cells", True
    for name, question in bank.items():
        pair = (name, f"{name}-check") if by_hand(question) else (f"{name}-answer", name)
        missing = [grade_id for grade_id in pair if grade_id not in ids]
        if missing:
            yield "", f"question {name} of the bank has no cell with grade_id {' or '.join(missing)}", True
        elif ids.index(pair[0]) > ids.index(pair[1]):
            yield pair[1], f"the check of {name} stands above its answer", True


def _headings(notebook: NotebookNode) -> Found:
    levels = [(cell.id, len(mark)) for cell in notebook.cells for mark in _heading_marks(cell)]
    first = notebook.cells[0] if notebook.cells else None
    if first is None or list(_heading_marks(first))[:1] != ["#"]:
        yield "", "must begin with its title, a cell with one # heading", True
    for cell_id, level in [pair for pair in levels if pair[1] == 1][1:]:
        yield cell_id, f"has a second # heading (level {level}); one title a lesson", True
    for (_, before), (cell_id, level) in pairwise(levels):
        if level > before + 1:
            yield cell_id, f"heading jumps from level {before} to {level}", False


def _heading_marks(cell: NotebookNode) -> Iterator[str]:
    if cell.cell_type == "markdown":
        prose = re.sub(r"```.*?```", "", cell.source, flags=re.S)
        yield from re.findall(r"^(#{1,6})\s", prose, re.M)


def _style(notebook: NotebookNode) -> Found:
    before = None
    for cell in notebook.cells:
        if cell.cell_type == "code" and not made.is_answer(cell):
            lines = [line for line in cell.source.split("\n") if line.strip()]
            if len(lines) > CODE_LINES:
                yield cell.id, f"has {len(lines)} lines of code, aim at {CODE_LINES} or fewer", False
            if (
                before is not None
                and before.cell_type == "code"
                and "nbgrader" not in cell.metadata | before.metadata
            ):
                yield cell.id, "follows another code cell without a word between", False
        elif cell.cell_type == "markdown":
            words = len(re.sub(r"<details>.*?</details>", "", cell.source, flags=re.S).split())
            if words > PROSE_WORDS and "|--" not in cell.source.replace(" ", ""):
                yield cell.id, f"has {words} words, aim at {PROSE_WORDS} or fewer", False
            if re.search(r"!\[\s*\]\(|<img(?![^>]*alt=.\w)", cell.source):
                yield cell.id, "has a picture without alt text", True
        before = cell


def tidy(notebook: NotebookNode) -> NotebookNode:
    """Clear, in place, the outputs and metadata that JupyterLab leaves in a source notebook."""
    for key in set(notebook.metadata) - NOTEBOOK_KEYS:
        del notebook.metadata[key]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        for key in [key for key in cell.metadata if not _harmless(key, cell.metadata[key])]:
            del cell.metadata[key]
    return notebook


def main(arguments: list[str] | None = None) -> int:
    """Say what is wrong with the source lessons, or (--tidy) clear what JupyterLab left in them."""
    import argparse

    from autograder.building import making
    from autograder.course import course

    parser = argparse.ArgumentParser(prog="python -m autograder.building.lint", description=__doc__)
    parser.add_argument("lessons", nargs="*", help="all by default")
    parser.add_argument(
        "--tidy", action="store_true", help="clear outputs and stray metadata in source/ first"
    )
    chosen = parser.parse_args(arguments)
    here = course()
    faults = []
    for lesson in chosen.lessons or here.lesson_ids():
        if chosen.tidy:
            path = here.source_notebook(lesson)
            made.save(tidy(made.read(path)), path)
        faults += making.source_faults(here, lesson)
    print("\n".join(str(fault) for fault in faults) or "Nothing to mend.")
    return int(any(fault.stops for fault in faults))


if __name__ == "__main__":
    raise SystemExit(main())
