"""What do the numbers of a lesson look like when they stand still? Each title states what the data say."""

import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memory_budget import budget
from memory_budget.drawing import Picture, axis_top, message
from memory_budget.drawing.axes import (
    DASHES,
    MARKERS,
    Scale,
    arrow,
    curve,
    frame,
    log_scale,
    marker,
    spread,
)
from memory_budget.drawing.shapes import WIDTH, hatching, number, svg, swatch, text
from memory_budget.drawing.stacked import class_legend
from memory_budget.optimizers import OPTIMIZERS
from memory_budget.palette import CLASS_KEYS, TENSOR_CLASSES
from memory_budget.units import bytes_text, count_text, number_text

__all__ = ["before_and_after", "gradient_spread", "loss_against_learning_rate", "measures", "timeline"]

GRADIENT = TENSOR_CLASSES["gradients"].colour
WEIGHT = TENSOR_CLASSES["weights"].colour


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# ---------------------------------------------------------------- memory against trainable parameters

MEASURES: Mapping[str, Mapping[str, Any]] = {
    "AdamW, checkpointing or not": {},
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
    """Memory against trainable parameters, log-log: one line a measure, and the adapter's step to the left."""
    counts = [10**power for power in range(6, 12)]
    x = Scale(low=counts[0], high=counts[-1], start=70, end=400, log=True)
    y = Scale(low=10.0**6, high=10.0**13, start=360, end=30, log=True)
    groups = _equal_measures(counts[0])
    ends = [y.at(measure_bytes(names[0], counts[-1])) for names in groups.values()]
    parts = [
        frame(x, y, x_name="trainable parameters", y_name="memory", x_text=count_text, y_text=bytes_text)
    ]
    for i, ((each, names), end, label) in enumerate(zip(groups.items(), ends, spread(ends, 17), strict=True)):
        line = [(x.at(count), y.at(measure_bytes(names[0], count))) for count in counts]
        parts.append(curve(line, dash=DASHES[i % len(DASHES)], width=3 if i == 0 else 1.6))
        parts.append(curve([(402, end), (412, label), (418, label)], width=1))
        parts.append(text(422, label + 5, f"{number_text(each)}: {names[0]}"))
        parts += [text(448, label + 5 + 17 * (1 + j), name) for j, name in enumerate(names[1:])]
    parts.append(_step_left(x, y, whole, adapter))
    far = number_text(whole / adapter)
    title = f"Every measure is a parallel line; training {count_text(adapter)} of {count_text(whole)} is a step to the left"
    each = "; ".join(f"{' and '.join(names)}: {number_text(size)} bytes" for size, names in groups.items())
    words = (
        f"Memory against trainable parameters, both logarithmic. Bytes per trainable parameter: {each}. All lines have "
        f"the same slope. The adapter stays on AdamW's line, {far} times further left: "
        f"{bytes_text(measure_bytes(next(iter(MEASURES)), whole))} become "
        f"{bytes_text(measure_bytes(next(iter(MEASURES)), adapter))}."
    )
    table = [["trainable", *MEASURES]] + [
        [count_text(count), *(bytes_text(measure_bytes(name, count)) for name in MEASURES)]
        for count in counts
    ]
    return Picture(svg=svg("".join(parts), height=405, label=words), words=words, table=table, title=title)


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
    labels += text(x2 + 2, y2 - 32, f"{count_text(adapter)} adapter:", halo=True, anchor="middle")
    labels += text(x2 + 2, y2 - 15, bytes_text(measure_bytes(name, adapter)), halo=True, anchor="middle")
    return arrow(x1 - 12, y1 - 2, x2 + 14, y2 - 12, width=1.5, dash="5 4") + dots + labels


# ---------------------------------------------------------------- gradient sizes


def gradient_spread(norms: Any) -> Picture:
    """Size of the gradient of each tensor on a log axis, one row a kind of tensor, one dot a layer."""
    if not isinstance(norms, Mapping) or not norms:
        return message("No picture yet: expected a dict of gradient sizes by tensor name.")
    wrong = [name for name, size in norms.items() if not _finite(size) or size < 0]
    if wrong:
        return message(
            f"No picture yet: the gradient size of {wrong[0]} is {norms[wrong[0]]!r}, not a number of 0 or more."
        )
    shown = {str(name): float(size) for name, size in norms.items() if size > 0}
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
            x_text=_plain,
            y_text=lambda _: "",
        )
    ]
    for i, (kind, members) in enumerate(rows.items()):
        middle = 16 + 20 * i
        parts.append(text(188, middle + 5, kind, size=13.5, anchor="end"))
        parts += [marker("circle", x.at(shown[name]), middle, fill=GRADIENT, data=name) for name in members]
    low, high = min(shown, key=shown.__getitem__), max(shown, key=shown.__getitem__)
    times = shown[high] / shown[low]
    title = f"One model, one backward pass: gradients differ by a factor of {number_text(times, 2)} between tensors"
    words = (
        f"Gradient size of {len(shown)} tensors: from {shown[low]:.2g} ({low}) to {shown[high]:.2g} ({high}), a factor of "
        f"{number_text(times, 2)}."
    )
    table = [["tensor", "gradient size"], *([name, f"{size:.3g}"] for name, size in shown.items())]
    return Picture(
        svg=svg("".join(parts), height=bottom + 46, label=words), words=words, table=table, title=title
    )


