"""Whether a lesson that is about to be handed out holds an answer: in code, in prose, in a file beside it.

Three nets, each for what the others miss: the solution's own statements and sums; the question's name beside
a value that the question bank takes for right; and, in the build, a run of the lesson,
in which nothing may be right.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterator
from textwrap import dedent

from nbformat.notebooknode import NotebookNode

from autograder import cells as made
from autograder import markers

SENTENCE_LETTERS = 25
EXPRESSION_LETTERS = 6
ALLOWED_METADATA = {"nbgrader", "tags", "editable", "deletable", "jp-MarkdownHeadingCollapsed", "collapsed"}

_LOOPS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_SAYING = ast.BinOp | ast.Dict | ast.List | ast.Set | ast.Compare | ast.IfExp | ast.Call | _LOOPS

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
        found += [
            (cell.id, says) for says in _in_text(cell.source, cell.cell_type == "code", secrets, is_right)
        ]
    for name, text in files.items():
        found += [(name, says) for says in _in_text(text, False, secrets, is_right)]
    return found


def solution_secrets(source: NotebookNode) -> dict[str, set[str]]:
    """For each question, what must not be readable: statements, sums and sentences without their spaces."""
    secrets = {}
    for cell in source.cells:
        if made.is_answer(cell):
            before, inside, _ = markers.split_region(cell.source)
            secrets[made.question_name(cell)] = _secrets(inside) - _secrets(before) - {_bare(before)}
    return secrets


def _secrets(inside: str) -> set[str]:
    """The statements, the expressions that say something and the long sentences of one solution."""
    tree = _parsed(inside)
    if tree is None:
        return {_bare(line) for line in inside.split("\n") if len(_bare(line)) >= EXPRESSION_LETTERS}
    return set(_pieces(tree, dedent(inside)))


def _pieces(tree: ast.AST, text: str) -> Iterator[str]:
    """Each telling part of a program, as Python writes it and as `text` does (7000000000.0 and 7e9)."""
    for node in ast.walk(tree):
        told = isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
        if told or (isinstance(node, _SAYING) and _says_something(node)):
            for written in (ast.unparse(node), ast.get_source_segment(text, node) or ""):
                if told or len(_bare(written)) >= EXPRESSION_LETTERS:
                    yield _bare(written)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _sentences(node.value)


def _says_something(node: ast.AST) -> bool:
    """An expression with two names or numbers and more: `a * b` alone may stand in any lesson."""
    leaves = [n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Constant)]
    return len(leaves) >= 3


def _sentences(text: str) -> Iterator[str]:
    for sentence in re.split(r"(?<=[.!?;])\s+", text):
        if len(_bare(sentence)) >= SENTENCE_LETTERS:
            yield _bare(sentence)


def _in_text(
    text: str, is_code: bool, secrets: dict[str, set[str]], is_right: Callable[[str, object], bool]
) -> Iterator[str]:
    readable = _bare(text)
    pieces = _all_pieces(text) if is_code else set()
    for name, held in secrets.items():
        if any(piece in pieces or piece in readable for piece in held):
            yield f"holds the solution of {name}, or a part of it"
        elif any(is_right(name, value) for value in _values_beside(text, name)):
            yield f"names {name} beside its right answer"


def _all_pieces(text: str) -> set[str]:
    tree = _parsed(text)
    return set(_pieces(tree, dedent(text))) if tree else set()


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


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(dedent(text))
    except SyntaxError:
        return None


def _bare(text: str) -> str:
    """`text` without spaces, quotes of either kind made one, in lower case."""
    return re.sub(r"\s+", "", text).replace("'", '"').lower()
