"""Whether a lesson that is about to be handed out holds an answer: in code, in prose, in a file beside it.

Three nets, each for what the others miss: what is telling in the solution itself; the question's name beside
a value that the question bank takes for right; and, in the build, a run of the lesson: nothing may be right.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterator
from textwrap import dedent

from nbformat.notebooknode import NotebookNode

from autograder import cells as made
from autograder.building import markers
from autograder.building.telling import Telling, bare, expressions, parsed, shapes, telling

ALLOWED_METADATA = {"nbgrader", "tags", "editable", "deletable", "jp-MarkdownHeadingCollapsed", "collapsed"}
LONGEST_VALUE = 400

Leak = tuple[str, str]


def leaks(
    released: NotebookNode,
    source: NotebookNode,
    files: dict[str, str],
    is_right: Callable[[str, object], bool],
) -> list[Leak]:
    """(cell id or file, what leaks) for every answer found in `released` or in the text of `files`.

    `is_right(name, value)` asks the question bank; `source` says what the solutions are.
    """
    secrets = solution_secrets(source)
    found: list[Leak] = []
    for cell in released.cells:
        found += [(cell.id, says) for says in _left_over(cell)]
        found += [(cell.id, says) for says in _in_text(cell.source, programs(cell), secrets, is_right)]
    for name, text in files.items():
        found += [(name, says) for says in _in_text(f"{name}\n\n{text}", [], secrets, is_right)]
    return found


def solution_secrets(source: NotebookNode) -> dict[str, Telling]:
    """For each question of a source notebook, what must not be readable anywhere in the lesson."""
    answers = [cell for cell in source.cells if made.is_answer(cell)]
    names = [made.question_name(cell) for cell in answers]
    return {
        name: telling(name, markers.split_region(cell.source)[1])
        for name, cell in zip(names, answers, strict=True)
    }


def programs(cell: NotebookNode) -> list[str]:
    """What of a cell is Python: all of a code cell, the code spans and blocks of prose."""
    if cell.cell_type == "code":
        return [cell.source]
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", cell.source, re.S | re.M)
    return blocks + re.findall(r"`([^`\n]+)`", cell.source)


def _in_text(
    text: str,
    code: list[str],
    secrets: dict[str, Telling],
    is_right: Callable[[str, object], bool],
) -> Iterator[str]:
    """What `text` gives away; `code` holds the parts of it that are Python."""
    readable, trees = bare(text), [(tree, dedent(part)) for part in code if (tree := parsed(part))]
    there = {piece for tree, part in trees for piece in expressions(tree, part)}
    drawn = {shape for tree, _ in trees for shape in shapes(tree)}
    for name, secret in secrets.items():
        if any(piece in there or piece in readable for piece in secret.texts):
            yield f"holds the solution of {name}, or a part of it"
        elif secret.shapes & drawn:
            yield f"holds the solution of {name} under other names"
        elif any(is_right(name, value) for value in _values_beside(text, name)):
            yield f"names {name} beside its right answer"


def _values_beside(text: str, name: str) -> Iterator[object]:
    """Values written right after a question's name: NAME = 14, `NAME`: 14, NAME is 14."""
    plain = re.sub(r"[`*]", "", text)
    for match in re.finditer(rf"\b{re.escape(name)}\b[\"']?\s*(?:==?|:|is|are|→|->)\s*", plain):
        yield from _literals(plain[match.end() :])


def _literals(rest: str) -> Iterator[object]:
    """Every literal, or sum of numbers, that `rest` may be read to begin with."""
    for end in _ends(rest):
        with contextlib.suppress(SyntaxError, ValueError):
            yield _value(ast.parse(rest[:end].strip(), mode="eval").body)
    if word := re.match(r"\"?([a-zA-Z])\"?(?![\w'])", rest):
        yield word[1]


def _ends(rest: str) -> Iterator[int]:
    """Where the value may end: never inside a word or a number, at the latest with the paragraph."""
    part = rest.split("\n\n")[0][:LONGEST_VALUE]
    for end in range(1, len(part) + 1):
        inside = re.match(r"\w", part[end - 1]) and re.match(r"[\w.]*\w", part[end:])
        if not inside:
            yield end


def _value(node: ast.expr) -> object:
    """The value of a literal or of arithmetic on numbers; ValueError for anything else."""
    if any(isinstance(n, ast.Pow | ast.LShift | ast.Call | ast.Name | ast.Attribute) for n in ast.walk(node)):
        return ast.literal_eval(node)
    if isinstance(node, ast.BinOp):
        try:
            return eval(compile(ast.Expression(node), "<answer>", "eval"), {"__builtins__": {}})
        except Exception as error:
            raise ValueError(str(error)) from error
    return ast.literal_eval(node)


def _left_over(cell: NotebookNode) -> Iterator[str]:
    """Places where nbgrader leaves what nobody sees."""
    if cell.get("outputs") or cell.get("attachments"):
        yield "keeps outputs or attachments"
    for key in sorted(set(cell.metadata) - ALLOWED_METADATA):
        yield f"keeps metadata {key!r}"
    for line in cell.source.split("\n"):
        if markers.marker(line) or markers.resembles_marker(line):
            yield f"keeps a marker: {line.strip()!r}"
