"""What a measured step held: by tensor class, by moment, at its peak, and beside the prediction."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from memory_budget.palette import TENSOR_CLASSES
from memory_budget.units import both_text, bytes_text

if TYPE_CHECKING:
    from memory_budget.budget import Budget

MOMENTS = ("after loading", "end of forward", "backward peak", "before step", "inside step", "after step")

TensorBytes = dict[str, int]


def total(held: TensorBytes) -> int:
    """Sum bytes over the classes."""
    return sum(held.values())


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One training step as it was counted (or, where `sampled`, looked at now and then), in bytes.

    `moments` are of the second step, where the optimizer's state exists from the start; "after loading" is
    before the first. `timeline` holds (label, bytes by class) in order, over both steps.
    """

    device: str
    sampled: bool = False
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
        """How far the predicted peak is from the measured one: positive when too much was predicted."""
        if self.predicted is None:
            return None
        return 100 * (self.predicted.peak_bytes - self.peak_bytes) / self.peak_bytes

    @property
    def differences_percent(self) -> dict[str, float]:
        """The same by class, at the measured peak's moment; a class held by neither is left out."""
        if self.predicted is None:
            return {}
        predicted = self.predicted.moments[self.peak_moment]
        return {
            name: 100 * (predicted.get(name, 0) - held) / held for name, held in self.bytes.items() if held
        }

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Lay out class, measured, predicted and difference, ready to show."""
        predicted = {} if self.predicted is None else self.predicted.moments[self.peak_moment]
        rows = []
        for name, entry in TENSOR_CLASSES.items():
            measured, expected = self.bytes.get(name, 0), predicted.get(name, 0)
            if measured or expected:
                rows.append((entry.label, *_cells(measured, expected if predicted else None)))
        rows.append(("all", *_cells(self.peak_bytes, self.predicted_peak_bytes)))
        return rows

    def _headline(self) -> str:
        kind = "sampled" if self.sampled else "counted"
        return f"One training step on {self.device}: {both_text(self.peak_bytes)} at the {self.peak_moment}, {kind}"

    def __str__(self) -> str:
        lines = [self._headline()]
        lines += [f"  {name:<16}{a:>10}{b:>12}{c:>9}".rstrip() for name, a, b, c in self._table()]
        return "\n".join([*lines, *self.notes])

    def _table(self) -> list[tuple[str, str, str, str]]:
        heads = ("", "measured", "predicted", "") if self.predicted is not None else ("", "measured", "", "")
        return [heads, *self.rows()]

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        cells = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
        body = "".join(
            f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
            + "".join(f'<td style="text-align:right">{escape(text)}</td>' for text in rest)
            + "</tr>"
            for name, *rest in rows
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return (
            f'<table role="table"><caption>{escape(self._headline())}</caption>'
            f"<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>{notes}"
        )


def _cells(measured: int, expected: int | None) -> tuple[str, str, str]:
    if expected is None:
        return bytes_text(measured), "", ""
    if not measured:
        return bytes_text(measured), bytes_text(expected), ""
    percent = 100 * (expected - measured) / measured
    return bytes_text(measured), bytes_text(expected), f"{percent:+.1f}%"
