"""Put in order, and match: a list whose lines the learner moves, and a dict whose values they fill in."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from autograder import verdict, wire
from autograder.kinds.base import Question, article, is_blank, key_trouble, misspelt
from autograder.verdict import Verdict


def plain(line: str) -> str:
    """Return a line without what does not matter: case, spaces, a full stop or comma at its end."""
    return " ".join(line.lower().split()).rstrip(" .,;")


@dataclass(frozen=True, kw_only=True)
class Order(Question):
    """A list of texts to put in order. A slip's value is (earlier, later): two items in the wrong order.

    `start` is the scrambled list that stands in the notebook; left as it is, the question is unanswered.
    """

    right: tuple[str, ...]
    start: tuple[str, ...]
    hint: str = "Two neighbours are still the wrong way round. Which one needs what the other makes?"

    def decide_value(self, value: Any) -> Verdict:
        if not isinstance(value, list | tuple):
            return verdict.not_yet(
                f"The answer is {article(value)}, and a list of lines is asked.", slip="not a list"
            )
        known = {plain(item): item for item in self.right}
        given = tuple(known.get(plain(item), item) if isinstance(item, str) else item for item in value)
        if given == self.start:
            return verdict.unanswered(
                "Move the lines of the list into order (Alt+Up and Alt+Down move a line)."
            )
        if sorted(map(str, given)) != sorted(self.right):
            return verdict.not_yet(self._other_lines(given), slip="other lines")
        if given == self.right:
            return verdict.right(self.praise)
        for slip in self.slips:
            first, second = slip.value
            if given.index(first) < given.index(second):
                return verdict.not_yet(slip.message, slip=slip.name)
        return verdict.not_yet(self.hint)

    def _other_lines(self, given: tuple) -> str:
        """Say what keeps the list from holding each line once."""
        if not any(isinstance(item, str) for item in given):
            return "The list must hold the lines themselves. Can you move them, words and all?"
        for item in given:
            if item not in self.right:
                shown = wire.one_line(item, 60) if isinstance(item, str) else article(item)
                return f"This is none of the lines: {shown}. Each must stand once, with its words unchanged."
        doubled = next((item for item in given if given.count(item) > 1), None)
        if doubled is not None:
            return f"This line stands there more than once: {doubled}. Which one did it take the place of?"
        lost = next(item for item in self.right if item not in given)
        return f"This line is missing: {lost}. Copy it back in."

    def right_answers(self) -> list[Any]:
        return [list(self.right), tuple(self.right), [f" {item.capitalize()}." for item in self.right]]

    def wrong_answers(self) -> list[tuple[str, Any]]:
        return [(slip.name, self._showing(slip.value)) for slip in self.slips]

    def _showing(self, pair: tuple[str, str]) -> list[str]:
        """Return an order, as near to the right one as can be, in which `pair` stands the wrong way round."""
        first, second = pair
        items = [item for item in self.right if item != first]
        items.insert(items.index(second), first)
        return items

    def secrets(self) -> list[Any]:
        return []


@dataclass(frozen=True, kw_only=True)
class Match(Question):
    """A dict filled in from `choices`, with credit for each row. A slip's value is (key, value).

    `also` are other words for a choice: {other word: choice}.
    """

    right: dict[str, str]
    choices: tuple[str, ...]
    also: dict[str, str] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)

    def decide_value(self, value: Any) -> Verdict:
        if not isinstance(value, dict):
            return verdict.not_yet(f"The answer is {article(value)}, and a dict is asked.", slip="not a dict")
        trouble = key_trouble(value, tuple(self.right))
        if not trouble and all(is_blank(item) for item in value.values()):
            return verdict.unanswered()
        rows = [self._row(key, value.get(key)) for key in self.right]
        good = sum(1 for row in rows if row[0])
        if good == len(rows) and not trouble:
            return verdict.right(self.praise)
        slip = next((row[2] for row in rows if row[2]), None)
        details = tuple(f"{key}: {row[1]}" for key, row in zip(self.right, rows, strict=True))
        if trouble:
            return misspelt(trouble, good / len(rows), details)
        return verdict.by_rows(good / len(rows), f"{good} of {len(rows)} rows are right.", details, slip)

    def _row(self, key: str, given: Any) -> tuple[bool, str, str | None]:
        if is_blank(given):
            return False, "not answered yet.", None
        word = given.strip().lower() if isinstance(given, str) else None
        word = self.also.get(word, word)
        if word == self.right[key]:
            return True, "right.", None
        for slip in self.slips:
            if slip.value == (key, word):
                return False, slip.message, slip.name
        if word not in self.choices:
            return False, f"choose one of: {', '.join(self.choices)}.", "not a choice"
        return False, self.hints.get(key, "not yet."), None

    def right_answers(self) -> list[Any]:
        upper = {key: word.upper() for key, word in self.right.items()}
        backwards = dict(reversed(self.right.items()))
        return [dict(self.right), upper, backwards]

    def wrong_answers(self) -> list[tuple[str, Any]]:
        return [(slip.name, {**self.right, slip.value[0]: slip.value[1]}) for slip in self.slips]


def scrambled(items: tuple[str, ...], seed: int) -> tuple[str, ...]:
    """Return the items in an order that is not the right one, the same for the same seed."""
    mixed = list(items)
    while tuple(mixed) == items:
        random.Random(seed).shuffle(mixed)
        seed += 1
    return tuple(mixed)
