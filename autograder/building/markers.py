"""Which lines of a notebook are solution markers, and which only look as if someone meant one.

nbgrader hands out a solution whose marker has a typo and says nothing, so what resembles a marker is refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from difflib import SequenceMatcher

from autograder.cells import BEGIN, END

_MEANT = ("begin", "end", "start", "stop")
_WHAT = ("solution", "solutions", "hiddentests", "hiddentest", "markscheme", "answer", "answers")
TARGETS = tuple(a + b for a in _MEANT for b in _WHAT) + tuple(b + a for a in _MEANT for b in _WHAT)
_NBGRADER = tuple(a + b for a in ("begin", "end") for b in ("solution", "hiddentests", "markscheme"))
# A short comment made of one of these words alone marks something that is meant to be cut out.
_ALONE = ("solution", "solutions", "hiddentest", "hiddentests", "markscheme", "answerkey")
ALIKE = 0.8
ALIKE_IN_PROSE = 0.9


def marker(line: str) -> str | None:
    """ "begin" or "end" when `line` is exactly one of our two markers (indented or not), else None."""
    return {BEGIN: "begin", END: "end"}.get(line.strip())


def resembles_marker(line: str) -> bool:
    """Whether `line` is a marker of nbgrader or looks like one mistyped: any case, spacing or spelling."""
    plain = unicodedata.normalize("NFKC", line).replace("_", " ")
    comment = plain[plain.index("#") :] if "#" in plain else ""
    return _marks(plain) or _marks(comment) or _shouts(plain)


def _marks(text: str) -> bool:
    """A short comment, or a short line in capitals, that is near to a marker."""
    words = _words(text.casefold())
    looks_marked = re.match(r"\s*(#|=|<!|//|%|\*{3}|-{2})", text) is not None
    if not words or len(words) > 5 or not (looks_marked or text.strip().isupper()):
        return False
    alone = looks_marked and "".join(words) in _ALONE
    return alone or any(_alike(part, TARGETS) >= ALIKE for part in _runs(words, 4))


def _shouts(text: str) -> bool:
    """Capitals in a longer line that are very near to a marker: nbgrader finds one anywhere in a line."""
    words = [word.casefold() for word in _words(text) if word.isupper()]
    return any(_alike(part, _NBGRADER) >= ALIKE_IN_PROSE for part in _runs(words, 3))


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text)


def _runs(words: list[str], longest: int) -> Iterator[str]:
    """Neighbouring words joined: a marker may have been typed with a space too many or too few."""
    for start in range(len(words)):
        for count in range(1, longest + 1):
            if start + count <= len(words):
                yield "".join(words[start : start + count])


def _alike(text: str, targets: tuple[str, ...]) -> float:
    if not 8 <= len(text) <= 20:
        return 0.0
    return max(SequenceMatcher(None, text, target, autojunk=False).ratio() for target in targets)


def split_region(source: str) -> tuple[str, str, str]:
    """What stands before, inside and after the one solution region of a cell.

    ValueError says what is wrong with the markers: none, more than one, or in the wrong order.
    """
    lines = source.split("\n")
    marks = [(kind, at) for at, line in enumerate(lines) if (kind := marker(line))]
    kinds = [kind for kind, _ in marks]
    if kinds != ["begin", "end"]:
        found = ", ".join(f"{kind} (line {at + 1})" for kind, at in marks) or "no markers"
        raise ValueError(f"needs {BEGIN} and {END} once each, in this order; found {found}")
    (_, begin), (_, end) = marks
    parts = lines[:begin], lines[begin + 1 : end], lines[end + 1 :]
    before, inside, after = ("\n".join(part) for part in parts)
    return before, inside, after
