"""What was held in memory along a step, and when was it most?"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from memory_budget.drawing import Picture, axis_top, message
from memory_budget.drawing.axes import Scale, frame
from memory_budget.drawing.shapes import WIDTH, hatching, number, svg, text, text_width
from memory_budget.drawing.stacked import class_legend
from memory_budget.figures.ticks import finite
from memory_budget.palette import CLASS_KEYS, TENSOR_CLASSES
from memory_budget.units import bytes_text


def timeline(measurement: Any) -> Picture:
    """What was held along the measured step, by class, with the peak marked and named."""
    points = getattr(measurement, "timeline", measurement)
    problem = _timeline_problem(points)
    if problem:
        return message(f"No picture yet: {problem}.")
    sums = [sum(held.values()) for _, held in points]
    peak = sums.index(max(sums))
    y_top = axis_top(max(sums), (1, 1.5, 2, 3, 5, 8, 10))
    x = Scale(low=0, high=len(points), start=70, end=625)
    y = Scale(low=0, high=y_top, start=300, end=44)
    parts = [_areas(points, x, y), _phases(points, x, y)]
    parts.append(frame(x, y, x_name="", y_name="memory", x_text=None, y_text=bytes_text))
    parts.append(_peak_mark(spoken(points[peak][0]), sums[peak], x.at(peak + 0.5), y))
    used = [key for key in CLASS_KEYS if any(held.get(key, 0) for _, held in points)]
    names, height = class_legend(used, 346, {})
    held = points[peak][1]
    when, height_text = spoken(points[peak][0]), bytes_text(sums[peak])
    title = f"The peak, {height_text}, comes at '{when}', which holds {_large_parts(held)}"
    words = f"Memory over {len(points)} moments. The peak of {height_text} at '{when}' holds " + ", ".join(
        f"{TENSOR_CLASSES[key].label} {bytes_text(held[key])}" for key in used if held.get(key, 0)
    )
    table = [["moment", *(TENSOR_CLASSES[key].label for key in used)]]
    table += [
        [spoken(label), *(bytes_text(held.get(key, 0)) for key in used)] for label, held in _few(points, peak)
    ]
    return Picture(
        svg=svg("".join(parts) + names, height=height, label=words + "."),
        words=words + ".",
        table=table,
        title=title,
    )


def spoken(label: str) -> str:
    """A moment's label as it is read: of a training step, the part that the optimizer takes is its step."""
    return re.sub(r"^step (\d+) step\b", r"optimizer step \1", str(label))


def _large_parts(held: Mapping[str, float], share: float = 0.05) -> str:
    """The classes that make up at least that share, in words."""
    total = sum(held.values())
    labels = [TENSOR_CLASSES[key].label for key in CLASS_KEYS if held.get(key, 0) >= share * total]
    return " and ".join([", ".join(labels[:-1]), labels[-1]] if len(labels) > 1 else labels)


def _timeline_problem(points: Any) -> str:
    if not isinstance(points, Sequence) or isinstance(points, str) or not points:
        return "expected a measurement with a timeline"
    for point in points:
        if not (isinstance(point, Sequence) and len(point) == 2 and isinstance(point[1], Mapping)):
            return "a timeline is a list of moments, each with its bytes by class"
        wrong = [k for k, size in point[1].items() if k not in TENSOR_CLASSES or not finite(size) or size < 0]
        if wrong:
            return f"{wrong[0]} at '{point[0]}' is not a tensor class with a number of bytes"
    return "" if any(sum(held.values()) for _, held in points) else "nothing was held at any moment"


def _areas(points: Sequence[tuple[str, Mapping[str, float]]], x: Scale, y: Scale) -> str:
    parts, floor = [], [0.0] * len(points)
    for key in CLASS_KEYS:
        roof = [low + held.get(key, 0) for low, (_, held) in zip(floor, points, strict=True)]
        if roof == floor:
            continue
        path = _steps(roof, x, y) + "L" + _steps(floor, x, y, backwards=True)[1:] + "Z"
        parts.append(f'<path data-class="{key}" d="{path}" fill="{TENSOR_CLASSES[key].colour}"/>')
        if TENSOR_CLASSES[key].hatch:
            top, bottom = y.at(min(roof)), y.at(max(floor))
            parts.append(hatching(x.start, top, x.end - x.start, max(0, bottom - top)))
        floor = roof
    return "".join(parts)


def _steps(values: Sequence[float], x: Scale, y: Scale, *, backwards: bool = False) -> str:
    """A stair through the values, one tread a moment; equal neighbours share a tread."""
    corners: list[tuple[float, float]] = []
    for i, value in enumerate(values):
        if corners and corners[-1][1] == y.at(value):
            corners[-1] = (x.at(i + 1), y.at(value))
        else:
            corners += [(x.at(i), y.at(value)), (x.at(i + 1), y.at(value))]
    return "M" + "L".join(
        f"{number(a)} {number(b)}" for a, b in (reversed(corners) if backwards else corners)
    )


def _phase(label: str) -> str:
    found = re.match(r"(step \d+ (?:forward|backward|optimizer|loading|step)|step \d+)", str(label))
    return found[1] if found else ""


def _spans(points: Sequence[tuple[str, Any]]) -> list[tuple[str, int, int]]:
    """Each phase with the moments from which and to which it lasts."""
    spans: list[tuple[str, int, int]] = []
    for i, (label, _) in enumerate(points):
        phase = _phase(label)
        if spans and spans[-1][0] == phase:
            spans[-1] = (phase, spans[-1][1], i + 1)
        else:
            spans.append((phase, i, i + 1))
    return spans


def _phases(points: Sequence[tuple[str, Any]], x: Scale, y: Scale) -> str:
    """The names of the phases under the axis: the long ones first, the short ones where there is room."""
    spans = sorted(_spans(points), key=lambda span: span[1] - span[2])
    parts, taken = [], []
    for phase, first, last in spans:
        number_of_step, _, name = phase.removeprefix("step ").partition(" ")
        words = f"{name} {number_of_step}" if name else phase
        half = text_width(words, 13) / 2
        middle = min(max(x.at((first + last) / 2), half), WIDTH - half)
        parts.append(f'<path d="M{number(x.at(first))} {number(y.start)}v6" stroke="currentColor"/>')
        if words and all(middle + half <= left or middle - half >= right for left, right in taken):
            taken.append((middle - half - 3, middle + half + 3))
            parts.append(text(middle, y.start + 20, words, size=13, anchor="middle"))
    return "".join(parts)


def _peak_mark(label: str, size: float, at: float, y: Scale) -> str:
    middle = min(max(at, 200), WIDTH - 170)
    path = f"M{number(at)} {number(y.at(size))}V{number(y.end - 8)}"
    line = f'<path d="{path}" stroke="currentColor" stroke-width="2"/>'
    return line + text(
        middle, y.end - 14, f"peak {bytes_text(size)}: {label}", anchor="middle", bold=True, halo=True
    )


def _few(points: Sequence[tuple[str, Any]], peak: int) -> list[tuple[str, Any]]:
    """The peak and the first moment of each phase: enough rows for a table."""
    firsts = [i for i, (label, _) in enumerate(points) if i == 0 or _phase(label) != _phase(points[i - 1][0])]
    return [points[i] for i in sorted({*firsts, peak})]
