"""How are bytes by tensor class drawn as bars, with the memory of devices across them?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory_budget.drawing.shapes import WIDTH, block, number, svg, swatch, text, text_width, wrap
from memory_budget.palette import TENSOR_CLASSES
from memory_budget.units import bytes_text

LEFT = 104  # room for the rows' names
RIGHT = 86  # room for the totals
BAR = 40
BOLD = 1.12  # how much wider bold letters are
GAP = 1  # between pieces, so that two of the same brightness are still two


@dataclass(frozen=True, kw_only=True)
class Row:
    """One bar: its name, its pieces in bytes by tensor class, and the words at its right end."""

    name: str
    pieces: Mapping[str, float]
    total: str | None = None
    accents: tuple[str, ...] = ()  # classes with a strong edge: the ones to look at


@dataclass(frozen=True, kw_only=True)
class Line:
    """A device's memory drawn across the bars; a strong line is the one the words speak of."""

    bytes: float
    label: str
    strong: bool = False


def axis_top(largest: float, ladder: Iterable[float] = (1, 2.5, 5, 10)) -> float:
    """The end of the axis: a round number from a ladder, so that it stands still while a slider moves."""
    if not largest > 0:
        return 1.0
    ladder = tuple(ladder)
    decade = 10.0 ** math.floor(math.log10(largest))
    return next(step * decade for step in (*ladder, 10 * ladder[-1]) if step * decade >= largest)


def stacked_bars(
    rows: Sequence[Row],
    *,
    axis_bytes: float,
    label: str,
    lines: Sequence[Line] = (),
    legend: Sequence[str] | None = None,
    notes: Mapping[str, str] | None = None,
    unit: str = "memory",
    bar: float = BAR,
) -> str:
    """Horizontal bars by tensor class on one axis from 0 to `axis_bytes`, with device lines across them.

    A bar longer than the axis runs to its end and is marked with an arrow; its total still says the number.
    `legend` fixes which classes the legend names (so that it stands still while a slider moves); `notes` adds
    words to a class's entry, usually its bytes.
    """
    shown = tuple(legend) if legend is not None else _classes_of(rows)
    plot = WIDTH - LEFT - RIGHT
    top = _lines_height(lines, axis_bytes, plot) + 6
    step = bar * 1.4
    drawn = [_row(row, top + i * step, bar, axis_bytes, plot) for i, row in enumerate(rows)]
    bottom = top + len(rows) * step - bar * 0.2
    across = _device_lines(lines, axis_bytes, plot, top, bottom)
    axis = _axis(axis_bytes, plot, bottom, unit)
    legend_text, height = class_legend(shown, bottom + 40, notes or {})
    shapes, labels = ("".join(part) for part in zip(*drawn, strict=True))
    return svg(shapes + across + labels + axis + legend_text, height=height, label=label)


