"""Which small parts is every drawing made of: words, colour, hatching, and the frame around them?"""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from memory_budget.palette import TENSOR_CLASSES

WIDTH = 640  # user units: on a 470-pixel column the smallest letters are still 10 pixels high
FONT = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif"
_THEMED = 'style="color:var(--jp-ui-font-color1,currentColor);{size}"'


def number(value: float) -> str:
    """Shortest text of a coordinate, to a tenth of a unit."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def text_width(text: str, size: float) -> float:
    """About how wide a text is, in the same units as its size; on the safe side."""
    narrow = sum(text.count(letter) for letter in "iljtfr.,:;'|! ()")
    wide = sum(text.count(letter) for letter in "mwMW%")
    return size * (0.63 * len(text) - 0.22 * narrow + 0.3 * wide)


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: float = 14,
    anchor: str = "start",
    fill: str = "currentColor",
    bold: bool = False,
    halo: bool = False,
) -> str:
    """One line of text, its baseline at y."""
    extra = ' font-weight="600"' if bold else ""
    if halo:
        extra += ' class="halo" stroke="var(--jp-layout-color0,#fff)" stroke-width="3" paint-order="stroke"'
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return (
        f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}"{where}{extra} '
        f'fill="{fill}">{escape(words)}</text>'
    )


def wrap(words: str, width: float, size: float) -> list[str]:
    """Words broken into lines no wider than `width`."""
    lines: list[str] = []
    for word in words.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]


def hatching(x: float, y: float, width: float, height: float, *, gap: float = 7) -> str:
    """Slanted lines over a rectangle, cut at its edges by arithmetic: no pattern, so no ids to collide."""
    marks = []
    start = math.ceil((x - height) / gap) * gap
    while start < x + width:
        left, right = max(start, x), min(start + height, x + width)
        if right - left > 0.5:
            marks.append(
                f"M{number(left)} {number(y + height - (left - start))}"
                f"L{number(right)} {number(y + height - (right - start))}"
            )
        start += gap
    return f'<path d="{"".join(marks)}" stroke="#fff" stroke-opacity=".75" stroke-width="1.6" fill="none"/>'


def swatch(key: str, x: float, y: float, width: float, height: float, *, outline: bool = False) -> str:
    """A rectangle in a tensor class's colour, hatched when that class is; an outline when it is not alive."""
    kind = TENSOR_CLASSES[key]
    box = f'x="{number(x)}" y="{number(y)}" width="{number(max(width, 0))}" height="{number(height)}"'
    if outline:
        return f'<rect {box} fill="none" stroke="{kind.colour}" stroke-dasharray="4 3"/>'
    rect = f'<rect {box} fill="{kind.colour}"/>'
    return rect + (hatching(x, y, width, height) if kind.hatch and width > 3 else "")


def svg(content: str, *, height: float, label: str, width: float = WIDTH) -> str:
    """The drawing's outer element, with the sentence a screen reader says."""
    size = "max-width:760px;width:100%;height:auto;display:block"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" role="img" '
        f'aria-label="{escape(label, quote=True)}" font-family="{FONT}" '
        f"{_THEMED.format(size=size)}>{content}</svg>"
    )


def block(lines: Sequence[str], x: float, middle: float, **style: Any) -> str:
    """Lines of text around a middle height."""
    size = style.setdefault("size", 15)
    first = middle + size / 3 - (len(lines) - 1) * size * 0.57
    return "".join(text(x, first + 1.14 * size * i, line, **style) for i, line in enumerate(lines))
