"""Which names did a cell mean to set when it last ended with an error? So that no check judges an old answer."""

from __future__ import annotations

import ast
import re
from typing import Any

from autograder.kinds.errors import lead_on
from autograder.wire import one_line

_BINDS = re.compile(r"^(?:def\s+|class\s+)?([A-Za-z_]\w*)\s*(?:\(|=(?!=)|:[^=\n]*=)", re.MULTILINE)
_LETTER = re.compile(r"name '([a-zA-Z])' is not defined")

#: for each name, the error of the last cell that meant to set it; None when that cell ran to its end
_last: dict[str, str | None] = {}


def watch(shell: Any) -> None:
    """Remember from now on how each cell of a notebook ends; once for each shell."""
    if shell is not None and _after_cell not in shell.events.callbacks.get("post_run_cell", ()):
        shell.events.register("post_run_cell", _after_cell)


def _after_cell(result: Any) -> None:
    error = result.error_before_exec or result.error_in_exec
    remember(result.info.raw_cell or "", error)


def remember(source: str, error: BaseException | None) -> None:
    """Take note of how a cell ended."""
    # a check that failed under nbgrader is no fault of the cell's own
    said = None if error is None or type(error).__name__ == "CheckFailed" else _said(error)
    for name in bound_names(source):
        _last[name] = said


def bound_names(source: str) -> set[str]:
    """Return the names that a cell sets, also where it is no valid Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set(_BINDS.findall(source))
    found, todo = set(), list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)  # what stands inside is its own
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        else:
            todo += ast.iter_child_nodes(node)
    return found


def _said(error: BaseException) -> str:
    text = getattr(error, "msg", None) if isinstance(error, SyntaxError) else str(error)
    return one_line(f"{type(error).__name__}: {text}", 120)


def message_for(name: str) -> str | None:
    """Return what to say where the last cell that meant to set `name` ended with an error, or None."""
    said = _last.get(name)
    if said is None:
        return None
    shown = said.replace("`", "'").rstrip(".")
    return (
        f"The cell that sets `{name}` stopped with {shown}. {_lead(said)} Once it runs, run this one again."
    )


def _lead(said: str) -> str:
    return "Does that letter need quotes?" if _LETTER.search(said) else lead_on(said)
