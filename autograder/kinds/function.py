"""A function the learner writes, called on fresh inputs and compared with a reference that they never see."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autograder import verdict, wire
from autograder.kinds.base import (
    Question,
    Slip,
    article,
    close,
    is_blank,
    number_trouble,
    refused,
    reply_trouble,
)
from autograder.kinds.number import CARET, POWERS, UNIT_BYTES, in_other_units, unit_message
from autograder.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Function(Question):
    """A function, right when it agrees with `reference` on the worked example and on every fresh input.

    `example` is the call worked in the lesson, `inputs(rng)` draws the others. A slip's value is a wrong
    function; it is recognised when the learner's results agree with it everywhere. With a `unit`, the right
    amounts in another unit are recognised too. `each_counts` gives credit for each input. `around` goes into
    the request (see `wire.Call`). `notice(results, arguments)` may name a slip that no single wrong function
    makes: (slip, message) or None; it is asked first. `right_sources` and a slip's `source` are Python texts of the learner's
    function, for the tests.
    """

    signature: str
    reference: Callable[..., Any]
    inputs: Callable[[random.Random], Sequence[tuple]]
    example: tuple | None = None
    unit: str = ""
    tolerance: float = 1e-3
    negative: bool = False
    each_counts: bool = False
    around: str = ""
    timeout_s: float = 5.0
    right_sources: tuple[str, ...] = ()
    notice: Callable[[list, list[tuple]], tuple[str, str] | None] | None = None
    hint: str = ""

    def requests(self, rng: random.Random) -> list[wire.Request]:
        examples = [self.example] if self.example is not None else []
        return [self._call(tuple(args)) for args in (*examples, *self.inputs(rng))]

    def _call(self, args: tuple) -> wire.Call:
        return wire.Call(name=self.name, args=args, timeout_s=self.timeout_s, around=self.around)

    def decide(self, replies: list[dict], requests: list[wire.Request]) -> Verdict:
        troubles = [
            reply_trouble(reply, self.name, self.signature, bool(self.around)) or self._result_trouble(reply)
            for reply in replies
        ]
        if any(troubles) and not (self.each_counts and not all(troubles)):
            return next(trouble for trouble in troubles if trouble)
        given = [
            None if trouble else wire.decode(reply["ok"])
            for reply, trouble in zip(replies, troubles, strict=True)
        ]
        expected = [self.reference(*request.args) for request in requests]
        good = [self._same(one, other) for one, other in zip(given, expected, strict=True)]
        if all(good):
            return self._unless_changed(replies)
        if self.each_counts:
            return self._each(given, good, requests, troubles)
        return self._wrong(given, good, requests)

    def _result_trouble(self, reply: dict) -> Verdict | None:
        value = wire.decode(reply["ok"])
        if isinstance(value, wire.Refused):
            return refused(value)
        if is_blank(value) and reply.get("printed"):
            message = (
                "Your function prints its result and returns nothing. What hands a value back to the caller?"
            )
            return verdict.not_yet(message, slip="prints")
        if value is None:
            return verdict.not_yet("Your function returns None. Is a `return` missing?", slip="returns None")
        trouble = self._type_trouble(value)
        return verdict.not_yet(trouble[1], slip=trouble[0]) if trouble else None

    def _type_trouble(self, value: Any) -> tuple[str, str] | None:
        """Return (slip, message) when a result is not of the reference's shape."""
        shape = self.reference(*self.requests(random.Random(0))[0].args)
        return shape_trouble(value, shape, self.negative)

    def _same(self, given: Any, expected: Any) -> bool:
        return same(given, expected, self.tolerance)

    def _unless_changed(self, replies: list[dict]) -> Verdict:
        if any(reply.get("changed") for reply in replies):
            message = (
                "The result is right, but the function changes what it was given. Can it work on a copy?"
            )
            return verdict.not_yet(message, slip="changes its input")
        return verdict.right(self.praise)

    def _wrong(self, given: list, good: list[bool], requests: list[wire.Request]) -> Verdict:
        slip = self._noticed(given, requests) or self._recognise(given, requests)
        if slip:
            return verdict.not_yet(slip[1], slip=slip[0])
        if len(given) > 2 and all(same(one, given[0], 1e-9) for one in given):
            message = "Your function returns the same for every input. Where does it use its arguments?"
            return verdict.not_yet(message, slip="always the same")
        if self.example is not None and good[0]:
            message = (
                "It agrees with the worked example but not with other inputs. What is fixed that should "
                "follow them?"
            )
            return verdict.not_yet(message, slip="only the example")
        return verdict.not_yet(self.hint or self._by_hand())

    def _noticed(self, given: list, requests: list[wire.Request]) -> tuple[str, str] | None:
        return self.notice(given, [request.args for request in requests]) if self.notice else None

    def _cut_off(self, given: list, requests: list[wire.Request]) -> tuple[str, str] | None:
        """Return (slip, message) where the right sizes lost their decimals, or None."""
        rights = [self.reference(*request.args) for request in requests]
        whole = all(
            one in (math.floor(right), round(right)) for one, right in zip(given, rights, strict=True)
        )
        message = "Your results are whole numbers, but sizes have decimals. Where does yours lose them?"
        return ("whole numbers", message) if whole else None

    def _by_hand(self) -> str:
        on = "the worked example" if self.example is not None else "small numbers"
        return f"Try it by hand on {on}, one term after the other. Where do the two part?"

    def _recognise(self, given: list, requests: list[wire.Request]) -> tuple[str, str] | None:
        for slip in self.slips:
            if all(
                self._slips(slip, one, request.args) for one, request in zip(given, requests, strict=True)
            ):
                return slip.name, slip.message
        for other in UNIT_BYTES if self.unit in UNIT_BYTES else ():
            if other != self.unit and self._all_in(other, given, requests):
                return f"in {other}", unit_message(other, self.unit)
        if self.unit in UNIT_BYTES and self._cut_off(given, requests):
            return self._cut_off(given, requests)
        if self.unit in POWERS and self._all_times(
            UNIT_BYTES[self.unit] / (10 ^ POWERS[self.unit]), given, requests
        ):
            return CARET
        return None

    def _all_times(self, factor: float, given: list, requests: list[wire.Request]) -> bool:
        rights = [self.reference(*request.args) for request in requests]
        return all(self._same(one, right * factor) for one, right in zip(given, rights, strict=True))

    def _slips(self, slip: Slip, given: Any, args: tuple) -> bool:
        try:
            return self._same(given, slip.value(*args))
        except (ArithmeticError, ValueError, KeyError):
            return False

    def _all_in(self, other: str, given: list, requests: list[wire.Request]) -> bool:
        amounts = [in_other_units(self.reference(*request.args), self.unit)[other] for request in requests]
        return all(self._same(one, amount) for one, amount in zip(given, amounts, strict=True))

    def _each(self, given: list, good: list[bool], requests: list, troubles: list[Verdict | None]) -> Verdict:
        """Credit by input, for a function over a few named cases."""
        lines, slips = [], []
        for one, right, request, trouble in zip(given, good, requests, troubles, strict=True):
            name, said = (None, "right.") if right else self._case(one, request.args, trouble)
            lines.append(f"{', '.join(map(str, request.args))}: {said}")
            slips.append(name)
        whole = self._recognise(given, requests)
        slip = whole[0] if whole else next((name for name in slips if name), None)
        share = sum(good) / len(good)
        return verdict.by_rows(share, f"{sum(good)} of {len(good)} are right.", tuple(lines), slip)

    def _case(self, given: Any, args: tuple, trouble: Verdict | None) -> tuple[str | None, str]:
        """Return (slip, what to say) of one wrong case."""
        if trouble:
            return trouble.slip, trouble.message
        found = next((slip for slip in self.slips if self._slips(slip, given, args)), None)
        return (found.name, found.message) if found else (None, f"not yet. {self.hint}".strip())

    def right_answers(self) -> list[Any]:
        return list(self.right_sources)

    def wrong_answers(self) -> list[tuple[str, Any]]:
        made = [(slip.name, slip.source or slip.value) for slip in self.slips]
        others = [unit for unit in UNIT_BYTES if unit != self.unit] if self.unit in UNIT_BYTES else []
        return made + [(f"in {other}", self._in(other)) for other in others]

    def _in(self, other: str) -> Callable[..., float]:
        return lambda *args: in_other_units(self.reference(*args), self.unit)[other]


