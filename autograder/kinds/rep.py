"""A prediction in numbers and the deed itself: both are looked at, and half of the credit is for each."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autograder import verdict, wire
from autograder.kinds.table import Table
from autograder.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Rep(Table):
    """A Table of predictions, and what the learner's code did to objects of the notebook.

    `around` is source text with `look(names)` (see `wire.Look`), which reads what was done off the object
    called `looks_at` and what goes with it; `deed` returns (slip, message) for what it read, or None when it
    was done as asked. `scene` is Python text that makes, for the tests, the names that a right notebook holds.
    """

    looks_at: str
    around: str
    deed: Callable[[Any], tuple[str, str] | None]
    scene: str
    timeout_s: float = 30.0

    def requests(self, rng: random.Random) -> list[wire.Request]:
        look = wire.Look(name=self.looks_at, around=self.around, timeout_s=self.timeout_s)
        return [wire.Value(name=self.name), look]

    def decide(self, replies: list[dict], requests: list[wire.Request]) -> Verdict:
        numbers = super().decide(replies[:1], requests[:1])
        if numbers.status == verdict.UNANSWERED:
            return numbers
        trouble = self.deed(wire.decode(replies[1]["ok"]) if "ok" in replies[1] else None)
        if trouble is None and numbers.status == verdict.RIGHT:
            return numbers
        said = "right." if numbers.status == verdict.RIGHT else numbers.message
        rows = numbers.details or (f"The numbers: {said}",)
        details = (*rows, f"The step: {'as asked.' if trouble is None else trouble[1]}")
        share = (numbers.fraction + (trouble is None)) / 2
        slip = numbers.slip or (trouble[0] if trouble else None)
        return verdict.by_rows(share, "Your numbers and your step are both looked at.", details, slip)
