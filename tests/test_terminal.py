"""Bars in a terminal."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_budget import terminal
from memory_budget.palette import CLASS_KEYS, TENSOR_CLASSES
from memory_budget.units import GB

SIZES = {"weights": 14 * GB, "master_copy": 28 * GB, "gradients": 14 * GB}
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def test_a_bar_is_made_of_the_classes_letters_in_proportion() -> None:
    assert terminal.bar(SIZES, 56 * GB, 8) == ("WWccccgg", 8)


def test_colour_changes_no_letter() -> None:
    coloured, length = terminal.bar(SIZES, 56 * GB, 8, colour=True)
    assert ESCAPE.sub("", coloured) == "WWccccgg"
    assert length == 8
    assert "48;2;0;114;178" in coloured  # the palette's #0072B2


@settings(deadline=None)  # a busy machine is no failure
@given(st.dictionaries(st.sampled_from(CLASS_KEYS), st.integers(0, 10**13)), st.integers(1, 200))
def test_a_bar_is_as_long_as_its_sum_says(sizes: dict[str, int], width: int) -> None:
    scale = max(sum(sizes.values()), 1)
    text, length = terminal.bar(sizes, scale, width)
    assert len(text) == length == (width if sum(sizes.values()) else 0)


def test_no_line_is_wider_than_the_terminal_and_the_device_is_named() -> None:
    for width in (20, 40, 80, 300):
        lines = terminal.moment_bars({"before step": SIZES}, width=width, device_bytes=80 * GB)
        assert max(map(len, lines)) <= min(max(width, terminal.NARROWEST), terminal.WIDEST)
        assert "80 GB" in lines[0]
        assert "|" in lines[1]
        assert lines[1].endswith("56 GB")


def test_a_bar_that_does_not_fit_is_drawn_past_the_device() -> None:
    (flag, line) = terminal.moment_bars({"before step": SIZES}, width=80, device_bytes=28 * GB)
    assert "|" not in line
    assert line.count("W") + line.count("c") + line.count("g") > flag.index("|") - len("before step  ")


def test_the_legend_has_a_line_for_every_class_that_has_bytes() -> None:
    text = "\n".join(terminal.legend(SIZES | {"activations": 0}, width=40))
    assert "WWW weights 14 GB" in text
    assert "activations" not in text
    assert all(TENSOR_CLASSES[key].label in text for key in SIZES)
    assert terminal.legend({}, width=40) == []