def same(given: Any, expected: Any, tolerance: float) -> bool:
    """Is a decoded result the expected one (numbers within the tolerance, containers item by item)?"""
    if isinstance(expected, bool) or isinstance(given, bool):
        return given is expected
    if isinstance(expected, int | float):
        return isinstance(given, int | float) and close_enough(given, expected, tolerance)
    if isinstance(expected, list | tuple):
        right_length = isinstance(given, list | tuple) and len(given) == len(expected)
        return right_length and all(same(a, b, tolerance) for a, b in zip(given, expected, strict=True))
    if isinstance(expected, dict):
        right_keys = isinstance(given, dict) and given.keys() == expected.keys()
        return right_keys and all(same(given[key], expected[key], tolerance) for key in expected)
    return type(given) is type(expected) and given == expected


def close_enough(given: float, expected: float, tolerance: float) -> bool:
    """Are two results equal: exactly at tolerance 0, else relative (and near 0, absolute)?"""
    if isinstance(expected, int) and tolerance == 0:
        return given == expected
    if abs(given) > 1e300 or given != given:
        return False
    return close(given, expected, tolerance) or abs(given - expected) <= tolerance * 1e-6


def shape_trouble(value: Any, shape: Any, negative: bool) -> tuple[str, str] | None:
    """Return (slip, message) when a result is not of the same shape as `shape`, or None."""
    if isinstance(shape, bool):
        return None
    if isinstance(shape, int | float):
        return number_trouble(value, negative=negative, what="The result of your function")
    if isinstance(shape, tuple | list):
        return _pair_trouble(value, shape, negative)
    if isinstance(shape, dict) and not isinstance(value, dict):
        return "not a dict", f"Your function returns {article(value)}, and a dict is asked."
    return None


def _count(number: int) -> str:
    """A small count; a large one could be made to tell an input."""
    return str(number) if number <= 9 else "many more"


def _pair_trouble(value: Any, shape: Sequence, negative: bool) -> tuple[str, str] | None:
    if not isinstance(value, list | tuple):
        return (
            "not a pair",
            f"Your function returns {article(value)}, and {len(shape)} numbers are asked, in brackets.",
        )
    if len(value) != len(shape):
        return (
            "other length",
            f"Your function returns {_count(len(value))} numbers, and {len(shape)} are asked.",
        )
    for item, like in zip(value, shape, strict=True):
        trouble = shape_trouble(item, like, negative)
        if trouble:
            return trouble
    return None
