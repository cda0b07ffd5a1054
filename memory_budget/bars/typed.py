"""What picture do the numbers make that the learner typed, right or wrong?"""

import math
from collections.abc import Mapping
from typing import Any

from memory_budget.drawing import Line, Picture, Row, axis_top, stacked_bars
from memory_budget.palette import TENSOR_CLASSES
from memory_budget.units import number_text

KEYS = ("weights", "master_copy", "gradients", "first_moment", "second_moment")
EMPTY = "not filled in yet"
LARGEST = 1000  # bytes a parameter: beyond it the picture would show one piece and nothing else


def reading(value: Any) -> tuple[float, str]:
    """The bytes to draw for what was typed, and a remark about it; nothing typed is drawn as nothing."""
    if value is None or value is Ellipsis:
        return 0.0, EMPTY
    if isinstance(value, str) and value.strip() in ("", "-", "\N{EN DASH}", "\N{EM DASH}"):
        return 0.0, ""
    if isinstance(value, bool | str | bytes):
        return 0.0, f"{_short(value)} is not a number"
    try:
        size = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0, f"{_short(value)} is not a number"
    if not math.isfinite(size):
        return 0.0, f"{_short(value)} cannot be drawn"
    if size < 0:
        return 0.0, f"{number_text(size)} is less than nothing"
    if size > LARGEST:
        return 0.0, f"{number_text(size)} bytes is too much to draw for one parameter"
    return size, ""


def readings(typed: Any, name: str) -> tuple[dict[str, float], list[str]]:
    """The pieces of one bar and the remarks on them, one remark for each thing that could not be drawn."""
    if not isinstance(typed, Mapping):
        what = "not filled in yet" if typed is None else f"{_short(typed)} is not a dict"
        return {}, [f"{name}: {what}"]
    pieces, remarks, empty = {}, [], []
    for key in KEYS:
        pieces[key], remark = reading(typed.get(key))
        if remark == EMPTY:
            empty.append(key)
        elif remark:
            remarks.append(f"{name}, {key}: {remark}")
    if empty:
        remarks.insert(
            0, f"{name}: {'nothing' if len(empty) == len(KEYS) else ', '.join(empty) + ' not'} filled in yet"
        )
    strange = [key for key in typed if key not in KEYS]
    if strange:
        remarks.append(f"{name}: no row is called {_short(strange[0])}; the rows are {', '.join(KEYS)}")
    return pieces, remarks


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # a learner's own class may raise anything here
        text = f"a {type(value).__name__}"
    return text if len(text) <= 24 else text[:23] + "\N{HORIZONTAL ELLIPSIS}"


def sixteen_bytes(fp32: Any, mixed: Any) -> Picture:
    """Two bars, bytes of one trainable parameter in fp32 and in mixed precision, from what was typed."""
    left, remarks = readings(fp32, "fp32")
    right, more = readings(mixed, "mixed")
    remarks += more
    sums = sum(left.values()), sum(right.values())
    rows = [
        Row(name="fp32", pieces=left, total=f"{number_text(sums[0])} bytes"),
        Row(
            name="mixed precision",
            pieces=right,
            total=f"{number_text(sums[1])} bytes",
            accents=_changed(left, right),
        ),
    ]
    words = _sentence(sums, left, right) + "".join(f" {remark}." for remark in remarks)
    lines = [Line(bytes=sums[0], label=f"{number_text(sums[0])} bytes", strong=True)] if sums[0] else []
    svg = stacked_bars(
        rows,
        axis_bytes=axis_top(max(*sums, 16), (1, 2, 4, 10)),
        label=words,
        lines=lines,
        legend=KEYS,
        unit="a parameter",
        bar=52,
    )
    return Picture(svg=svg, words=words, table=_table(left, right, sums))


def _changed(left: Mapping[str, float], right: Mapping[str, float]) -> tuple[str, ...]:
    """Classes to accent in the second bar: those that changed and are still there."""
    return tuple(key for key in KEYS if right.get(key, 0) > 0 and right.get(key, 0) != left.get(key, 0))


def _sentence(sums: tuple[float, float], left: Mapping[str, float], right: Mapping[str, float]) -> str:
    fp32, mixed = (number_text(value) for value in sums)
    if not any(sums):
        return "No bars yet: they grow with what you type."
    if not all(sums):
        return f"So far: fp32 {fp32} bytes, mixed precision {mixed} bytes."
    down = [TENSOR_CLASSES[key].label for key in KEYS if 0 < right.get(key, 0) < left.get(key, 0)]
    new = [TENSOR_CLASSES[key].label for key in KEYS if right.get(key, 0) > left.get(key, 0)]
    same = (
        f"Both bars reach {fp32} bytes"
        if sums[0] == sums[1]
        else f"fp32 {fp32} bytes, mixed precision {mixed}"
    )
    changes = [f"smaller: {', '.join(down)}" if down else "", f"larger: {', '.join(new)}" if new else ""]
    outlined = "; ".join(change for change in changes if change)
    return f"{same}" + (f" (outlined, {outlined})." if outlined else ".")


def _table(
    left: Mapping[str, float], right: Mapping[str, float], sums: tuple[float, float]
) -> list[list[str]]:
    body = [
        [TENSOR_CLASSES[key].label, number_text(left.get(key, 0)), number_text(right.get(key, 0))]
        for key in KEYS
    ]
    return [["bytes", "fp32", "mixed"], *body, ["total", number_text(sums[0]), number_text(sums[1])]]
