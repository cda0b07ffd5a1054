"""How does one stage of a training step look: who is at work, what stands frozen, what is held in memory?"""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_budget.drawing import Picture
from memory_budget.drawing.axes import arrow
from memory_budget.drawing.shapes import WIDTH, number, svg, swatch, text
from memory_budget.drawing.stacked import class_legend
from memory_budget.palette import CLASS_KEYS
from memory_budget.stepper.walk import Stage
from memory_budget.units import bytes_text

SCENE_HEIGHT = 232
WIDEST = 14  # characters on one line of a box of parameters
LEGEND = tuple(key for key in CLASS_KEYS if key != "master_copy")


@dataclass(frozen=True, kw_only=True)
class Actor:
    """One box of the scene: where it stands, its name, the tensor classes that colour its left edge."""

    key: str
    name: str
    x: float
    y: float
    width: float
    height: float = 62
    classes: tuple[str, ...] = ()


ACTORS = (
    Actor(key="input", name="input", x=2, y=0, width=80, classes=("activations",)),
    Actor(key="body", name="body, frozen", x=100, y=0, width=136, classes=("frozen_weights",)),
    Actor(key="head", name="head, trained", x=254, y=0, width=136, classes=("weights",)),
    Actor(key="output", name="output", x=408, y=0, width=98, classes=("activations",)),
    Actor(key="expected", name="expected", x=408, y=80, width=98, height=52, classes=("temporaries",)),
    Actor(key="loss", name="loss", x=542, y=36, width=96, height=60, classes=("temporaries",)),
    Actor(key="gradients", name="gradients", x=518, y=162, width=120, classes=("gradients",)),
    Actor(
        key="optimizer", name="optimizer", x=372, y=162, width=126, classes=("first_moment", "second_moment")
    ),
    Actor(key="changed", name="changes", x=254, y=162, width=98),
)
FORWARD_ACTORS = ("input", "body", "head", "output")
# who hands over to whom, from (x, y) to (x, y), and the actors that must be lit for the arrow to be
ARROWS = (
    (82, 31, 100, 31, {"input", "body"}),
    (236, 31, 254, 31, {"body", "head"}),
    (390, 31, 408, 31, {"head", "output"}),
    (506, 44, 542, 58, {"output", "loss"}),
    (506, 104, 542, 78, {"expected", "loss"}),
    (590, 96, 590, 162, {"backward"}),
    (518, 193, 498, 193, {"gradients", "optimizer"}),
    (372, 193, 352, 193, {"optimizer", "changed"}),
    (303, 162, 303, 62, {"changed", "head"}),
)


def _box(actor: Actor, stage: Stage, *, small: bool, states: Sequence[str]) -> str:
    lit = actor.key in stage.lit
    classes = states if actor.key == "optimizer" else actor.classes
    inset = 16 if actor.classes else 0
    middle, size = actor.x + inset + (actor.width - inset) / 2, 18 if small else 13.5
    values = [] if small else _shown(actor, stage)
    first = actor.y + actor.height / 2 + size / 3 - len(values) * size * 0.57
    inside = text(
        middle, first, actor.name.split(",")[0] if small else actor.name, size=size, anchor="middle", bold=lit
    )
    inside += "".join(
        text(middle, first + 1.14 * size * (i + 1), value, size=size, anchor="middle")
        for i, value in enumerate(values)
    )
    faint = "" if lit else ' opacity=".8"'
    bands = _bands(actor, classes, actor.key in stage.alive)
    return f'<g data-actor="{actor.key}" data-lit="{int(lit)}"{faint}>{_edge(actor, lit)}{inside}</g>{bands}'


def _edge(actor: Actor, lit: bool) -> str:
    style = 'fill-opacity=".09" stroke-width="3"' if lit else 'fill-opacity="0" stroke-dasharray="3 4"'
    return (
        f'<rect x="{number(actor.x)}" y="{number(actor.y)}" width="{number(actor.width)}" '
        f'height="{number(actor.height)}" rx="4" fill="currentColor" stroke="currentColor" {style}/>'
    )


def _bands(actor: Actor, classes: Sequence[str], alive: bool) -> str:
    """The colours of an actor's tensors along its left edge: filled while held in memory, else an outline."""
    tall = (actor.height - 8) / max(1, len(classes))
    return "".join(
        swatch(key, actor.x + 4, actor.y + 4 + i * tall, 11, tall, outline=not alive)
        for i, key in enumerate(classes)
    )


