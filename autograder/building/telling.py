"""What in a solution gives it away when it stands elsewhere: statements, sums, shapes of sums, sentences."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from textwrap import dedent

SENTENCE_LETTERS = 25
EXPRESSION_LETTERS = 6
LEAVES = 3
# numbers that stand in any lesson: small ones, and those that turn bytes into GB
PLAIN_NUMBERS = {0, 1, 2, 10, 100, 1000, 1e6, 1e9, 1e12, 1024, 2**20, 2**30}

_LOOPS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_TELLING = ast.BinOp | ast.Dict | ast.List | ast.Set | ast.Compare | ast.IfExp | ast.Call | _LOOPS


@dataclass(frozen=True, kw_only=True)
class Telling:
    """What gives one solution away: `texts` wherever they can be read, `shapes` of sums under any names."""

    texts: frozenset[str] = field(default_factory=frozenset)
    shapes: frozenset[str] = field(default_factory=frozenset)


def telling(name: str, solution: str) -> Telling:
    """What gives away the solution of question `name`, all without spaces and in lower case."""
    tree = parsed(solution)
    if tree is None:
        lines = {bare(line) for line in solution.split("\n")}
        return Telling(texts=frozenset(line for line in lines if len(line) >= EXPRESSION_LETTERS))
    texts = {*_answers(tree, name, dedent(solution)), *expressions(tree, dedent(solution))}
    return Telling(texts=frozenset(texts), shapes=frozenset(shapes(tree)))


def parsed(text: str) -> ast.Module | None:
    """The program that `text` is, None when it is none."""
    try:
        return ast.parse(dedent(text))
    except (SyntaxError, ValueError):
        return None


def bare(text: str) -> str:
    """`text` without spaces, with one kind of quotes, in lower case."""
    return re.sub(r"\s+", "", text).replace("'", '"').lower()


def expressions(tree: ast.AST, text: str) -> Iterator[str]:
    """Every expression with three names or numbers, as Python writes it and as `text` does."""
    for node in ast.walk(tree):
        if isinstance(node, _TELLING) and len(_leaves(node)) >= LEAVES:
            for written in _written(node, text):
                if len(written) >= EXPRESSION_LETTERS:
                    yield written


def shapes(tree: ast.AST) -> Iterator[str]:
    """Every sum with a number of its own, its names numbered: `n * 16 / 1e9` is `_0 * 16 / 1e9`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and len(_leaves(node)) >= LEAVES and _own_number(node):
            yield bare(ast.unparse(_renamed(node)))


def _answers(tree: ast.Module, name: str, text: str) -> Iterator[str]:
    """`NAME = ...` whatever its length, and the sentences of an answer in words."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            yield from _written(node, text)
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                yield from _sentences(node.value.value)


def _sentences(text: str) -> Iterator[str]:
    for sentence in re.split(r"(?<=[.!?;])\s+", text):
        if len(bare(sentence)) >= SENTENCE_LETTERS:
            yield bare(sentence)


def _written(node: ast.AST, text: str) -> set[str]:
    return {bare(ast.unparse(node)), bare(ast.get_source_segment(text, node) or ast.unparse(node))}


def _leaves(node: ast.AST) -> list[ast.AST]:
    return [part for part in ast.walk(node) if isinstance(part, ast.Name | ast.Constant)]


def _own_number(node: ast.AST) -> bool:
    numbers = [part.value for part in _leaves(node) if isinstance(part, ast.Constant)]
    return any(isinstance(value, int | float) and value not in PLAIN_NUMBERS for value in numbers)


def _renamed(node: ast.AST) -> ast.AST:
    """The same sum with its names numbered in the order in which they come."""
    node, seen = copy.deepcopy(node), {}
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            part.id = seen.setdefault(part.id, f"_{len(seen)}")
    return node
