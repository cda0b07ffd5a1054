"""Which cells a source notebook is made of, how each is marked, and how to tell them apart.

An author's script may use these to write a notebook; the build and the lint use the same names to read one.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import nbformat
from nbformat.notebooknode import NotebookNode

BEGIN = "### BEGIN SOLUTION"
END = "### END SOLUTION"
STUB = "# your answer here"
TEXT_STUB = "*Your answer here.*"


def cell_id(text: str) -> str:
    """A readable cell id: the first words of `text`, as nbformat allows them (letters, digits, hyphens)."""
    words = re.sub(r"[^a-z0-9]+", "-", text.strip().lower()).strip("-")
    return words[:48].strip("-") or "cell"


def markdown(source: str, id: str | None = None) -> NotebookNode:
    """A cell of prose; its id is taken from its first words unless given."""
    source = source.strip("\n")
    return nbformat.v4.new_markdown_cell(source, id=cell_id(id or source.split("\n")[0]))


def code(source: str, id: str | None = None) -> NotebookNode:
    """A cell of code that no learner has to change."""
    source = source.strip("\n")
    return nbformat.v4.new_code_cell(source, id=cell_id(id or source.split("\n")[0]))


def answer(name: str, solution: str, stub: str | None = None, comment: str = "") -> NotebookNode:
    """The cell in which a learner answers the autograded question `name`.

    `stub` is what stays above the solution in the released lesson: by default `NAME = None  # comment`;
    for a function its signature and docstring (the solution is then indented under it); for an order the
    scrambled list.
    """
    stub = (_none(name, comment) if stub is None else stub).strip("\n")
    is_function = re.search(r"^\s*(async\s+)?def ", stub, re.M) is not None
    cell = code(f"{stub}\n{region(solution, '    ' if is_function else '')}", f"{name}-answer")
    cell.metadata["nbgrader"] = _nbgrader(f"{name}-answer", solution=True)
    return cell


def check(name: str, points: float | None = None) -> NotebookNode:
    """The cell that marks the autograded question `name`; its points are the question bank's unless given."""
    cell = code(f'check("{name}")', name)
    cell.metadata["nbgrader"] = _nbgrader(name, grade=True, locked=True, points=_points(name, points))
    return cell


def written(name: str, solution: str, points: float | None = None) -> list[NotebookNode]:
    """The two cells of a question in words: the text, read by a human, and a check of its key ideas."""
    lines = solution.strip("\n")
    filled = f'{name} = """\n{lines}\n"""'
    text = code(f'{name} = """\n\n"""\n{region(filled)}', name)
    text.metadata["nbgrader"] = _nbgrader(name, solution=True, grade=True, points=_points(name, points))
    looked = code(f'check("{name}")', f"{name}-check")
    looked.metadata["nbgrader"] = _nbgrader(f"{name}-check", locked=True)
    return [text, looked]


def question(name: str, solution: str, stub: str | None = None, comment: str = "") -> list[NotebookNode]:
    """The answer cell and the check cell of one autograded question."""
    return [answer(name, solution, stub, comment), check(name)]


def region(solution: str, margin: str = "") -> str:
    """`solution` between the two markers, each line behind `margin`."""
    return indent(f"{BEGIN}\n{solution.strip(chr(10))}\n{END}", margin)


def notebook(
    cells: list[NotebookNode | list[NotebookNode]],
    *,
    lesson: str,
    title: str,
    minutes: int,
    after: list[str],
    gpu: str,
) -> NotebookNode:
    """A source notebook of `cells` (lists among them are laid flat); ids that repeat get a number."""
    flat = [cell for item in cells for cell in (item if isinstance(item, list) else [item])]
    _number_repeated_ids(flat)
    about = {"lesson": lesson, "title": title, "minutes": minutes, "after": list(after), "gpu": gpu}
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}, "memory_budget": about}
    made = nbformat.v4.new_notebook(cells=flat, metadata=metadata)
    made.nbformat_minor = 5
    nbformat.validate(made)
    return made


def save(made: NotebookNode, path: Path | str) -> None:
    """Write a notebook the way JupyterLab does (one space of indent, a last newline), folders made."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(made) + "\n", encoding="utf-8", newline="\n")


def read(path: Path | str) -> NotebookNode:
    """The notebook at `path`, in nbformat 4.5 or later."""
    return nbformat.read(path, as_version=4)


def about(cell: NotebookNode) -> dict:
    """nbgrader's metadata of a cell, empty when it has none."""
    return dict(cell.metadata.get("nbgrader", {}))


def is_answer(cell: NotebookNode) -> bool:
    """Whether a learner writes in this cell."""
    return bool(about(cell).get("solution"))


def is_graded(cell: NotebookNode) -> bool:
    """Whether this cell carries points."""
    return bool(about(cell).get("grade"))


def question_name(cell: NotebookNode) -> str | None:
    """The question this cell belongs to, None when it belongs to none."""
    grade_id = about(cell).get("grade_id")
    return re.sub(r"-(answer|check)$", "", grade_id) if grade_id else None


def lesson_about(made: NotebookNode) -> dict:
    """What a lesson says of itself: lesson, title, minutes, after, gpu."""
    return dict(made.metadata.get("memory_budget", {}))


def _none(name: str, comment: str) -> str:
    return f"{name} = None" + (f"  # {comment}" if comment else "")


def _points(name: str, points: float | None) -> float:
    if points is not None:
        return points
    from autograder import questions

    return questions.find(name)[1].points


def _nbgrader(grade_id: str, *, solution=False, grade=False, locked=False, points=None) -> dict:
    made = {
        "schema_version": 3,
        "solution": solution,
        "grade": grade,
        "locked": locked,
        "task": False,
        "grade_id": grade_id,
    }
    if points is not None:
        made["points"] = points
    return made


def _number_repeated_ids(cells: list[NotebookNode]) -> None:
    seen: dict[str, int] = {}
    for cell in cells:
        seen[cell.id] = seen.get(cell.id, 0) + 1
        if seen[cell.id] > 1:
            cell.id = f"{cell.id}-{seen[cell.id]}"