def _kinds(norms: Mapping[str, float], most: int = 30) -> dict[str, list[str]]:
    """Tensor names by kind, the layer's number left out; only the extremes where there are too many kinds."""
    kinds: dict[str, list[str]] = {}
    for name in norms:
        kind = re.sub(r"(^|\.)(h|layers|layer|blocks?|block)?\.?\d+\.", r"\1", name)
        kinds.setdefault(kind if len(kind) <= 26 else "..." + kind[-23:], []).append(name)
    if len(kinds) > most:
        order = sorted(kinds, key=lambda kind: max(norms[name] for name in kinds[kind]))
        keep = set(order[: most // 2] + order[-most // 2 :])
        kinds = {kind: members for kind, members in kinds.items() if kind in keep}
    return kinds


def _plain(value: float) -> str:
    return number_text(value) if value >= 0.001 else f"{value:.0e}".replace("e-0", "e-")


# ---------------------------------------------------------------- loss against learning rate


def loss_against_learning_rate(sweep: Any) -> Picture:
    """Loss after training against the learning rate, one curve an optimizer; blown-up runs sit at the top."""
    problem = _sweep_problem(sweep)
    if problem:
        return message(f"No picture yet: {problem}.")
    runs = {
        str(name): sorted((float(rate), float(loss)) for rate, loss in points)
        for name, points in sweep.items()
    }
    best = {name: min(points, key=_loss_or_inf) for name, points in runs.items()}
    lowest = min(loss for _, loss in best.values())
    top = lowest * 2
    x = log_scale([rate for points in runs.values() for rate, _ in points], 52, 400)
    y = Scale(low=lowest * 0.9, high=top, start=300, end=34)
    parts = [frame(x, y, x_name="learning rate", y_name="loss", x_text=_plain, y_text=number_text)]
    for i, (name, points) in enumerate(runs.items()):
        parts.append(_run(x, y, points, i))
        parts.append(_run_label(_optimizer_label(name), points, best[name], i, 60 + 72 * i))
    widest = max(runs, key=lambda name: good_range(runs[name]))
    title = f"{_optimizer_label(widest)} trains well over the widest range of learning rates"
    words = " ".join(_run_words(_optimizer_label(name), points, best[name]) for name, points in runs.items())
    table = [["optimizer", "learning rate", "loss"]]
    table += [
        [_optimizer_label(n), _plain(rate), _loss_text(loss)]
        for n, points in runs.items()
        for rate, loss in points
    ]
    return Picture(svg=svg("".join(parts), height=346, label=words), words=words, table=table, title=title)


def _sweep_problem(sweep: Any) -> str:
    if not isinstance(sweep, Mapping) or not sweep:
        return "expected a dict of optimizer to pairs of learning rate and loss"
    for name, points in sweep.items():
        if isinstance(points, str) or not isinstance(points, Iterable):
            return f"{name} must have pairs of learning rate and loss, not {points!r}"
        pairs = list(points)
        good = [p for p in pairs if isinstance(p, Sequence) and len(p) == 2 and _finite(p[0]) and p[0] > 0]
        if len(good) != len(pairs) or not any(_finite(loss) and loss > 0 for _, loss in good):
            return f"{name} needs pairs of a learning rate above 0 and a loss"
    return ""


def _loss_or_inf(point: tuple[float, float]) -> float:
    return point[1] if math.isfinite(point[1]) else math.inf


def good_range(points: Sequence[tuple[float, float]], within: float = 1.2) -> float:
    """How many times the largest learning rate is the smallest, of the run of good ones around the best."""
    losses = [_loss_or_inf(point) for point in points]
    at = losses.index(min(losses))
    first = last = at
    while first > 0 and losses[first - 1] <= within * losses[at]:
        first -= 1
    while last + 1 < len(losses) and losses[last + 1] <= within * losses[at]:
        last += 1
    return points[last][0] / points[first][0]


def _run(x: Scale, y: Scale, points: Sequence[tuple[float, float]], i: int) -> str:
    placed = [
        (x.at(rate), y.at(min(loss, y.high)) if math.isfinite(loss) else y.end) for rate, loss in points
    ]
    marks = [
        marker(MARKERS[i % 4] if loss <= y.high else "up", *where, data=f"{number(rate)} {_loss_text(loss)}")
        for (rate, loss), where in zip(points, placed, strict=True)
    ]
    return curve(placed, dash=DASHES[i % 4]) + "".join(marks)


def _run_label(
    label: str, points: Sequence[tuple[float, float]], best: tuple[float, float], i: int, y: float
) -> str:
    sample = curve([(418, y - 5), (446, y - 5)], dash=DASHES[i % 4]) + marker(MARKERS[i % 4], 432, y - 5)
    lines = [
        f"best {best[1]:.2f} at {_plain(best[0])}",
        f"good over {number_text(good_range(points), 2)} times",
    ]
    rest = "".join(text(454, y + 18 * (j + 1), line, size=13.5) for j, line in enumerate(lines))
    return sample + text(454, y, label, bold=True) + rest


def _run_words(label: str, points: Sequence[tuple[float, float]], best: tuple[float, float]) -> str:
    blown = [rate for rate, loss in points if not loss <= 2 * best[1]]
    over = f"; more than twice that from {_plain(min(blown))} up" if blown and min(blown) > best[0] else ""
    wide = number_text(good_range(points), 2)
    return f"{label}: lowest loss {best[1]:.2f} at {_plain(best[0])}, within 20% of it over rates {wide} times apart{over}."


def _loss_text(loss: float) -> str:
    return f"{loss:.2f}" if math.isfinite(loss) else "blown up"


def _optimizer_label(name: str) -> str:
    return OPTIMIZERS[name].label if name in OPTIMIZERS else name


# ---------------------------------------------------------------- memory along a step


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
    parts.append(frame(x, y, x_name="", y_name="memory", x_text=lambda _: "", y_text=bytes_text))
    parts.append(_peak_mark(points[peak][0], sums[peak], x.at(peak + 0.5), y))
    used = [key for key in CLASS_KEYS if any(held.get(key, 0) for _, held in points)]
    names, height = class_legend(used, 346, {})
    held = points[peak][1]
    most = max(used, key=lambda key: held.get(key, 0))
    title = f"The peak, {bytes_text(sums[peak])}, comes at '{points[peak][0]}'; most of it is {TENSOR_CLASSES[most].label}"
    words = (
        f"Memory over {len(points)} moments. The peak of {bytes_text(sums[peak])} at '{points[peak][0]}' holds "
        + ", ".join(
            f"{TENSOR_CLASSES[key].label} {bytes_text(held[key])}" for key in used if held.get(key, 0)
        )
    )
    table = [["moment", *(TENSOR_CLASSES[key].label for key in used)]]
    table += [[label, *(bytes_text(held.get(key, 0)) for key in used)] for label, held in _few(points, peak)]
    return Picture(
        svg=svg("".join(parts) + names, height=height, label=words + "."),
        words=words + ".",
        table=table,
        title=title,
    )


def _timeline_problem(points: Any) -> str:
    if not isinstance(points, Sequence) or isinstance(points, str) or not points:
        return "expected a measurement with a timeline"
    for point in points:
        if not (isinstance(point, Sequence) and len(point) == 2 and isinstance(point[1], Mapping)):
            return "a timeline is a list of moments, each with its bytes by class"
        wrong = [
            k for k, size in point[1].items() if k not in TENSOR_CLASSES or not _finite(size) or size < 0
        ]
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


def _phases(points: Sequence[tuple[str, Any]], x: Scale, y: Scale) -> str:
    """The names of the step's phases under the axis, where each begins."""
    parts, last, right = [], None, 0.0
    for i, (label, _) in enumerate(points):
        phase = _phase(label)
        if phase == last:
            continue
        last, at = phase, x.at(i)
        parts.append(f'<path d="M{number(at)} {number(y.start)}v8" stroke="currentColor"/>')
        words = phase.split(" ", 2)[-1] if phase.count(" ") == 2 else phase
        if at >= right and words:
            parts.append(text(at + 2, y.start + 20, words, size=13))
            right = at + 8.0 * len(words) + 6
    return "".join(parts)


def _peak_mark(label: str, size: float, at: float, y: Scale) -> str:
    middle = min(max(at, 200), WIDTH - 170)
    line = f'<path d="M{number(at)} {number(y.at(size))}V{number(y.end - 8)}" stroke="currentColor" stroke-width="2"/>'
    return line + text(
        middle, y.end - 14, f"peak {bytes_text(size)}: {label}", anchor="middle", bold=True, halo=True
    )


def _few(points: Sequence[tuple[str, Any]], peak: int) -> list[tuple[str, Any]]:
    """The peak and the first moment of each phase: enough rows for a table."""
    firsts = [i for i, (label, _) in enumerate(points) if i == 0 or _phase(label) != _phase(points[i - 1][0])]
    return [points[i] for i in sorted({*firsts, peak})]


# ---------------------------------------------------------------- before and after one step


def before_and_after(before: Any, after: Any, frozen: Iterable[str] = ()) -> Picture:
    """Every parameter before and after one step; those of the tensors named in `frozen` stand apart.

    `before` and `after` are dicts of tensor name to values: torch tensors, arrays or lists.
    """
    try:
        pairs = _parameter_pairs(before, after)
        kept = set(frozen or ())
    except (ValueError, TypeError) as problem:
        return message(f"No picture yet: {problem}.")
    unknown = sorted(kept - {name for name, _, _, _ in pairs})
    if unknown:
        return message(
            f"No picture yet: no tensor is called {unknown[0]!r}; there are {', '.join(_names(pairs))}."
        )
    title = _moved_title(pairs, kept)
    shown = _at_most(pairs, 48)
    words = title + ". " + " ".join(_tensor_words(pairs, name, name in kept) for name in _names(pairs))
    if len(shown) < len(pairs):
        words += f" Drawn: {len(shown)} of {len(pairs)} parameters, the first of each tensor."
    table = [["parameter", "before", "after", ""]]
    table += [[f"{n}{i}", f"{a:.6g}", f"{b:.6g}", _moved_word(a, b, n in kept)] for n, i, a, b in shown]
    return Picture(svg=_dumbbells(shown, kept, words), words=words, table=table, title=title)


def same_bits(a: float, b: float) -> bool:
    """Whether two numbers are the same to the last bit: 0.0 and -0.0 differ, a NaN equals itself."""
    return struct.pack("d", a) == struct.pack("d", b)


def _values(tensor: Any) -> list[tuple[str, float]]:
    """The numbers of a tensor with their places, such as [0, 1]; a single number has no place."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
    nested = tensor.tolist() if hasattr(tensor, "tolist") else tensor

    def walk(part: Any, place: tuple[int, ...]) -> Iterable[tuple[str, float]]:
        if isinstance(part, list | tuple):
            for i, each in enumerate(part):
                yield from walk(each, (*place, i))
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield (f"[{', '.join(map(str, place))}]" if place else ""), float(part)
        else:
            raise ValueError(f"a parameter must be a number, not {part!r}")

    return list(walk(nested, ()))


def _parameter_pairs(before: Any, after: Any) -> list[tuple[str, str, float, float]]:
    if not isinstance(before, Mapping) or not isinstance(after, Mapping) or not before:
        raise ValueError("expected two dicts of tensor name to values, before and after the step")
    if set(before) != set(after):
        odd = sorted(set(before) ^ set(after), key=str)[0]
        raise ValueError(f"{odd!r} is in only one of the two")
    pairs = []
    for name in before:
        old, new = _values(before[name]), _values(after[name])
        if [place for place, _ in old] != [place for place, _ in new]:
            raise ValueError(f"{name} has another shape after the step")
        pairs += [(str(name), place, a, b) for (place, a), (_, b) in zip(old, new, strict=True)]
    if not pairs:
        raise ValueError("there are no parameters")
    if not all(math.isfinite(a) and math.isfinite(b) for _, _, a, b in pairs):
        raise ValueError("a parameter is not a finite number")
    return pairs


def _names(pairs: Sequence[tuple[str, str, float, float]]) -> list[str]:
    return list(dict.fromkeys(name for name, _, _, _ in pairs))


def _moved_title(pairs: Sequence[tuple[str, str, float, float]], frozen: set[str]) -> str:
    moved = [name in frozen for name, _, a, b in pairs if not same_bits(a, b)]
    still = sum(name in frozen for name, _, _, _ in pairs)
    if any(moved):
        return f"{sum(moved)} of {still} frozen parameters moved: they were not frozen"
    title = f"{len(moved)} of {len(pairs)} parameters moved"
    return f"{title}; the {still} frozen ones are what they were, to the last bit" if still else title


def _tensor_words(pairs: Sequence[tuple[str, str, float, float]], name: str, frozen: bool) -> str:
    moves = [abs(b - a) for tensor, _, a, b in pairs if tensor == name]
    count = sum(move > 0 for move in moves)
    kind = "frozen" if frozen else "trainable"
    far = f"by up to {max(moves):.3g}" if count else "not at all"
    return f"{name} ({kind}): {count} of {len(moves)} moved, {far}."


def _moved_word(a: float, b: float, frozen: bool) -> str:
    moved = "same bits" if same_bits(a, b) else f"moved {b - a:+.3g}"
    return f"frozen, {moved}" if frozen else moved


def _at_most(
    pairs: Sequence[tuple[str, str, float, float]], most: int
) -> list[tuple[str, str, float, float]]:
    names = _names(pairs)
    each = max(1, most // len(names)) if len(pairs) > most else len(pairs)
    return [pair for name in names[:most] for pair in [p for p in pairs if p[0] == name][:each]]


def _dumbbells(pairs: Sequence[tuple[str, str, float, float]], frozen: set[str], words: str) -> str:
    values = [value for _, _, a, b in pairs for value in (a, b)]
    room = (max(values) - min(values) or 1) * 0.05
    bottom = 26 + 18 * len(pairs) + 10 * (len(_names(pairs)) - 1)
    x = Scale(low=min(values) - room, high=max(values) + room, start=176, end=560)
    y = Scale(low=0, high=1, start=bottom, end=20)
    parts = [frame(x, y, x_name="value of the parameter", x_text=number_text, y_text=lambda _: "")]
    top, last = 34.0, pairs[0][0]
    for name, place, a, b in pairs:
        top += 10 if name != last else 0
        last = name
        parts.append(text(168, top + 5, f"{name}{place}", size=13, anchor="end"))
        parts.append(_dumbbell(x, top, a, b, name in frozen, f"{name}{place}"))
        top += 18
    key = text(0, 12, "circle: before", size=13.5) + text(110, 12, "arrow and disc: after", size=13.5)
    key += swatch("frozen_weights", 290, 1, 13, 13) + text(308, 12, "hatched square: frozen", size=13.5)
    return svg(key + "".join(parts), height=bottom + 46, label=words)


def _dumbbell(x: Scale, y: float, a: float, b: float, frozen: bool, data: str) -> str:
    if frozen:
        mark = swatch("frozen_weights", x.at(a) - 6, y - 6, 12, 12)
        return f'<g data-point="{data}">{mark}</g>' + (
            text(568, y + 5, "unmoved", size=13) if same_bits(a, b) else arrow(x.at(a), y, x.at(b), y)
        )
    left = marker("circle", x.at(a), y, size=5, fill="none")
    return (
        left
        + arrow(x.at(a), y, x.at(b), y)
        + marker("circle", x.at(b), y, size=4, fill=WEIGHT, data=data)
        + text(568, y + 5, "unmoved" if same_bits(a, b) else f"{b - a:+.3g}", size=13)
    )