def _classes_of(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(key for key in TENSOR_CLASSES if any(row.pieces.get(key, 0) > 0 for row in rows))


def _row(row: Row, y: float, bar: float, axis: float, plot: float) -> tuple[str, str]:
    """A bar's shapes and its words, apart: device lines are drawn between them."""
    shapes, words, x, end = [], [], float(LEFT), LEFT + plot
    for key in TENSOR_CLASSES:
        amount = row.pieces.get(key, 0)
        if amount <= 0 or x >= end:
            continue
        width = min(amount / axis * plot, end - x)
        shapes.append(
            f'<g data-class="{key}" data-bytes="{number(amount)}">'
            + swatch(key, x, y, width - GAP if width > 4 else width, bar)
            + (_edge(x, y, width, bar) if key in row.accents else "")
            + "</g>"
        )
        words.append(_piece_words(key, amount, x, y, width, bar))
        x += width
    total = sum(row.pieces.values())
    words.append(_total(row.total or bytes_text(total), x, y + bar / 2, past=total > axis * 1.0001))
    words.append(block(wrap(row.name, LEFT - 10, 15), LEFT - 8, y + bar / 2, anchor="end"))
    return "".join(shapes), "".join(words)


def _edge(x: float, y: float, width: float, bar: float) -> str:
    return (
        f'<rect x="{number(x + 1.5)}" y="{number(y - 2)}" width="{number(max(width - 3, 1))}" '
        f'height="{number(bar + 4)}" fill="none" stroke="currentColor" stroke-width="3"/>'
    )


def _total(words: str, x: float, middle: float, past: bool) -> str:
    arrow = (
        f'<path d="M{number(x)} {number(middle - 14)}l10 14l-10 14z" fill="currentColor"/>' if past else ""
    )
    start = x + (14 if past else 6)
    return arrow + block(wrap(words, WIDTH - start, 15 * BOLD), start, middle, bold=True, halo=True)


def _piece_words(key: str, amount: float, x: float, y: float, width: float, bar: float) -> str:
    kind, size = TENSOR_CLASSES[key], 13.5
    room = max(1, int(bar // 16))
    name = wrap(kind.label, width - 8, size)
    if any(text_width(line, size) + 8 > width for line in name) or len(name) > room:
        name = []
    value = bytes_text(amount)
    fits = len(name) < room and text_width(value, size) + 6 <= width
    lines = [*name, value] if fits else name
    plate = _plate(x, y + bar / 2, width, lines, kind.colour, size) if lines else ""
    return plate + block(lines, x + width / 2, y + bar / 2, size=size, anchor="middle", fill=kind.text_colour)


def _plate(x: float, middle: float, width: float, words: Sequence[str], colour: str, size: float) -> str:
    """A plain patch behind words, so that neither hatching nor a device's line runs through the letters."""
    wide = min(width, max(text_width(line, size) for line in words) + 8)
    tall = 16 * len(words) + 2
    return (
        f'<rect x="{number(x + (width - wide) / 2)}" y="{number(middle - tall / 2)}" width="{number(wide)}" '
        f'height="{number(tall)}" fill="{colour}"/>'
    )


def _line_labels(lines: Sequence[Line], axis: float, plot: float) -> list[tuple[Line, float, int]]:
    """Device lines inside the axis with their label's row: 0 next to the bars, -1 when there is no room."""
    inside = [line for line in lines if line.bytes <= axis * 1.0001]
    placed: list[tuple[Line, float, int]] = []
    taken: list[tuple[float, float, int]] = []
    for line in sorted(inside, key=lambda one: (not one.strong, -one.bytes)):
        x = LEFT + line.bytes / axis * plot
        half = text_width(line.label, 14) / 2 + 4
        middle = min(max(x, half), WIDTH - half)
        free = [
            level
            for level in (0, 1)
            if all(
                level != other or middle + half <= left or middle - half >= right
                for left, right, other in taken
            )
        ]
        crowded = any(abs(x - there) < 20 for _, there, level in placed if level >= 0)
        row = -1 if not free or (free[0] == 1 and crowded) else free[0]
        if row >= 0:
            taken.append((middle - half, middle + half, row))
        placed.append((line, x, row))
    return placed


def _lines_height(lines: Sequence[Line], axis: float, plot: float) -> float:
    return 42 if lines else 4  # always room for two rows of labels: the bars never jump


def _device_lines(lines: Sequence[Line], axis: float, plot: float, top: float, bottom: float) -> str:
    parts = []
    for line, x, level in _line_labels(lines, axis, plot):
        start = top - 6 - max(level, 0) * 18
        stroke = 'stroke-width="2.5"' if line.strong else 'stroke-width="1" stroke-dasharray="2 3"'
        parts.append(
            f'<path d="M{number(x)} {number(start)}V{number(bottom)}" stroke="currentColor" {stroke}/>'
        )
        if level >= 0:
            half = text_width(line.label, 14) / 2 + 4
            middle = min(max(x, half), WIDTH - half)
            parts.append(text(middle, start - 3, line.label, anchor="middle", bold=line.strong))
    return "".join(parts)


def _axis(axis: float, plot: float, y: float, unit: str) -> str:
    parts = [f'<path d="M{LEFT} {number(y)}H{number(LEFT + plot)}" stroke="currentColor" stroke-width="1"/>']
    for share in (0, 0.5, 1):
        x = LEFT + share * plot
        words = "0" if share == 0 else bytes_text(axis * share)
        parts.append(f'<path d="M{number(x)} {number(y)}v5" stroke="currentColor"/>')
        parts.append(text(x, y + 19, words, size=13.5, anchor="middle"))
    parts.append(text(LEFT - 8, y + 19, unit, size=13.5, anchor="end"))
    return "".join(parts)


def class_legend(keys: Sequence[str], y: float, notes: Mapping[str, str]) -> tuple[str, float]:
    parts, x = [], 0.0
    for key in keys:
        words = f"{TENSOR_CLASSES[key].label} {notes[key]}" if key in notes else TENSOR_CLASSES[key].label
        wide = 19 + text_width(words, 13.5) + 12
        if x + wide - 12 > WIDTH and x > 0:
            x, y = 0.0, y + 22
        parts.append(swatch(key, x, y - 11, 14, 13) + text(x + 20, y, words))
        x += wide
    return "".join(parts), y + 10
