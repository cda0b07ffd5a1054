"""Which parameters did one step move, and which are what they were, to the last bit?"""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memory_budget.drawing import Picture, message
from memory_budget.drawing.axes import Scale, arrow, frame, marker
from memory_budget.drawing.shapes import svg, swatch, text
from memory_budget.palette import TENSOR_CLASSES
from memory_budget.units import number_text

WEIGHT = TENSOR_CLASSES["weights"].colour
Pair = tuple[str, str, float, float]  # tensor, place in it, value before, value after


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


def _parameter_pairs(before: Any, after: Any) -> list[Pair]:
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


def _names(pairs: Sequence[Pair]) -> list[str]:
    return list(dict.fromkeys(name for name, _, _, _ in pairs))


def _moved_title(pairs: Sequence[Pair], frozen: set[str]) -> str:
    moved = [name in frozen for name, _, a, b in pairs if not same_bits(a, b)]
    still = sum(name in frozen for name, _, _, _ in pairs)
    if any(moved):
        return f"{sum(moved)} of {still} frozen parameters moved: they were not frozen"
    title = f"{len(moved)} of {len(pairs)} parameters moved"
    return f"{title}; the {still} frozen ones are what they were, to the last bit" if still else title


def _tensor_words(pairs: Sequence[Pair], name: str, frozen: bool) -> str:
    moves = [abs(b - a) for tensor, _, a, b in pairs if tensor == name]
    count = sum(move > 0 for move in moves)
    kind = "frozen" if frozen else "trainable"
    far = f"by up to {max(moves):.3g}" if count else "not at all"
    return f"{name} ({kind}): {count} of {len(moves)} moved, {far}."


def _moved_word(a: float, b: float, frozen: bool) -> str:
    moved = "same bits" if same_bits(a, b) else f"moved {b - a:+.3g}"
    return f"frozen, {moved}" if frozen else moved


def _at_most(pairs: Sequence[Pair], most: int) -> list[Pair]:
    names = _names(pairs)
    each = max(1, most // len(names)) if len(pairs) > most else len(pairs)
    return [pair for name in names[:most] for pair in [p for p in pairs if p[0] == name][:each]]


def _dumbbells(pairs: Sequence[Pair], frozen: set[str], words: str) -> str:
    values = [value for _, _, a, b in pairs for value in (a, b)]
    room = (max(values) - min(values) or 1) * 0.05
    bottom = 26 + 18 * len(pairs) + 10 * (len(_names(pairs)) - 1)
    x = Scale(low=min(values) - room, high=max(values) + room, start=176, end=560)
    y = Scale(low=0, high=1, start=bottom, end=20)
    parts = [frame(x, y, x_name="value of the parameter", x_text=number_text, y_text=None)]
    top, last = 34.0, pairs[0][0]
    for name, place, a, b in pairs:
        top += 10 if name != last else 0
        last = name
        parts.append(text(168, top + 5, f"{name}{place}", size=13, anchor="end"))
        parts.append(_dumbbell(x, top, a, b, name in frozen, f"{name}{place}"))
        top += 18
    key = marker("circle", 8, 8, size=5, fill="none") + text(20, 13, "before", size=13.5)
    key += marker("circle", 92, 8, size=4, fill=WEIGHT) + text(104, 13, "after one step", size=13.5)
    key += swatch("frozen_weights", 220, 2, 12, 12) + text(240, 13, "frozen", size=13.5)
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
