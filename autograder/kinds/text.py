"""A sentence or two for a human to mark; the learner is told how many of its key ideas were found."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any

from autograder import verdict
from autograder.kinds.base import Question, article
from autograder.verdict import Verdict

#: typographic apostrophes, minus signs and hyphens, as a keyboard writes them
PLAIN = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2013": "-"}
)


@dataclass(frozen=True, kw_only=True)
class Idea:
    """A key idea, found where one sentence (or two that follow each other) matches every pattern of `all_of`.

    `name` is what the learner reads: it says what kind of idea it is and does not give it away. `unless`
    patterns in the same sentence say the contrary.
    """

    name: str
    all_of: tuple[str, ...]
    unless: tuple[str, ...] = ()

    def found_in(self, text: str) -> bool:
        """Is the idea in the text, in whatever words the patterns cover?"""
        return any(self._in(window) for window in windows(text))

    def _in(self, window: str) -> bool:
        if any(re.search(pattern, window) for pattern in self.unless):
            return False
        return all(re.search(pattern, window) for pattern in self.all_of)


def windows(text: str) -> list[str]:
    """Return each sentence in lower case, and each pair of neighbours joined."""
    plain = text.lower().translate(PLAIN)
    plain = re.sub(r"(?<=\d)[.,](?=\d)", "_", plain)
    parts = [" ".join(part.split()) for part in re.split(r"[.!?;]+(?:\s|$)|\n\s*\n|\n\s*[-*]", plain)]
    parts = [part for part in parts if part]
    return parts + [f"{first} {second}" for first, second in itertools.pairwise(parts)]


@dataclass(frozen=True, kw_only=True)
class Text(Question):
    """Free text with key `ideas`; `mark_scheme` says what the points are for; `examples` are good."""

    ideas: tuple[Idea, ...]
    mark_scheme: str
    examples: tuple[str, ...] = ()
    manual = True

    def decide_value(self, value: Any) -> Verdict:
        if not isinstance(value, str):
            message = f"The answer is {article(value)}, and a sentence in quotes is asked."
            return verdict.not_yet(message, slip="not a text")
        if not re.search(r"\w", value):
            return verdict.unanswered()
        found = [idea.name for idea in self.ideas if idea.found_in(value)]
        return Verdict(status=verdict.BY_HAND, message=self._said(found), details=self._details(found))

    def _said(self, found: list[str]) -> str:
        left = len(self.ideas) - len(found)
        if left == 0:
            return "Every key idea was found in your words. A person gives the points."
        ideas = "idea" if left == 1 else "ideas"
        return (
            f"{left} key {ideas} of {len(self.ideas)} not found yet; read it once more. A person gives the "
            f"points."
        )

    def _details(self, found: list[str]) -> tuple[str, ...]:
        return tuple(f"found: {name}" for name in found)

    def right_answers(self) -> list[Any]:
        return list(self.examples)
