"""How does one stage of a training step look: who is at work, what stands frozen, what is held in memory?"""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_budget.drawing import Picture
from memory_budget.drawing.axes import arrow
from memory_budget.drawing.shapes import WIDTH, block, number, svg, swatch, text
from memory_budget.drawing.stacked import class_legend
from memory_budget.palette import TENSOR_CLASSES
from memory_budget.stepper.walk import Stage
from memory_budget.units import bytes_text

SCENE_HEIGHT = 232
LEGEND = (
    "weights",
    "frozen_weights",
    "gradients",
    "first_moment",
    "second_moment",
    "activations",
    "temporaries",
)


@dataclass(frozen=True, kw_only=True)
class Actor:
    """One box of the scene: where it stands, its name, and the tensor classes its left edge is coloured by."""

    key: str
    name: str
    x: float
    y: float
    width: float
    height: float = 62
    classes: tuple[str, ...] = ()


ACTORS = (
    Actor(key="input", name="input", x=0, y=0, width=92, classes=("activations",)),
    Actor(key="body", name="body, frozen", x=112, y=0, width=128, classes=("frozen_weights",)),
    Actor(key="head", name="head, trainable", x=260, y=0, width=128, classes=("weights",)),
    Actor(key="output", name="output", x=408, y=0, width=92, classes=("activations",)),
    Actor(key="expected", name="expected", x=408, y=78, width=92, height=52, classes=("temporaries",)),
    Actor(key="loss", name="loss", x=540, y=38, width=100, height=60, classes=("temporaries",)),
    Actor(key="gradients", name="gradients", x=508, y=160, width=132, classes=("gradients",)),
    Actor(
        key="optimizer", name="optimizer", x=376, y=160, width=112, classes=("first_moment", "second_moment")
    ),
    Actor(key="changed", name="changes", x=226, y=160, width=130),
)
# who hands over to whom, from (x, y) to (x, y), and the actors that must be lit for the arrow to be
ARROWS = (
    (92, 31, 112, 31, {"input", "body"}),
    (240, 31, 260, 31, {"body", "head"}),
    (388, 31, 408, 31, {"head", "output"}),
    (500, 45, 540, 60, {"output", "loss"}),
    (500, 100, 540, 80, {"expected", "loss"}),
    (590, 98, 590, 160, {"backward"}),
    (508, 191, 488, 191, {"gradients", "optimizer"}),
    (376, 191, 356, 191, {"optimizer", "changed"}),
    (291, 160, 291, 64, {"changed", "head"}),
)


def _box(actor: Actor, stage: Stage, *, small: bool, optimizer_classes: Sequence[str]) -> str:
    lit = actor.key in stage.lit
    classes = optimizer_classes if actor.key == "optimizer" else actor.classes
    frame = (
        f'<rect x="{number(actor.x)}" y="{number(actor.y)}" width="{number(actor.width)}" height="{number(actor.height)}" '
        f'rx="4" fill="currentColor" fill-opacity="{".09" if lit else "0"}" stroke="currentColor" '
        + ('stroke-width="3"/>' if lit else 'stroke-dasharray="3 4"/>')
    )
    bands = "".join(
        swatch(
            key,
            actor.x + 3,
            actor.y + 3 + i * (actor.height - 6) / len(classes),
            11,
            (actor.height - 6) / len(classes),
        )
        for i, key in enumerate(classes)
    )
    middle = actor.x + (14 if classes else 0) + (actor.width - (14 if classes else 0)) / 2
    size = 19 if small else 14
    words = [actor.name.split(",")[0]] if small else [actor.name, *_shown(actor, stage)]
    inside = block(words, middle, actor.y + actor.height / 2, size=size, anchor="middle", bold=lit)
    faint = "" if lit else ' opacity=".62"'
    return f'<g data-actor="{actor.key}" data-lit="{int(lit)}"{faint}>{frame}{bands}{inside}</g>'


