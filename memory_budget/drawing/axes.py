"""How are numbers placed between two axes, straight or logarithmic, with labels that do not collide?"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory_budget.drawing.shapes import number, text

MARKERS = ("circle", "square", "triangle", "diamond")
DASHES = ("", "7 3", "2 3", "9 3 2 3")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Maps values from `low` to `high` onto coordinates from `start` to `end`; a log scale needs low > 0."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The coordinate of a value, kept inside the axis."""
        value = min(max(value, self.low), self.high)
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        here = math.log(value) if self.log else value
        return self.start + (here - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """The decades of a log axis, or about five round numbers of a straight one."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return [10.0**power for power in range(first, last + 1)]
        step = _round_step((self.high - self.low) / 5)
        return [
            step * i
            for i in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        ]


def _round_step(rough: float) -> float:
    decade = 10.0 ** math.floor(math.log10(rough))
    return next(m * decade for m in (1, 2, 2.5, 5, 10) if m * decade >= rough * 0.999)


def log_scale(values: Sequence[float], start: float, end: float) -> Scale:
    """A log axis of whole decades around positive values."""
    low = 10.0 ** math.floor(math.log10(min(values)) + 1e-9)
    high = 10.0 ** math.ceil(math.log10(max(values)) - 1e-9)
    return Scale(low=low, high=max(high, 10 * low), start=start, end=end, log=True)


def frame(
    x: Scale,
    y: Scale,
    *,
    x_name: str,
    y_name: str = "",
    x_text: Callable[[float], str] | None,
    y_text: Callable[[float], str] | None,
) -> str:
    """The axes with faint grid lines, tick labels, and their names; an axis without text has no ticks."""
    grid = 'stroke="currentColor" stroke-opacity=".18"'
    parts = [x_axis_line(x, y.start), text((x.start + x.end) / 2, y.start + 38, x_name, anchor="middle")]
    for tick in x.ticks() if x_text else ():
        at = number(x.at(tick))
        parts.append(f'<path d="M{at} {number(y.end)}V{number(y.start)}" {grid}/>')
        parts.append(text(x.at(tick), y.start + 18, x_text(tick), size=13.5, anchor="middle"))
    for tick in y.ticks() if y_text else ():
        parts.append(f'<path d="M{number(x.start)} {number(y.at(tick))}H{number(x.end)}" {grid}/>')
        parts.append(text(x.start - 7, y.at(tick) + 5, y_text(tick), size=13.5, anchor="end"))
    if y_name:
        parts.append(text(4, y.end - 12, y_name))
    return "".join(parts)


def x_axis_line(x: Scale, at: float) -> str:
    return f'<path d="M{number(x.start)} {number(at)}H{number(x.end)}" stroke="currentColor"/>'


def curve(points: Sequence[tuple[float, float]], *, dash: str = "", width: float = 2) -> str:
    """A line through coordinates, in ink."""
    path = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    style = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{path}" fill="none" stroke="currentColor" stroke-width="{number(width)}"{style}/>'


def marker(
    kind: str, x: float, y: float, *, size: float = 5, fill: str = "currentColor", data: str = ""
) -> str:
    """A mark in one of MARKERS, or a cross; `data` names what it stands for, to read the drawing back."""
    tag = f' data-point="{data}"' if data else ""
    style = f'fill="{fill}" stroke="currentColor" stroke-width="1.5"{tag}'
    if kind == "circle":
        return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(size)}" {style}/>'
    if kind == "cross":
        wide = number(2 * size)
        arms = f"M{number(x - size)} {number(y - size)}l{wide} {wide}m0 -{wide}l-{wide} {wide}"
        return f'<path d="{arms}" fill="none" stroke="currentColor" stroke-width="2.5"{tag}/>'
    corners = {
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "triangle": ((0, -1.2), (1.15, 0.9), (-1.15, 0.9)),
        "diamond": ((0, -1.4), (1.2, 0), (0, 1.4), (-1.2, 0)),
    }[kind]
    path = "L".join(f"{number(x + size * dx)} {number(y + size * dy)}" for dx, dy in corners)
    return f'<path d="M{path}Z" {style}/>'


def arrow(x1: float, y1: float, x2: float, y2: float, *, width: float = 2, dash: str = "") -> str:
    """A line with a head at its second end; nothing but a line when both ends are one."""
    length = math.hypot(x2 - x1, y2 - y1)
    if length < 1:
        return ""
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    back, wing = min(8, length), min(4, length / 2)
    base = x2 - back * dx, y2 - back * dy
    head = "L".join(
        f"{number(px)} {number(py)}"
        for px, py in (
            (x2, y2),
            (base[0] - wing * dy, base[1] + wing * dx),
            (base[0] + wing * dy, base[1] - wing * dx),
        )
    )
    return curve([(x1, y1), base], width=width, dash=dash) + f'<path d="M{head}Z" fill="currentColor"/>'


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Heights as near as can be to the wanted ones, in their order, and at least `gap` apart."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [0.0] * len(wanted)
    last = -math.inf
    for i in order:
        placed[i] = last = max(wanted[i], last + gap)
    shift = sum(placed[i] - wanted[i] for i in order) / max(1, len(order))
    return [height - shift for height in placed]
