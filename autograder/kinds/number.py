"""A single number with its unit: right within a tolerance, or a slip by the value it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autograder import verdict
from autograder.kinds.base import Question, close, number_trouble
from autograder.verdict import Verdict

#: bytes in one of each unit that an answer may turn out to be in
UNIT_BYTES = {
    "bytes": 1,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
UNIT_WORDS = {
    "bytes": "single bytes",
    "MB": "MB (10^6 bytes)",
    "GB": "GB (10^9 bytes)",
    "TB": "TB (10^12 bytes)",
    "MiB": "MiB (2^20 bytes)",
    "GiB": "GiB (2^30 bytes)",
    "TiB": "TiB (2^40 bytes)",
}

#: the power of ten in a unit, as a learner may write it with a caret, which is no power in Python
POWERS = {"MB": 6, "GB": 9, "TB": 12}
BILLIONS = (
    "in billions",
    "Your result is far too small, as if a model's size had been given in billions. Which count does a function "
    "of yours expect?",
)
CARET = (
    "caret",
    "Your result is far too large, as if it were not divided by the bytes in a unit. In Python a power is "
    "written with two stars; what does `^` do?",
)


def in_other_units(value: float, unit: str) -> dict[str, float]:
    """Return the same amount in every unit but its own: {"GiB": 13.04, ...}; empty when `unit` is no size."""
    if unit not in UNIT_BYTES:
        return {}
    size = value * UNIT_BYTES[unit]
    return {other: size / each for other, each in UNIT_BYTES.items() if other != unit}


def unit_message(other: str, unit: str) -> str:
    """Return the line for a right amount in another unit."""
    return f"The amount is right, but it looks like {UNIT_WORDS[other]}. What is it in {UNIT_WORDS[unit]}?"


@dataclass(frozen=True, kw_only=True)
class Number(Question):
    """A number in `unit`; `right` and every value of `also_right` count, within the relative `tolerance`.

    A slip is recognised within `slip_tolerance`, and of two that fit, the nearer. The right amount in another
    unit of size, and a slip given in bytes, are recognised without being listed.
    """

    right: float
    unit: str = "GB"
    also_right: tuple[float, ...] = ()
    tolerance: float = 1e-3
    slip_tolerance: float = 5e-3
    hint: str = (
        "Write the sum out, one term for each thing kept. Which term is too large, missing, or there twice?"
    )

    def decide_value(self, value: Any) -> Verdict:
        trouble = number_trouble(value)
        if trouble:
            return verdict.not_yet(trouble[1], slip=trouble[0])
        if any(close(value, right, self.tolerance) for right in (self.right, *self.also_right)):
            return verdict.right(self.praise)
        slip = self.recognise(float(value))
        return verdict.not_yet(slip[1], slip=slip[0]) if slip else verdict.not_yet(self.hint)

    def recognise(self, value: float) -> tuple[str, str] | None:
        """Return (slip, message) of the known value that `value` is nearest to, or None."""
        known = self.known_slips()
        fits = [entry for entry in known if close(value, entry[0], self.slip_tolerance)]
        if not fits:
            return self._slip_in_bytes(value) or self._caret(value) or self._in_billions(value)
        _, name, message = min(fits, key=lambda entry: abs(entry[0] - value))
        return name, message

    def known_slips(self) -> list[tuple[float, str, str]]:
        """Return (value, slip name, message) for each slip and for the right amount in each other unit."""
        listed = [(float(slip.value), slip.name, slip.message) for slip in self.slips]
        for right in (self.right, *self.also_right):
            for other, amount in in_other_units(right, self.unit).items():
                listed.append((amount, f"in {other}", unit_message(other, self.unit)))
        return listed

    def _slip_in_bytes(self, value: float) -> tuple[str, str] | None:
        if self.unit not in UNIT_BYTES or self.unit == "bytes":
            return None
        size = UNIT_BYTES[self.unit]
        for slip in self.slips:
            if close(value, slip.value * size, self.slip_tolerance):
                message = f"This looks like single bytes; the task asks for {self.unit}. And: {slip.message}"
                return f"{slip.name}, in bytes", message
        return None

    def _caret(self, value: float) -> tuple[str, str] | None:
        """Return (slip, message) where bytes were divided by `10^9`, which is 3, or None."""
        if self.unit not in POWERS:
            return None
        wrong = self.right * UNIT_BYTES[self.unit] / (10 ^ POWERS[self.unit])
        return CARET if close(value, wrong, self.slip_tolerance) else None

    def _in_billions(self, value: float) -> tuple[str, str] | None:
        """Return (slip, message) where a function of counts was given 7 for 7 billion, or None."""
        rights = (self.right, *self.also_right) if self.unit in UNIT_BYTES else ()
        return BILLIONS if any(close(value, right / 1e9, self.slip_tolerance) for right in rights) else None

    def right_answers(self) -> list[Any]:
        return [self.right, float(self.right), *self.also_right]

    def wrong_answers(self) -> list[tuple[str, Any]]:
        return [(name, value) for value, name, _ in self.known_slips()]

    def secrets(self) -> list[Any]:
        return [self.right, *self.also_right]