def _shown(actor: Actor, stage: Stage) -> list[str]:
    value = stage.shows.get(actor.key, "")
    if actor.key == "changed":
        return value.split(", ")
    if actor.key == "body" and "hidden" in stage.shows:
        return [value, stage.shows["hidden"]]
    if actor.key == "gradients" and value:
        return value.split(", ")
    return [value] if value else []


def actors(stage: Stage, *, small: bool = False) -> str:
    """The boxes and arrows of one stage; `small` leaves the numbers out for the small multiples."""
    states = [key for key in ("first_moment", "second_moment") if key in stage.held]
    arrows = "".join(
        f'<g opacity="{"1" if need <= stage.lit else ".3"}">{arrow(*ends, width=3 if need <= stage.lit else 1.5)}</g>'
        for *ends, need in ARROWS
    )
    boxes = "".join(_box(actor, stage, small=small, optimizer_classes=states) for actor in ACTORS)
    lit = "backward" in stage.lit
    label = "" if small else text(584, 134, "backward pass", size=13.5, anchor="end", bold=lit)
    return arrows + boxes + label


def memory(stage: Stage, top: float, axis_bytes: int, *, width: float = WIDTH, bar: float = 34) -> str:
    """The bytes held at this moment as one bar, its total at the right end."""
    parts, x, plot = [], 0.0, width - 70
    for key, size in stage.held.items():
        wide = size / axis_bytes * plot
        parts.append(f'<g data-class="{key}" data-bytes="{size}">{swatch(key, x, top, wide, bar)}</g>')
        x += wide
    return "".join(parts) + text(x + 7, top + bar / 2 + 5, bytes_text(stage.held_bytes), size=15, bold=True)


def stage_picture(stages: Sequence[Stage], at: int, axis_bytes: int) -> Picture:
    """One stage, large: its name, the actors with their numbers, and the memory held."""
    stage = stages[at]
    words = f"Stage {at + 1} of {len(stages)}, {stage.name}. {stage.words}"
    heading = text(0, 18, f"{at + 1} of {len(stages)}: {stage.name}", size=17, bold=True)
    scene = f'<g transform="translate(0 34)">{actors(stage)}</g>'
    label = text(0, SCENE_HEIGHT + 44, "held in memory now, 4 bytes a value", size=14)
    bar = memory(stage, SCENE_HEIGHT + 52, axis_bytes)
    names, height = class_legend(LEGEND, SCENE_HEIGHT + 112, {})
    return Picture(svg=svg(heading + scene + label + bar + names, height=height, label=words), words=words)


def small_multiples(stages: Sequence[Stage], axis_bytes: int, title: str) -> Picture:
    """Every stage, small, two in a row: the form for a page that cannot be moved."""
    cell, tall, scale = 312, 190, 0.487
    parts = []
    for i, stage in enumerate(stages):
        x, y = (i % 2) * (WIDTH - cell), (i // 2) * tall
        parts.append(text(x, y + 16, f"{i + 1}. {stage.name}", size=15, bold=True))
        parts.append(
            f'<g transform="translate({number(x)} {number(y + 26)}) scale({scale})">{actors(stage, small=True)}</g>'
            f'<g transform="translate({number(x)} 0)">{memory(stage, y + 142, axis_bytes, width=cell, bar=20)}</g>'
        )
    names, height = class_legend(LEGEND, ((len(stages) + 1) // 2) * tall + 14, {})
    said = " ".join(f"{i + 1}. {stage.name}: {stage.words}" for i, stage in enumerate(stages))
    table = [["stage", "what happens", "held"]]
    table += [[f"{i + 1}. {s.name}", s.says, bytes_text(s.held_bytes)] for i, s in enumerate(stages)]
    drawing = svg("".join(parts) + names, height=height, label=said)
    return Picture(svg=drawing, words=said, table=table, title=title)


def held_classes(stages: Sequence[Stage]) -> list[str]:
    """Labels of every class that is held at some stage, in drawing order."""
    return [
        entry.label for key, entry in TENSOR_CLASSES.items() if any(key in stage.held for stage in stages)
    ]
