"""What every question has: a name, points, what to ask the notebook, and a verdict on the replies."""

from __future__ import annotations

import difflib
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from autograder import verdict, wire
from autograder.kinds.errors import lead_on
from autograder.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Slip:
    """A wrong answer we can name: what it gives, how it arises, and the question that leads on from it.

    `value` is what the slip answers: a number, a letter, a set, or for a Function the wrong function itself.
    `message` never states the right answer. `source` is, where `value` cannot be run as it stands, Python
    text that makes the slip, for the tests.
    """

    name: str
    value: Any
    message: str
    how: str = ""
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question by the name of the variable or function that answers it.

    `prompt` says in one line what is asked (it appears in the index, reports and cards); `praise` is what a
    right answer is told, one sentence that adds something.
    """

    name: str
    points: int
    prompt: str
    praise: str = "That is it."
    slips: tuple[Slip, ...] = ()

    #: True when a human gives the points
    manual = False

    def requests(self, rng: random.Random) -> list[wire.Request]:
        """Return what to ask the notebook; fresh inputs come from `rng`."""
        return [wire.Value(name=self.name)]

    def judge(self, replies: Sequence[dict], requests: Sequence[wire.Request] | None = None) -> Verdict:
        """Return the verdict on the replies to `requests`; never raises, whatever the replies hold."""
        asked = list(requests) if requests is not None else self.requests(random.Random(0))
        clean = [wire.clean_reply(reply) for reply in replies]
        if len(clean) != len(asked):
            return verdict.not_yet(
                "The notebook did not reply to every question asked of it.", slip="no reply"
            )
        try:
            return self.decide(clean, asked)
        except Exception:
            return verdict.not_yet(
                "This answer could not be read. Is it written as the task asks?", slip="unreadable"
            )

    def decide(self, replies: list[dict], requests: list[wire.Request]) -> Verdict:
        """Judge clean replies; a kind that asks one value overrides `decide_value` instead."""
        trouble = reply_trouble(replies[0], self.name)
        if trouble is not None:
            return trouble
        value = wire.decode(replies[0].get("ok"))
        if isinstance(value, wire.Refused):
            return refused(value)
        if is_blank(value):
            return verdict.unanswered()
        return self.decide_value(value)

    def decide_value(self, value: Any) -> Verdict:
        """Judge one decoded value that is not blank."""
        raise NotImplementedError

    def right_answers(self) -> list[Any]:
        """Return values (or for a Function, Python texts) that earn full marks, for the tests."""
        raise NotImplementedError

    def wrong_answers(self) -> list[tuple[str, Any]]:
        """Return (slip name, value that makes it) for every slip, for the tests."""
        return [(slip.name, slip.value) for slip in self.slips]

    def secrets(self) -> list[Any]:
        """Return what no message may give away: numbers and texts of the right answer."""
        return []


def ask(question: Question, answer: Callable[[dict], dict], rng: random.Random) -> Verdict:
    """Ask a question's requests through `answer` (request JSON in, reply out) and return the verdict."""
    requests = question.requests(rng)
    return question.judge([answer(request.to_json()) for request in requests], requests)


def is_blank(value: Any) -> bool:
    """Is it what a stub holds: None, `...`, an empty text or container?"""
    if value is None or value == wire.Other("ellipsis", "ellipsis"):
        return True
    return (isinstance(value, str | dict | list | tuple | frozenset) and len(value) == 0) or (
        isinstance(value, str) and not value.strip()
    )


def refused(value: wire.Refused) -> Verdict:
    """Return the verdict for a value that could not be taken over."""
    return verdict.not_yet(f"This answer cannot be read: {value.reason}.", slip="unreadable")


def reply_trouble(reply: dict, name: str, signature: str = "", elsewhere: bool = False) -> Verdict | None:
    """Return the verdict for a reply that brought no value (missing, error, too slow, ...), or None.

    `elsewhere` says that the function was called with a model or an optimizer of the check's own.
    """
    if reply.get("missing"):
        return verdict.unanswered(
            f"There is no `{name}` yet: run the cell that defines it, then this one again."
        )
    if reply.get("stub"):
        return verdict.unanswered()
    if reply.get("timeout"):
        return verdict.not_yet(
            "It did not finish in time and was stopped. Which loop never ends?", slip="too slow"
        )
    if reply.get("died"):
        return verdict.not_yet("The notebook's process ended before it could reply.", slip="died")
    if reply.get("arguments"):
        begin = f"def {signature or name}:"
        message = f"`{name}` takes other arguments than the task gives it. Does it begin `{begin}`?"
        return verdict.not_yet(message, slip="other arguments")
    if "error" in reply:
        return _error_verdict(reply, elsewhere)
    if "value" in reply:
        return _not_a_function(reply, name)
    if "refused" in reply:
        return verdict.not_yet(f"This answer cannot be read: {reply['refused']}.", slip="unreadable")
    return None


def _not_a_function(reply: dict, name: str) -> Verdict:
    value = wire.decode(reply["value"])
    if is_blank(value):
        return verdict.unanswered()
    message = f"`{name}` holds {article(value)}, but the task asks for a function: `def {name}(...)`."
    return verdict.not_yet(message, slip="not a function")


