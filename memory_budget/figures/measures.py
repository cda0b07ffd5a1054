"""What does each measure against memory do to the cost of training, and what does an adapter do?"""

from collections.abc import Mapping
from typing import Any

from memory_budget import budget
from memory_budget.drawing import Picture
from memory_budget.drawing.axes import DASHES, Scale, arrow, curve, frame, marker, spread
from memory_budget.drawing.shapes import svg, text
from memory_budget.palette import TENSOR_CLASSES
from memory_budget.units import bytes_text, count_text, number_text

WEIGHT = TENSOR_CLASSES["weights"].colour
MEASURES: Mapping[str, Mapping[str, Any]] = {
    "AdamW": {},
    "SGD with momentum": {"optimizer": "momentum"},
    "8-bit AdamW": {"optimizer": "adamw-8bit"},
    "SGD": {"optimizer": "sgd"},
    "Adafactor": {"optimizer": "adafactor"},
    "pure bf16": {"recipe": "pure-bf16"},
    "ZeRO-3, each of 8 GPUs": {"zero": 3, "gpus": 8},
}


def measure_bytes(name: str, trainable: int) -> int:
    """Bytes that one measure of MEASURES takes to train that many parameters, without activations."""
    return budget.predict(budget.Setup(parameters=trainable, **MEASURES[name])).total_bytes


def measures(whole: int = 7 * 10**9, adapter: int = 4 * 10**6) -> Picture:
    """Memory against trainable parameters, log-log: a line a measure, and the adapter's step to the left."""
    counts = [10**power for power in range(6, 12)]
    x = Scale(low=counts[0], high=counts[-1], start=70, end=390, log=True)
    y = Scale(low=10.0**6, high=10.0**13, start=360, end=30, log=True)
    groups = _equal_measures(counts[0])
    parts = [
        frame(x, y, x_name="trainable parameters", y_name="memory", x_text=count_text, y_text=bytes_text)
    ]
    for i, names in enumerate(groups.values()):
        line = [(x.at(count), y.at(measure_bytes(names[0], count))) for count in counts]
        parts.append(curve(line, dash=DASHES[i % len(DASHES)], width=3 if i == 0 else 1.6))
    parts += [_line_names(groups, x, y, counts[-1]), _step_left(x, y, whole, adapter)]
    title = (
        "Every measure is a parallel line; "
        f"training {count_text(adapter)} instead of {count_text(whole)} is a step to the left"
    )
    words = _measures_words(groups, whole, adapter)
    rows = [[count_text(n), *(bytes_text(measure_bytes(name, n)) for name in MEASURES)] for n in counts]
    drawing = svg("".join(parts), height=405, label=words)
    return Picture(svg=drawing, words=words, table=[["trainable", *MEASURES], *rows], title=title)


def _line_names(groups: Mapping[float, list[str]], x: Scale, y: Scale, last: int) -> str:
    """The measures' names at the right, each line's leader going to the first of its names."""
    ends = [y.at(measure_bytes(name, last)) for names in groups.values() for name in names]
    heights = iter(spread(ends, 18))
    parts = []
    for each, names in groups.items():
        for i, name in enumerate(names):
            height, end = next(heights), y.at(measure_bytes(name, last))
            if i == 0:
                parts.append(curve([(x.end + 2, end), (x.end + 12, height), (x.end + 20, height)], width=1))
                parts.append(text(x.end + 68, height + 5, number_text(each), anchor="end", bold=True))
            parts.append(text(x.end + 76, height + 5, name, size=13))
    return "".join(parts) + text(x.end + 30, min(spread(ends, 18)) - 14, "bytes a parameter", size=13)


def _measures_words(groups: Mapping[float, list[str]], whole: int, adapter: int) -> str:
    each = "; ".join(f"{', '.join(names)} {number_text(size)}" for size, names in groups.items())
    name = next(iter(MEASURES))
    ends = [bytes_text(measure_bytes(name, count)) for count in (whole, adapter)]
    far = number_text(whole / adapter)
    return (
        "Memory against trainable parameters, both axes logarithmic, one straight line a measure, all of one "
        f"slope. Bytes a parameter: {each}. Gradient checkpointing leaves every line where it is. An adapter "
        f"stays on {name}'s line, {far} times further left: "
        f"{ends[0]} become {ends[1]}."
    )


def _equal_measures(count: int) -> dict[float, list[str]]:
    """Measures by bytes per parameter, largest first: those that cost the same share one line."""
    groups: dict[float, list[str]] = {}
    for name in MEASURES:
        each = round(measure_bytes(name, count * 10**3) / (count * 10**3), 2)
        groups.setdefault(each, []).append(name)
    return dict(sorted(groups.items(), reverse=True))


def _step_left(x: Scale, y: Scale, whole: int, adapter: int) -> str:
    name = next(iter(MEASURES))
    (x1, y1), (x2, y2) = ((x.at(count), y.at(measure_bytes(name, count))) for count in (whole, adapter))
    dots = marker("circle", x1, y1, size=6, fill=WEIGHT) + marker("diamond", x2, y2, size=6, fill=WEIGHT)
    labels = text(
        x1 - 10,
        y1 - 10,
        f"{count_text(whole)}: {bytes_text(measure_bytes(name, whole))}",
        anchor="end",
        halo=True,
    )
    labels += text(x.start + 4, y2 - 62, f"{count_text(adapter)} adapter:", halo=True)
    labels += text(x.start + 4, y2 - 44, bytes_text(measure_bytes(name, adapter)), halo=True)
    return arrow(x1 - 12, y1 - 2, x2 + 14, y2 - 12, width=1.5, dash="5 4") + dots + labels
