"""A sentence or two for a human to mark; the learner is told how many of its key ideas were found."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autograder import verdict
from autograder.kinds.base import Question, article
from autograder.verdict import Verdict

#: typographic apostrophes, minus signs and hyphens, as a keyboard writes them
PLAIN = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2013": "-"}
)


_VERB = (
    r"(?:is|are|was|were|has|have|had|needs?|keeps?|kept|takes?|costs?|does|do|can|will|would|must|gets?|stays?"
    r"|remains?|makes?|adds?|saves?|becomes?|exists?|survives?|covers?|shrinks?|fits?|moves?)(?:n't)?\b"
)
#: where one statement ends and the next begins
_BREAK = re.compile(
    r"[,;:()]|\.\s|\s-+\s|\b(?:but|because|so|since|while|whereas|although|though|which|then|therefore|hence|thus"
    rf"|yet)\b|\band (?=(?:\S+ ){{0,3}}?{_VERB})"
)
_NOT = re.compile(r"\b(?:no|not(?! only)|never|neither|nor|none|nothing|without|cannot|nobody)\b|n't\b")
_NOT_AFTER = re.compile(
    r"\b(?:is|are|was|were|do|does|did|will|would|need|can)(?: (?:not|never|no longer)\b|n't\b|not\b)"
)
#: words that deny what follows them, and words that deny what went before
_LESS = re.compile(
    r"\b(?:spar(?:e|es|ed|ing)|avoid\w*|skip\w*|drop(?:s|ped|ping)?|remov\w*|eliminat\w*|prevent\w*|lack\w*|omit\w*"
    r"|rid of|(?:do|does|doing) away|leav(?:e|es|ing) out|left out|free(?:s|d)? \w+ (?:from|of)|instead of"
    r"|rather than|saves? (?:you|us|me|one))\b"
)
_LESS_AFTER = re.compile(
    r"\b(?:unnecessary|needless|superfluous|obsolete|redundant|unneeded|absent|missing|gone"
    r"|be (?:skipped|dropped|omitted|left out|avoided))\b"
)
#: a statement that denies the one before it: "fp16 underflows, bf16 does not"
_ELLIPSIS = re.compile(r"(?:\S+ ){1,4}?(?:(?:do|does|did|is|are|will|can)(?:n't| not)|cannot)")


#: how far back a list may begin that a word denies as a whole, how often a statement is looked at, and how long
#: an answer may be
_LONGEST_LIST = 12
_MOST_MATCHES = 40
_LONGEST = 20_000


@dataclass(frozen=True)
class Said:
    """A pattern that a text must state; `denied`, one that it must deny ("no x", "avoids x", "x is not kept")."""

    pattern: str
    denied: bool = False

    def found_in(self, window: str) -> bool:
        """Does any statement of the window say so?"""
        parts = [part.strip() for part in _BREAK.split(window)]
        return any(
            self.denied in _polarities(parts, i, match)
            for i, part in enumerate(parts)
            for match in itertools.islice(re.finditer(self.pattern, part), _MOST_MATCHES)
        )


@dataclass(frozen=True)
class Either:
    """Several ways to put one thing: each is a pattern, a Said, or a tuple of those that belong together."""

    ways: tuple[Any, ...]

    def found_in(self, window: str) -> bool:
        """Is one of the ways in the window?"""
        return any(_found(way, window) for way in self.ways)


def denied(pattern: str) -> Said:
    """Return what finds the pattern where the text denies it."""
    return Said(pattern, denied=True)


def either(*ways: Any) -> Either:
    """Return what is found when one of the ways is."""
    return Either(ways)


def _found(what: Any, window: str) -> bool:
    if isinstance(what, str):
        return re.search(what, window) is not None
    if isinstance(what, tuple):
        return all(_found(each, window) for each in what)
    return what.found_in(window)


def _polarities(parts: Sequence[str], i: int, match: re.Match) -> set[bool]:
    """Return {True} where the match is denied, {False} where it is stated, both where an ellipsis follows."""
    part = parts[i]
    before, after = part[: match.start()], part[match.end() :]
    back = i
    own = before if re.search(r"\b(?:or|nor) ", before) else part
    while back > max(0, i - _LONGEST_LIST) and not re.search(
        rf"\b{_VERB}", own if back == i else parts[back]
    ):  # one list: "no a, b or c"
        back -= 1
        before = f"{parts[back]} {before}"
    negated = bool(_NOT.search(before) or _NOT_AFTER.search(after))
    lessened = bool(_LESS.search(part[: match.start()]) or _LESS_AFTER.search(after))
    found = {negated != lessened}
    if i + 1 < len(parts) and _ELLIPSIS.fullmatch(parts[i + 1]):
        found.add(not negated)
    return found


@dataclass(frozen=True, kw_only=True)
class Idea:
    """A key idea, found where one sentence (or two that follow each other) has everything in `all_of`.

    What stands in `all_of` is a pattern that must occur, whatever is said of it; a `Said` or `denied(...)`,
    which must be stated or denied; or `either(...)` of them. `name` is what the learner reads: it says what
    kind of idea it is and does not give it away. `unless` patterns in the same sentence say the contrary.
    """

    name: str
    all_of: tuple[Any, ...]
    unless: tuple[str, ...] = ()

    def found_in(self, text: str) -> bool:
        """Is the idea in the text, in whatever words the patterns cover?"""
        return any(self._in(window) for window in windows(text))

    def _in(self, window: str) -> bool:
        if any(re.search(pattern, window) for pattern in self.unless):
            return False
        return _found(self.all_of, window)


def windows(text: str) -> list[str]:
    """Return each sentence in lower case, and each pair of neighbours joined."""
    plain = text.lower().translate(PLAIN)
    plain = re.sub(r"(?<=\d)[.,](?=\d)", "_", plain)
    parts = [
        " ".join(part.split()) for part in re.split(r"(?<![.!?;])[.!?;]+(?:\s|$)|\n\s*\n|\n\s*[-*]", plain)
    ]
    parts = [part for part in parts if part]
    return parts + [f"{first}. {second}" for first, second in itertools.pairwise(parts)]


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
        if len(value) > _LONGEST:
            message = f"The answer has {len(value):,} characters. Can you say it in a sentence or two?"
            return verdict.not_yet(message, slip="too long")
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
