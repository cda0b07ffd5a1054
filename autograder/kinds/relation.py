"""An answer that is right by how its parts hang together, because each learner has their own numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autograder.kinds.base import Question
from autograder.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Relation(Question):
    """`rule(value)` judges a decoded value; `rights` and the slips' values are examples for the tests."""

    rule: Callable[[Any], Verdict]
    rights: tuple[Any, ...] = ()

    def decide_value(self, value: Any) -> Verdict:
        return self.rule(value)

    def right_answers(self) -> list[Any]:
        return list(self.rights)
