"""What was decided about one answer, in words a learner reads and a fraction a gradebook stores."""

from __future__ import annotations

from dataclasses import dataclass

RIGHT, PARTLY, NOT_YET, UNANSWERED, BY_HAND = "right", "partly", "not yet", "unanswered", "by hand"
STATUSES = (RIGHT, PARTLY, NOT_YET, UNANSWERED, BY_HAND)
WORDS = {
    RIGHT: "Right",
    PARTLY: "Partly right",
    NOT_YET: "Not yet",
    UNANSWERED: "Not answered yet",
    BY_HAND: "Marked by hand",
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A status, the fraction of the points (0 to 1), one or two sentences, and the slip they answer."""

    status: str
    message: str
    fraction: float = 0.0
    slip: str | None = None
    details: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status is {self.status!r}; it must be one of {', '.join(STATUSES)}")
        if not 0.0 <= self.fraction <= 1.0:
            raise ValueError(f"fraction is {self.fraction}; it must be from 0 to 1")

    @property
    def word(self) -> str:
        """The word at the head of the card."""
        return WORDS[self.status]


def right(message: str, **more) -> Verdict:
    """Return the verdict for full marks."""
    return Verdict(status=RIGHT, fraction=1.0, message=message, **more)


def not_yet(message: str, slip: str | None = None, **more) -> Verdict:
    """Return the verdict for an answer that earns nothing so far."""
    return Verdict(status=NOT_YET, message=message, slip=slip, **more)


def unanswered(message: str = "Fill in the cell above and run it, then run this one again.") -> Verdict:
    """Return the verdict for a name that still holds what the notebook came with."""
    return Verdict(status=UNANSWERED, message=message)


def by_rows(fraction: float, message: str, details: tuple[str, ...], slip: str | None = None) -> Verdict:
    """Return the verdict for an answer in parts, `fraction` of them right."""
    status = RIGHT if fraction >= 1.0 else PARTLY if fraction > 0.0 else NOT_YET
    return Verdict(status=status, fraction=fraction, message=message, details=details, slip=slip)
