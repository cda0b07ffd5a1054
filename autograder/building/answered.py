"""What a source notebook looks like when answered: no markers, no stubs, the same outputs each time."""

from __future__ import annotations

import ast
import copy
import re

from nbformat.notebooknode import NotebookNode

from autograder import cells as made
from autograder.building import markers

WIDGET = "application/vnd.jupyter.widget-view+json"
_STATIC = ("text/html", "image/svg+xml", "image/png")
# What differs from run to run without meaning anything.
_RESTLESS = (
    (re.compile(r"[^\s\"']*ipykernel_\d+[/\\]+\d+\.py"), "<cell>"),
    (re.compile(r"\bat 0x[0-9a-fA-F]{6,}"), "at 0x0"),
)


def answered(source: NotebookNode) -> NotebookNode:
    """The source with every question answered: solutions kept; markers, stubs, nbgrader metadata dropped."""
    notebook = copy.deepcopy(source)
    for cell in notebook.cells:
        if made.is_answer(cell):
            cell.source = answered_source(cell.source)
        cell.metadata.pop("nbgrader", None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def answered_source(source: str) -> str:
    """One answer cell as it reads in solutions/: the assignment that only held the place is gone."""
    before, inside, after = markers.split_region(source)
    kept, comment = _without_stub(before, inside)
    if comment and "\n" not in inside.strip() and "#" not in inside:
        inside = f"{inside.rstrip()}  {comment}"
    return "\n".join(part for part in (kept, inside, after) if part.strip())


def _without_stub(before: str, inside: str) -> tuple[str, str]:
    """`before` without its last assignments to names that `inside` assigns, and the last one's comment."""
    try:
        statements, assigned = ast.parse(before).body, _targets(ast.parse(inside).body)
    except SyntaxError:  # a function's head is no whole program: it stays
        return before, ""
    lines, comment = before.split("\n"), ""
    while statements and (names := _targets([statements[-1]])) and names <= assigned:
        last = statements.pop()
        end = lines[last.end_lineno - 1][last.end_col_offset :].strip()
        comment = comment or (end if end.startswith("#") else "")
        lines = lines[: last.lineno - 1] + lines[last.end_lineno :]
    return "\n".join(lines), comment


def _targets(statements: list[ast.stmt]) -> set[str]:
    simple = [s for s in statements if isinstance(s, ast.Assign | ast.AnnAssign)]
    targets = [t for s in simple for t in (s.targets if isinstance(s, ast.Assign) else [s.target])]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def steady(notebook: NotebookNode) -> NotebookNode:
    """Drop, in place, what a second run would show differently: widget ids, temporary paths, addresses.

    A widget that has a static form keeps that form alone, which every viewer can show without a kernel.
    """
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        for output in cell.outputs:
            _steady_output(output)
        joined = _joined_streams([output for output in cell.outputs if output.get("data", True)])
        for output in joined:
            if output.output_type == "stream":
                output.text = _as_a_terminal_shows(output.text)
        cell.outputs = [output for output in joined if output.get("text", True)]
    for key in set(notebook.metadata) - {"kernelspec", "language_info", "memory_budget"}:
        del notebook.metadata[key]
    # the exact Python is not part of the lesson: it would change the file on every other machine
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def _steady_output(output: NotebookNode) -> None:
    data = output.get("data", {})
    if WIDGET in data and any(kind in data for kind in _STATIC):
        del data[WIDGET]
    for holder, keys in ((output, ["text"]), (data, [k for k in data if k.startswith("text/")])):
        for key in keys:
            if isinstance(holder.get(key), str):
                for pattern, calm in _RESTLESS:
                    holder[key] = pattern.sub(calm, holder[key])


def _joined_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Neighbouring pieces of one stream as one: where they break depends on timing."""
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else {}
        if output.output_type == last.get("output_type") == "stream" and last.name == output.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _as_a_terminal_shows(text: str) -> str:
    """What is left when each carriage return lets the line be written over, as progress bars do."""
    if "\r" not in text:
        return text
    lines = [line.removesuffix("\r").rsplit("\r", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")]
    lines = [line if line.strip() else "" for line in lines]
    return "\n".join(lines) if any(lines) else ""


def complains(notebook: NotebookNode) -> list[str]:
    """Ids of cells that wrote to the error stream: a warning, or a progress bar."""
    return [
        cell.id
        for cell in notebook.cells
        if any(output.get("name") == "stderr" for output in cell.get("outputs", []))
    ]


def widget_without_picture(notebook: NotebookNode) -> list[str]:
    """Ids of cells whose widget leaves nothing to see where no kernel runs."""
    return [
        cell.id
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if WIDGET in output.get("data", {})
    ]
