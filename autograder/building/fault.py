"""What is wrong with a lesson, where, and whether it stops the build."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing wrong: the file, the cell (its id, "" for the whole), and one line that says what."""

    where: str
    cell: str = ""
    says: str
    stops: bool = True

    def __str__(self) -> str:
        place = f"{self.where}, cell {self.cell}" if self.cell else self.where
        return f"{place}: {'' if self.stops else 'warning: '}{self.says}"


class BuildStopped(Exception):
    """The build found faults that stop it; `faults` holds them all."""

    def __init__(self, faults: list[Fault]):
        self.faults = faults
        super().__init__("\n".join(str(fault) for fault in faults))
