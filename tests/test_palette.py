"""One colour, label and letter for each class of tensor."""

from __future__ import annotations

import pytest

from memory_budget import palette


def test_the_classes_come_in_drawing_order() -> None:
    assert palette.CLASS_KEYS == (
        "weights", "frozen_weights", "master_copy", "gradients", "first_moment", "second_moment",
        "activations", "temporaries",
    )  # fmt: skip


def test_no_two_classes_look_alike() -> None:
    kinds = palette.TENSOR_CLASSES.values()
    assert len({(kind.colour, kind.hatch) for kind in kinds}) == len(kinds)
    assert len({kind.letter for kind in kinds}) == len(kinds)
    assert len({kind.label for kind in kinds}) == len(kinds)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.1 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("kind", palette.TENSOR_CLASSES.values(), ids=palette.CLASS_KEYS)
def test_text_can_be_read_on_every_colour(kind: palette.TensorClass) -> None:
    bright, dark = sorted((luminance(kind.colour), luminance(kind.text_colour)), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 4.5


def test_a_misspelt_class_is_refused_with_the_right_names() -> None:
    with pytest.raises(ValueError, match="'gradient': choose from weights"):
        palette.in_order({"gradient": 1})


def test_parts_are_added_class_by_class() -> None:
    total = palette.add([{"weights": 1}, {"weights": 2, "gradients": 3}])
    assert (total["weights"], total["gradients"], total["activations"]) == (3, 3, 0)
