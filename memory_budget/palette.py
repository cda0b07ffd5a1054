"""Which colour, label and hatching does each class of tensor have, everywhere in the course?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TensorClass:
    """One class of tensors; `key` names it in every dict of bytes, `hatch` is an SVG/matplotlib-like mark."""

    key: str
    label: str
    colour: str
    text_colour: str
    hatch: str = ""
    letter: str


def _classes() -> tuple[TensorClass, ...]:
    white, dark = "#ffffff", "#1a1a1a"
    return (
        TensorClass(key="weights", label="weights", colour="#0072B2", text_colour=white, letter="W"),
        TensorClass(
            key="frozen_weights", label="frozen weights", colour="#0072B2", text_colour=white, hatch="//",
            letter="f",
        ),
        TensorClass(key="master_copy", label="master copy", colour="#56B4E9", text_colour=dark, letter="c"),
        TensorClass(key="gradients", label="gradients", colour="#E69F00", text_colour=dark, letter="g"),
        TensorClass(key="first_moment", label="first moment", colour="#009E73", text_colour=dark, letter="m"),
        TensorClass(
            key="second_moment", label="second moment", colour="#F0E442", text_colour=dark, letter="v",
        ),
        TensorClass(key="activations", label="activations", colour="#D55E00", text_colour=dark, letter="a"),
        TensorClass(key="temporaries", label="temporaries", colour="#CC79A7", text_colour=dark, letter="t"),
    )  # fmt: skip


TENSOR_CLASSES: dict[str, TensorClass] = {each.key: each for each in _classes()}
CLASS_KEYS: tuple[str, ...] = tuple(TENSOR_CLASSES)
STATE_KEYS: tuple[str, ...] = CLASS_KEYS[:6]
"""The classes that stay from one step to the next: all but activations and temporaries."""


def no_bytes() -> dict[str, int]:
    """A dict of every tensor class, in drawing order, each with 0 bytes."""
    return dict.fromkeys(CLASS_KEYS, 0)


def in_order(sizes: Mapping[str, int]) -> dict[str, int]:
    """`sizes` with every class present and in drawing order; ValueError for a name that is no class."""
    unknown = sorted(set(sizes) - set(CLASS_KEYS))
    if unknown:
        raise ValueError(f"unknown tensor class {unknown[0]!r}: choose from {', '.join(CLASS_KEYS)}")
    return {key: sizes.get(key, 0) for key in CLASS_KEYS}


def add(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of several dicts of bytes, class by class."""
    total = no_bytes()
    for part in parts:
        for key, value in part.items():
            total[key] += value
    return total