def _error_verdict(reply: dict, elsewhere: bool) -> Verdict:
    said = reply["error"]
    kind, _, text = said.partition(": ")
    line = f" in line {reply['line']}" if "line" in reply else ""
    code = f", `{reply['code'].replace('`', chr(39))}`" if "code" in reply else ""
    if kind == "NotImplementedError":
        message = (
            f"A `raise NotImplementedError` still stands{line} of your cell. Delete it, and what is below "
            f"runs."
        )
        return verdict.not_yet(message, slip="stub raises")
    if kind in ("NameError", "UnboundLocalError"):
        message = (
            f"It uses a name that is not defined{line}{code}: {text.replace('`', chr(39))}. {lead_on(said)}"
        )
        return verdict.not_yet(message, slip="unknown name")
    shown = said.replace("`", "'").rstrip(".")
    return verdict.not_yet(
        f"Your code stopped{line}{code} with {shown}. {lead_on(said, elsewhere)}", slip="raises"
    )


# ---------------------------------------------------------------- reading what a learner typed


def article(value: Any) -> str:
    """Return what a decoded value is, in words: "a list", "the text '14 GB'"."""
    if value is None:
        return "None"
    if isinstance(value, wire.Other):
        return _other_words(value)
    if isinstance(value, bool):
        return f"the truth value {value}"
    if isinstance(value, str):
        return f"the text {wire.one_line(value, 40)!r}"
    if isinstance(value, int | float):
        return "a number"
    names = {list: "a list", tuple: "a tuple", frozenset: "a set", dict: "a dict"}
    return names.get(type(value), "something else")


def _other_words(value: wire.Other) -> str:
    if value.what == "function":
        return "a function (was it meant to be called, with brackets?)"
    if value.what in ("class", "module", "generator", "complex number"):
        return f"a {value.what}"
    return f"an object of type {value.name or 'unknown'}"


def number_trouble(value: Any, *, negative: bool = False, what: str = "The answer") -> tuple[str, str] | None:
    """Return (slip, message) for a value that is no usable number, or None when it is one."""
    if isinstance(value, str):
        return (
            "text for a number",
            f"{what} is {article(value)}. Write the number alone, without quotes or unit.",
        )
    if isinstance(value, bool):
        return "truth value", f"{what} is {article(value)}, and a number is asked. Was a comparison left in?"
    if isinstance(value, wire.Other):
        return _other_trouble(value, what)
    if not isinstance(value, int | float):
        return "not a number", f"{what} is {article(value)}, and a single number is asked."
    if isinstance(value, float) and math.isnan(value):
        return "nan", f"{what} is not a number (nan). Which step of the sum has no value?"
    if abs(value) > 1e300:
        return "infinity", f"{what} is infinite or too large to be a size. Was something divided by zero?"
    if value < 0 and not negative:
        return (
            "negative",
            f"{what} is negative, and nothing here can be less than zero. Which sign is turned round?",
        )
    return None


def _other_trouble(value: wire.Other, what: str) -> tuple[str, str]:
    if value.what == "complex number":
        return "complex", f"{what} is a complex number. Where did an imaginary part come in?"
    if value.what == "subclass":
        return (
            "not plain",
            f"{what} is {article(value)}, made to look like a plain value. Write a plain number.",
        )
    return "not a number", f"{what} is {article(value)}, and a plain number is asked."


def close(given: float, right: float, tolerance: float) -> bool:
    """Are two numbers equal within a relative tolerance?"""
    return math.isclose(float(given), float(right), rel_tol=tolerance, abs_tol=1e-300)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a misspelt one most likely means, or None."""
    lowered = {item.lower().replace(" ", "_"): item for item in known}
    wanted = name.lower().strip().replace(" ", "_").replace("-", "_")
    found = difflib.get_close_matches(wanted, list(lowered), n=1, cutoff=0.6)
    return lowered[found[0]] if found else None


def key_trouble(keys: Iterable[Any], known: Sequence[str]) -> tuple[str, str] | None:
    """Return (slip, message) for the first key of a dict that is not one of `known`, or None."""
    for key in keys:
        if isinstance(key, str) and key in known:
            continue
        shown = wire.one_line(str(key), 40) if isinstance(key, str | int | float) else "that key"
        guess = nearest(key, known) if isinstance(key, str) else None
        hint = f"did you mean '{guess}'?" if guess else f"the keys are {', '.join(known)}."
        return "unknown key", f"There is no '{shown}' in this table: {hint}"
    return None


def misspelt(trouble: tuple[str, str], fraction: float, details: tuple[str, ...]) -> Verdict:
    """Return the verdict on a dict with an unknown key: right rows keep their credit, the key is named."""
    slip, message = trouble
    if fraction == 1.0:
        return Verdict(status=verdict.RIGHT, fraction=1.0, message=f"Every row is right. {message}")
    return verdict.by_rows(fraction, message, details if fraction else (), slip)
