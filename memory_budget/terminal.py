"""How do the bars look in a terminal? Letters in the palette's colours, and letters alone without colour."""

from __future__ import annotations

from collections.abc import Mapping

from memory_budget.palette import TENSOR_CLASSES
from memory_budget.units import bytes_text

NARROWEST, WIDEST = 40, 120


def _rgb(colour: str) -> str:
    return ";".join(str(int(colour[start : start + 2], 16)) for start in (1, 3, 5))


def painted(text: str, key: str, colour: bool) -> str:
    """`text` on the background of a tensor class; unchanged without colour."""
    if not colour or not text:
        return text
    kind = TENSOR_CLASSES[key]
    return f"\x1b[48;2;{_rgb(kind.colour)}m\x1b[38;2;{_rgb(kind.text_colour)}m{text}\x1b[0m"


def bar(sizes: Mapping[str, int], scale_bytes: int, width: int, colour: bool = False) -> tuple[str, int]:
    """One stacked bar of at most `width` characters, and how many characters it takes.

    Each class is a run of its letter; edges are rounded on the running sum, so that bars compare."""
    pieces, start, sum_bytes = [], 0, 0
    for key, size in sizes.items():
        sum_bytes += size
        end = round(sum_bytes * width / scale_bytes) if scale_bytes else 0
        pieces.append(painted(TENSOR_CLASSES[key].letter * (end - start), key, colour))
        start = end
    return "".join(pieces), start


def moment_bars(
    moments: Mapping[str, Mapping[str, int]],
    *,
    width: int,
    device_bytes: int | None = None,
    colour: bool = False,
) -> list[str]:
    """Lines of one bar a moment: the name at the left, the total at the right, `|` where the device ends."""
    width = min(max(width, NARROWEST), WIDEST)
    names, totals = max(map(len, moments)) + 2, 11
    room = width - names - totals
    largest = max(sum(sizes.values()) for sizes in moments.values())
    scale = max(largest, device_bytes or 0)
    mark = None if device_bytes is None else min(round(device_bytes * room / scale), room - 1) if scale else 0
    lines = [] if mark is None else [" " * names + _flag(mark, bytes_text(device_bytes or 0), room)]
    for name, sizes in moments.items():
        text, used = bar(sizes, scale, room, colour)
        rest = [" "] * (room - used)
        if mark is not None and used <= mark:
            rest[mark - used] = "|"
        lines.append(f"{name:<{names}}{text}{''.join(rest)}{bytes_text(sum(sizes.values())):>{totals}}")
    return lines


def _flag(mark: int, label: str, room: int) -> str:
    """The device's size above its line, inside the picture."""
    left = f"{label} |" if mark > len(label) else f"| {label}"
    start = mark - len(label) - 1 if mark > len(label) else mark
    return (" " * start + left)[:room]


def legend(sizes: Mapping[str, int], *, width: int, colour: bool = False) -> list[str]:
    """Lines with the letter, label and bytes of every class that has any, as many a line as fit."""
    lines, used = [""], 0
    for key, size in sizes.items():
        if not size:
            continue
        kind = TENSOR_CLASSES[key]
        words = f" {kind.label} {bytes_text(size)}"
        length = len(words) + 3 + 2
        if used and used + length > max(width, NARROWEST):
            lines.append("")
            used = 0
        lines[-1] += painted(kind.letter * 3, key, colour) + words + "  "
        used += length
    return [line.rstrip() for line in lines if line]
