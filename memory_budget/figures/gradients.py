"""How far apart are the gradients of one model's tensors?"""

import re
from collections.abc import Mapping
from typing import Any

from memory_budget.drawing import Picture, message
from memory_budget.drawing.axes import Scale, frame, log_scale, marker
from memory_budget.drawing.shapes import svg, text
from memory_budget.figures.ticks import finite, plain
from memory_budget.palette import TENSOR_CLASSES
from memory_budget.units import number_text

GRADIENT = TENSOR_CLASSES["gradients"].colour


def gradient_spread(sizes: Any) -> Picture:
    """Root mean square of each tensor's gradient on a log axis, one row a kind of tensor, one dot a layer."""
    if not isinstance(sizes, Mapping) or not sizes:
        return message("No picture yet: expected a dict of gradient sizes by tensor name.")
    wrong = [name for name, size in sizes.items() if not finite(size) or size < 0]
    if wrong:
        return message(
            f"No picture yet: the gradient size of {wrong[0]} must be a number of 0 or more, "
            f"not {sizes[wrong[0]]!r}."
        )
    shown = {str(name): float(size) for name, size in sizes.items() if size > 0}
    if not shown:
        return message("No picture yet: every gradient is 0.")
    rows = _kinds(shown)
    x = log_scale(list(shown.values()), 196, 610)
    bottom = 14 + 20 * len(rows)
    y = Scale(low=0, high=1, start=bottom, end=4)
    parts = [
        frame(
            x,
            y,
            x_name="size of the gradient (root mean square over the tensor)",
            x_text=plain,
            y_text=None,
        )
    ]
    for i, (kind, members) in enumerate(rows.items()):
        middle = 16 + 20 * i
        parts.append(text(188, middle + 5, kind, size=13.5, anchor="end"))
        parts += [marker("circle", x.at(shown[name]), middle, fill=GRADIENT, data=name) for name in members]
    low, high = min(shown, key=shown.__getitem__), max(shown, key=shown.__getitem__)
    times = shown[high] / shown[low]
    far = number_text(times, 2)
    title = f"One model, one backward pass: gradients differ by a factor of {far} between tensors"
    ends = f"from {shown[low]:.2g} ({low}) to {shown[high]:.2g} ({high})"
    words = f"Gradient size of {len(shown)} tensors: {ends}, a factor of {far}."
    table = [["tensor", "gradient size"], *([name, f"{size:.3g}"] for name, size in shown.items())]
    return Picture(
        svg=svg("".join(parts), height=bottom + 46, label=words), words=words, table=table, title=title
    )


def _kinds(sizes: Mapping[str, float], most: int = 30) -> dict[str, list[str]]:
    """Tensor names by kind, the layer's number left out; only the extremes where there are too many kinds."""
    kinds: dict[str, list[str]] = {}
    for name in sizes:
        kind = re.sub(r"(^|\.)(h|layers|layer|blocks?|block)?\.?\d+\.", r"\1", name)
        kinds.setdefault(kind if len(kind) <= 26 else "..." + kind[-23:], []).append(name)
    if len(kinds) > most:
        order = sorted(kinds, key=lambda kind: max(sizes[name] for name in kinds[kind]))
        keep = set(order[: most // 2] + order[-most // 2 :])
        kinds = {kind: members for kind, members in kinds.items() if kind in keep}
    return kinds
