"""What a measured step held: by tensor class, by moment, at its peak, and beside the prediction."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from memory_budget.palette import STATE_KEYS, TENSOR_CLASSES
from memory_budget.units import MB, both_text, bytes_text

if TYPE_CHECKING:
    from memory_budget.budget import Budget

MOMENTS = ("after loading", "end of forward", "backward peak", "before step", "inside step", "after step")

WHEN = {
    "after loading": "after loading",
    "end of forward": "at the end of forward",
    "backward peak": "in backward",
    "before step": "before the step",
    "inside step": "inside the step",
    "after step": "after the step",
}

TensorBytes = dict[str, int]


def total(held: TensorBytes) -> int:
    """Sum bytes over the classes."""
    return sum(held.values())


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One training step as it was counted (or, where `sampled`, looked at now and then), in bytes.

    Not `computed` is a step that was walked through without a single value, as in a dry run.
    `moments` are of the second step, where the optimizer's state exists from the start; "after loading" is
    before the first. `timeline` holds (label, bytes by class) in order, over both steps.
    """

    device: str
    sampled: bool = False
    computed: bool = True
    moments: dict[str, TensorBytes]
    timeline: list[tuple[str, TensorBytes]] = field(repr=False)
    notes: tuple[str, ...] = ()
    predicted: Budget | None = field(default=None, repr=False)
    reserved_bytes: int | None = None
    first_step_peak_bytes: int = 0

    @property
    def peak_moment(self) -> str:
        """Name the moment that holds most."""
        return max(self.moments, key=lambda moment: total(self.moments[moment]))

    @property
    def bytes(self) -> TensorBytes:
        """Bytes by class at the peak."""
        return self.moments[self.peak_moment]

    @property
    def peak_bytes(self) -> int:
        """Most bytes held at once."""
        return total(self.bytes)

    @property
    def predicted_peak_bytes(self) -> int | None:
        """The prediction of the same peak, None where nothing was predicted."""
        return None if self.predicted is None else self.predicted.peak_bytes

    @property
    def difference_percent(self) -> float | None:
        """How far the predicted peak is from the measured one: positive when too much was predicted.

        None where the step was not predicted, or only its states were."""
        if self.predicted is None or not self.predicts_activations:
            return None
        return 100 * (self.predicted.peak_bytes - self.peak_bytes) / self.peak_bytes

    @property
    def predicts_activations(self) -> bool:
        """Whether the prediction has activations: it does for SmallGPT and SmallLlama."""
        return self.predicted is not None and self.predicted.setup.batch > 0

    @property
    def differences_percent(self) -> dict[str, float]:
        """The same by class, at the moment of the measured peak, for each class that is held then."""
        predicted = self._expected()
        return {
            name: 100 * (predicted[name] - held) / held
            for name, held in self.bytes.items()
            if held and name in predicted
        }

    def _expected(self) -> TensorBytes:
        """What was predicted for the peak's moment: by class, without classes that nothing was said of."""
        if self.predicted is None:
            return {}
        told = self.predicted.moments[self.peak_moment]
        return told if self.predicts_activations else {k: v for k, v in told.items() if k in STATE_KEYS}

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Lay out class, measured, predicted and difference, ready to show."""
        expected = self._expected()
        rows = [
            (entry.label, *_cells(self.bytes.get(name, 0), expected.get(name)))
            for name, entry in TENSOR_CLASSES.items()
            if self.bytes.get(name, 0) or expected.get(name)
        ]
        peak = self.predicted_peak_bytes if self.predicts_activations else None
        return [*rows, ("all", *_cells(self.peak_bytes, peak))]

    def _headline(self) -> str:
        kind = "sampled" if self.sampled else "counted"
        size = both_text(self.peak_bytes) if self.peak_bytes >= MB else bytes_text(self.peak_bytes)
        return f"A training step on {self.device}: {size} {WHEN[self.peak_moment]}, {kind}"

    def __str__(self) -> str:
        lines = [self._headline()]
        lines += [f"  {name:<16}{a:>10}{b:>12}{c:>13}".rstrip() for name, a, b, c in self._table()]
        return "\n".join([*lines, *self._notes()])

    def _notes(self) -> tuple[str, ...]:
        if self.reserved_bytes is None:
            return self.notes
        return (*self.notes, f"The allocator has reserved {both_text(self.reserved_bytes)}.")

    def _table(self) -> list[tuple[str, str, str, str]]:
        held = "measured" if self.computed else "counted"
        heads = ("", held, "predicted", "difference") if self.predicted is not None else ("", held, "", "")
        return [heads, *self.rows()]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        cells = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
        body = "".join(
            f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
            + "".join(f'<td style="text-align:right">{escape(text)}</td>' for text in rest)
            + "</tr>"
            for name, *rest in rows
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return (
            f'<table role="table"><caption>{escape(self._headline())}</caption>'
            f"<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>{notes}"
        )


def _cells(measured: int, expected: int | None) -> tuple[str, str, str]:
    if expected is None:
        return bytes_text(measured), "", ""
    if not measured:
        return bytes_text(measured), bytes_text(expected), ""
    percent = round(100 * (expected - measured) / measured, 1)
    return bytes_text(measured), bytes_text(expected), f"{percent:+.1f}%" if percent else "0.0%"
