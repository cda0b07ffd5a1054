"""A dict of numbers with credit for each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autograder import verdict
from autograder.kinds.base import Question, article, close, is_blank, key_trouble, misspelt, number_trouble
from autograder.kinds.number import in_other_units, unit_message
from autograder.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Table(Question):
    """`rows` is {key: right number} in `unit`. A slip's value is (key, number); the key "*" is any row.

    Where a row's right number is 0, the texts "-" and "none" count as 0.
    """

    rows: dict[str, float]
    unit: str = "bytes"
    tolerance: float = 1e-3
    hint: str = "How many bytes does one number of this row's format take, and is it kept at all?"

    def decide_value(self, value: Any) -> Verdict:
        if not isinstance(value, dict):
            message = f"The answer is {article(value)}, and a dict with one number a row is asked."
            return verdict.not_yet(message, slip="not a dict")
        trouble = key_trouble(value, tuple(self.rows))
        if not trouble and all(is_blank(item) for item in value.values()):
            return verdict.unanswered()
        return self._by_rows(value, trouble)

    def _by_rows(self, value: dict, trouble: tuple[str, str] | None) -> Verdict:
        rows = {key: self._row(key, value.get(key)) for key in self.rows}
        good = sum(1 for row in rows.values() if row[0])
        if good == len(rows) and not trouble:
            return verdict.right(self.praise)
        slip = next((row[2] for row in rows.values() if row[2]), None)
        details = tuple(f"{key}: {row[1]}" for key, row in rows.items())
        if trouble:
            return misspelt(trouble, good / len(rows), details)
        return verdict.by_rows(good / len(rows), f"{good} of {len(rows)} rows are right.", details, slip)

    def _row(self, key: str, given: Any) -> tuple[bool, str, str | None]:
        right = self.rows[key]
        if is_blank(given):
            return False, "not answered yet.", None
        if right == 0 and isinstance(given, str) and given.strip().lower() in ("-", "--", "none"):
            return True, "right.", None
        trouble = number_trouble(given, what="this row")
        if trouble:
            return False, trouble[1], trouble[0]
        if given == 0 if right == 0 else close(given, right, self.tolerance):
            return True, "right.", None
        return False, *self._slip(key, float(given))

    def _slip(self, key: str, given: float) -> tuple[str, str | None]:
        for slip in self.slips:
            row, amount = slip.value
            if row in (key, "*") and close(given, amount, self.tolerance):
                return slip.message, slip.name
        if self.unit != "bytes":
            for other, amount in in_other_units(self.rows[key], self.unit).items():
                if self.rows[key] and close(given, amount, 5e-3):
                    return unit_message(other, self.unit), f"in {other}"
        return self.hint, None

    def right_answers(self) -> list[Any]:
        floats = {key: float(amount) for key, amount in self.rows.items()}
        backwards = dict(reversed(self.rows.items()))
        return [dict(self.rows), floats, backwards]

    def wrong_answers(self) -> list[tuple[str, Any]]:
        made = [(slip.name, self._with(slip.value)) for slip in self.slips]
        if self.unit == "bytes":
            return made
        first = next(iter(self.rows))
        others = in_other_units(self.rows[first], self.unit)
        return made + [(f"in {other}", {**self.rows, first: amount}) for other, amount in others.items()]

    def _with(self, pair: tuple[str, float]) -> dict[str, float]:
        key, amount = pair
        return {**self.rows, (next(iter(self.rows)) if key == "*" else key): amount}
