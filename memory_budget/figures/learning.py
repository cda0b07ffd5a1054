"""Over which learning rates does an optimizer train well?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memory_budget.drawing import Picture, message
from memory_budget.drawing.axes import DASHES, MARKERS, Scale, curve, frame, log_scale, marker
from memory_budget.drawing.shapes import number, svg, text
from memory_budget.figures.ticks import finite, plain
from memory_budget.optimizers import OPTIMIZERS
from memory_budget.units import number_text


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
    parts = [frame(x, y, x_name="learning rate", y_name="loss", x_text=plain, y_text=number_text)]
    for i, (name, points) in enumerate(runs.items()):
        parts.append(_run(x, y, points, i))
        parts.append(_run_label(_optimizer_label(name), points, best[name], i, 60 + 72 * i))
    title = _learning_title(runs, best)
    words = " ".join(_run_words(_optimizer_label(name), points, best[name]) for name, points in runs.items())
    table = [["optimizer", "learning rate", "loss"]]
    table += [
        [_optimizer_label(n), plain(rate), _loss_text(loss)]
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
        good = [p for p in pairs if isinstance(p, Sequence) and len(p) == 2 and finite(p[0]) and p[0] > 0]
        if len(good) != len(pairs) or not any(finite(loss) and loss > 0 for _, loss in good):
            return f"{name} needs pairs of a learning rate above 0 and a loss"
    return ""


def _loss_or_inf(point: tuple[float, float]) -> float:
    return point[1] if math.isfinite(point[1]) else math.inf


def loss_past_best(points: Sequence[tuple[float, float]], times: float = 10) -> tuple[float, float] | None:
    """The first run at a learning rate at least `times` the best one's; None where none was tried."""
    best = min(points, key=_loss_or_inf)
    past = [point for point in points if point[0] >= times * best[0] * 0.999]
    return past[0] if past else None


def holds(points: Sequence[tuple[float, float]]) -> bool | None:
    """Whether training has not blown up at ten times the best learning rate: less than 1.5 times the lowest
    loss (from there to the loss of an untrained model it may be a short way)."""
    past = loss_past_best(points)
    return None if past is None else past[1] < 1.5 * min(map(_loss_or_inf, points))


def _learning_title(runs: Mapping[str, Any], best: Mapping[str, tuple[float, float]]) -> str:
    verdicts = {name: holds(points) for name, points in runs.items()}
    good = [_optimizer_label(name) for name, verdict in verdicts.items() if verdict]
    bad = [_optimizer_label(name) for name, verdict in verdicts.items() if verdict is False]
    lowest = min(best, key=lambda name: best[name][1])
    if good and bad:
        has, have = ("has" if len(names) == 1 else "have" for names in (good, bad))
        past = "At ten times its best learning rate"
        return f"{past} {' and '.join(bad)} {have} blown up; {' and '.join(good)} {has} not"
    rate, loss = best[lowest]
    return f"The lowest loss, {loss:.2f}, is {_optimizer_label(lowest)}'s, at learning rate {plain(rate)}"


def _run(x: Scale, y: Scale, points: Sequence[tuple[float, float]], i: int) -> str:
    placed = [
        (x.at(rate), y.at(min(loss, y.high)) if math.isfinite(loss) else y.end) for rate, loss in points
    ]
    marks = [
        marker(
            MARKERS[i % 4] if loss <= y.high else "cross", *where, data=f"{number(rate)} {_loss_text(loss)}"
        )
        for (rate, loss), where in zip(points, placed, strict=True)
    ]
    return curve(placed, dash=DASHES[i % 4]) + "".join(marks)


def _run_label(label: str, points: Sequence[Any], best: tuple[float, float], i: int, y: float) -> str:
    sample = curve([(418, y - 5), (446, y - 5)], dash=DASHES[i % 4]) + marker(MARKERS[i % 4], 432, y - 5)
    lines = [f"best {best[1]:.2f} at {plain(best[0])}"]
    past = loss_past_best(points)
    if past:
        lines.append(f"{_loss_text(past[1])} at {plain(past[0])}")
    rest = "".join(text(454, y + 18 * (j + 1), line, size=13.5) for j, line in enumerate(lines))
    return sample + text(454, y, label, bold=True) + rest


def _run_words(label: str, points: Sequence[Any], best: tuple[float, float]) -> str:
    past = loss_past_best(points)
    then = f"; at {plain(past[0])} it is {_loss_text(past[1])}" if past else ""
    return f"{label}: lowest loss {best[1]:.2f} at learning rate {plain(best[0])}{then}."


def _loss_text(loss: float) -> str:
    return f"{loss:.2f}" if math.isfinite(loss) else "blown up"


def _optimizer_label(name: str) -> str:
    return OPTIMIZERS[name].label if name in OPTIMIZERS else name
