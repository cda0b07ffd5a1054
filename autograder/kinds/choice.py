"""One letter, or a set of letters, out of options printed in the lesson."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from autograder import verdict, wire
from autograder.kinds.base import Question, article
from autograder.verdict import Verdict


def letter_of(value: Any, options: dict[str, str]) -> str | None:
    """Return the option that a typed text means ("b", "B", " b) "), or None."""
    if not isinstance(value, str):
        return None
    bare = value.strip().lower().rstrip(").:").lstrip("(")
    return bare if bare in options else None


@dataclass(frozen=True, kw_only=True)
class Choice(Question):
    """One option of several: `options` is {letter: text}, and each wrong letter has a slip of its own."""

    options: dict[str, str]
    right: str

    def decide_value(self, value: Any) -> Verdict:
        letter = letter_of(value, self.options)
        if letter is None:
            letters = ", ".join(self.options)
            message = f"The answer is {article(value)}. Write one letter in quotes: {letters}."
            return verdict.not_yet(message, slip="not a letter")
        if letter == self.right:
            return verdict.right(self.praise)
        slip = next((slip for slip in self.slips if slip.value == letter), None)
        return (
            verdict.not_yet(slip.message, slip=slip.name)
            if slip
            else verdict.not_yet("Which other option fits?")
        )

    def right_answers(self) -> list[Any]:
        return [self.right, self.right.upper(), f" {self.right}) "]

    def secrets(self) -> list[Any]:
        return [self.options[self.right]]


@dataclass(frozen=True, kw_only=True)
class Set(Question):
    """Every option that fits: a set of letters. A slip is one too many; `missing` is said of one too few."""

    options: dict[str, str]
    right: frozenset[str]
    missing: str

    def decide_value(self, value: Any) -> Verdict:
        trouble = self._trouble(value)
        if trouble:
            return verdict.not_yet(trouble[1], slip=trouble[0])
        letters = {letter_of(item, self.options) for item in value}
        extra = [slip for slip in self.slips if slip.value in letters]
        if letters == self.right:
            return verdict.right(self.praise)
        if extra:
            return verdict.not_yet(extra[0].message, slip=extra[0].name)
        return verdict.not_yet(self.missing, slip="missing")

    def _trouble(self, value: Any) -> tuple[str, str] | None:
        form = "Write the letters in curly brackets, each in its own quotes."
        if isinstance(value, list | tuple):
            return "list for a set", f"The answer is {article(value)}; order does not matter here. {form}"
        if not isinstance(value, frozenset):
            return "not a set", f"The answer is {article(value)}. {form}"
        if any(letter_of(item, self.options) is None for item in value):
            return "unknown letter", self._unknown(value)
        return None

    def _unknown(self, value: frozenset) -> str:
        """Say which member is no letter of an option, and how to write it where it holds several."""
        wrong = sorted(
            wire.one_line(str(item), 30) for item in value if letter_of(item, self.options) is None
        )
        said = f"Only these letters stand for an option: {', '.join(self.options)}; you have {wrong[0]!r}."
        inside = [letter for letter in re.split(r"[\s,;]+", wrong[0].lower()) if letter]
        if len(inside) > 1 and all(letter in self.options for letter in inside):
            return f"{said} That is one text: does each letter have quotes of its own?"
        return said

    def right_answers(self) -> list[Any]:
        upper = {letter.upper() for letter in self.right}
        return [set(self.right), frozenset(self.right), upper]

    def wrong_answers(self) -> list[tuple[str, Any]]:
        extra = [(slip.name, set(self.right) | {slip.value}) for slip in self.slips]
        fewer = sorted(self.right)[1:] or [slip.value for slip in self.slips][:0]
        return extra + ([("missing", set(fewer))] if fewer else [])