def _shown(actor: Actor, stage: Stage) -> list[str]:
    value = stage.shows.get(actor.key, "")
    if actor.key == "changed" or (actor.key == "head" and len(value) > WIDEST):
        return value.split(", ")
    if actor.key == "body" and stage.shows.get("hidden"):
        return [value, stage.shows["hidden"]]
    if actor.key == "gradients" and value:
        return value.split(", ")
    return [value] if value else []


def actors(stage: Stage, *, small: bool = False, only: Sequence[str] = ()) -> str:
    """The boxes and arrows of one stage; `small` leaves the numbers out, `only` names who takes part."""
    states = [key for key in ("first_moment", "second_moment") if key in stage.held]
    present = [actor for actor in ACTORS if not only or actor.key in only]
    keys = {actor.key for actor in present} | (set() if only else {"backward"})
    arrows = "".join(_arrow(ends, need <= stage.lit) for *ends, need in ARROWS if need <= keys)
    boxes = "".join(_box(actor, stage, small=small, states=states) for actor in present)
    if small:
        return arrows + boxes
    return arrows + boxes + (_absent() if only else _backward_label("backward" in stage.lit))


def _arrow(ends: Sequence[float], lit: bool) -> str:
    return f'<g opacity="{1 if lit else 0.35}">{arrow(*ends, width=3 if lit else 1.5)}</g>'


def _backward_label(lit: bool) -> str:
    return text(582, 151, "backward pass", size=13.5, anchor="end", bold=lit)


def _absent() -> str:
    return text(
        2, 120, "Inference stops here: nothing to compare with, no loss, no gradient, no optimizer.", size=14
    )


def memory(stage: Stage, top: float, axis_bytes: int, *, width: float = WIDTH, bar: float = 34) -> str:
    """The bytes held at this moment as one bar, its total at the right end."""
    parts, x, plot = [], 0.0, width - 70
    for key, size in stage.held.items():
        wide = size / axis_bytes * plot
        parts.append(f'<g data-class="{key}" data-bytes="{size}">{swatch(key, x, top, wide, bar)}</g>')
        x += wide
    return "".join(parts) + text(x + 7, top + bar / 2 + 5, bytes_text(stage.held_bytes), size=15, bold=True)


def stage_picture(stages: Sequence[Stage], at: int, axis_bytes: int, only: Sequence[str] = ()) -> Picture:
    """One stage, large: its name, the actors with their numbers, and the memory held."""
    stage = stages[at]
    words = f"Stage {at + 1} of {len(stages)}, {stage.name}. {stage.words}"
    heading = text(0, 18, f"{at + 1} of {len(stages)}: {stage.name}", size=17, bold=True)
    scene = f'<g transform="translate(0 34)">{actors(stage, only=only)}</g>'
    label = text(0, SCENE_HEIGHT + 44, "held in memory now, 4 bytes a value (filled edges above)", size=14)
    bar = memory(stage, SCENE_HEIGHT + 52, axis_bytes)
    names, height = class_legend(LEGEND, SCENE_HEIGHT + 112, {})
    return Picture(svg=svg(heading + scene + label + bar + names, height=height, label=words), words=words)


def small_multiples(
    stages: Sequence[Stage], axis_bytes: int, title: str, only: Sequence[str] = ()
) -> Picture:
    """Every stage, small, two in a row: the form for a page that cannot be moved."""
    tall = 110 if only else 190
    parts = [_small(stage, i, tall, axis_bytes, only) for i, stage in enumerate(stages)]
    names, height = class_legend(LEGEND, ((len(stages) + 1) // 2) * tall + 14, {})
    said = " ".join(f"{i + 1}. {stage.name}: {stage.words}" for i, stage in enumerate(stages))
    table = [["stage", "what happens", "held"]]
    table += [[f"{i + 1}. {s.name}", s.says, bytes_text(s.held_bytes)] for i, s in enumerate(stages)]
    drawing = svg("".join(parts) + names, height=height, label=said)
    caption = "Strong boxes are at work; filled edges and the bar are what is held in memory at that moment."
    return Picture(svg=drawing, words=said, table=table, title=title, caption=caption)


def _small(stage: Stage, i: int, tall: float, axis_bytes: int, only: Sequence[str]) -> str:
    cell = 312
    x, y = (i % 2) * (WIDTH - cell), (i // 2) * tall
    scene = actors(stage, small=True, only=only)
    bar = memory(stage, y + tall - 46, axis_bytes, width=cell, bar=20)
    return (
        text(x, y + 16, f"{i + 1}. {stage.name}", size=15, bold=True)
        + f'<g transform="translate({number(x)} {number(y + 26)}) scale(.487)">{scene}</g>'
        + f'<g transform="translate({number(x)} 0)">{bar}</g>'
    )
