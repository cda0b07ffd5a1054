"""The drawings: what is drawn is what was given, readable by eye and by ear, in every viewer."""

import base64
import itertools
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_budget.drawing import Line, Picture, Row, axis_top, message, stacked_bars, static_html
from memory_budget.drawing.axes import Scale, log_scale, spread
from memory_budget.drawing.picture import alone
from memory_budget.drawing.shapes import hatching, text_width, wrap
from memory_budget.palette import CLASS_KEYS, TENSOR_CLASSES
from memory_budget.units import GB, bytes_text

SVG = "{http://www.w3.org/2000/svg}"
sizes = st.dictionaries(st.sampled_from(CLASS_KEYS), st.integers(0, 10**12), max_size=8)


def parsed(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)


def pieces(drawing: str) -> list[tuple[str, float, float]]:
    """Class, bytes and width of every piece that is drawn, read off the drawing."""
    found = []
    for group in parsed(drawing).iter(f"{SVG}g"):
        if "data-class" in group.attrib:
            rect = group.find(f"{SVG}rect")
            found.append((group.get("data-class"), float(group.get("data-bytes")), float(rect.get("width"))))
    return found


def words_in(drawing: str) -> list[str]:
    return [element.text for element in parsed(drawing).iter(f"{SVG}text")]


@given(st.lists(sizes, min_size=1, max_size=4))
def test_every_piece_is_as_long_as_its_bytes_on_one_axis(rows):
    axis = axis_top(max(sum(row.values()) for row in rows))
    drawing = stacked_bars([Row(name="bar", pieces=row) for row in rows], axis_bytes=axis, label="x")
    expected = [(key, row[key]) for row in rows for key in CLASS_KEYS if row.get(key, 0)]
    drawn = pieces(drawing)
    assert [(key, size) for key, size, _ in drawn] == expected
    plot = 450
    assert all(0 <= size / axis * plot - width + 0.06 < 1.13 for _, size, width in drawn)


@given(sizes)
def test_any_sizes_make_well_formed_xml_with_role_and_label(row):
    drawing = stacked_bars([Row(name="a < b & c", pieces=row)], axis_bytes=10**12, label='say "5 < 6"')
    root = parsed(drawing)
    assert root.get("role") == "img"
    assert root.get("aria-label") == 'say "5 < 6"'


def test_the_total_stands_at_the_right_end_of_its_bar():
    drawing = stacked_bars([Row(name="t", pieces={"weights": 14 * GB})], axis_bytes=20 * GB, label="x")
    total = next(e for e in parsed(drawing).iter(f"{SVG}text") if e.text == "14 GB" and e.get("font-weight"))
    _, _, width = pieces(drawing)[0]
    assert float(total.get("x")) == pytest.approx(104 + width + 1 + 6, abs=0.2)


def test_what_does_not_fit_is_drawn_past_the_device_line():
    drawing = stacked_bars(
        [Row(name="t", pieces={"weights": 112 * GB})], axis_bytes=200 * GB, label="x",
        lines=[Line(bytes=80 * GB, label="80 GB", strong=True)],
    )  # fmt: skip
    _, _, width = pieces(drawing)[0]
    assert 'd="M284 ' in drawing  # the line at 80 of 200 GB
    assert 104 + width > 284


def test_a_bar_longer_than_the_axis_ends_in_an_arrow_and_keeps_its_number():
    drawing = stacked_bars([Row(name="t", pieces={"weights": 300 * GB})], axis_bytes=200 * GB, label="x")
    assert "l10 14l-10 14z" in drawing
    assert "300 GB" in words_in(drawing)


def test_device_labels_never_overlap():
    lines = [Line(bytes=size * GB, label=str(size)) for size in (8, 16, 24, 48, 80, 141, 192)]
    for axis in (200, 500, 2000):
        drawing = stacked_bars(
            [Row(name="t", pieces={"weights": GB})], axis_bytes=axis * GB, label="x", lines=lines, legend=()
        )
        labels = [
            (float(e.get("y")), float(e.get("x")) - text_width(e.text, 14) / 2, text_width(e.text, 14))
            for e in parsed(drawing).iter(f"{SVG}text")
            if e.text in {line.label for line in lines} and e.get("font-size") == "14"
        ]
        assert labels
        for i, (y, x, wide) in enumerate(labels):
            assert all(y != y2 or x + wide <= x2 or x2 + wide2 <= x for y2, x2, wide2 in labels[i + 1 :])


def test_frozen_weights_are_told_from_weights_without_colour():
    assert TENSOR_CLASSES["frozen_weights"].colour == TENSOR_CLASSES["weights"].colour
    frozen = stacked_bars([Row(name="t", pieces={"frozen_weights": GB})], axis_bytes=GB, label="x", legend=())
    plain = stacked_bars([Row(name="t", pieces={"weights": GB})], axis_bytes=GB, label="x", legend=())
    assert 'stroke="#fff"' in frozen
    assert 'stroke="#fff"' not in plain


def test_every_class_is_named_in_the_legend_even_when_its_piece_is_too_narrow_for_words():
    row = {key: 1 for key in CLASS_KEYS} | {"weights": 10**6}
    drawing = stacked_bars([Row(name="t", pieces=row)], axis_bytes=10**6, label="x")
    assert {TENSOR_CLASSES[key].label for key in CLASS_KEYS} <= set(words_in(drawing))


def test_words_inside_a_piece_are_narrower_than_the_piece():
    drawing = stacked_bars(
        [Row(name="t", pieces=dict.fromkeys(CLASS_KEYS, GB))], axis_bytes=8 * GB, label="x"
    )
    width = pieces(drawing)[0][2]
    inside = [e for e in parsed(drawing).iter(f"{SVG}text") if e.get("fill").startswith("#")]
    assert inside
    assert all(text_width(e.text, 13.5) <= width for e in inside)


def relative_luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("key", CLASS_KEYS)
def test_words_on_every_colour_have_the_contrast_of_wcag_aa(key):
    kind = TENSOR_CLASSES[key]
    light, dark = sorted(
        (relative_luminance(kind.colour), relative_luminance(kind.text_colour)), reverse=True
    )
    assert (light + 0.05) / (dark + 0.05) >= 4.5


@given(st.floats(0, 500), st.floats(0, 60), st.floats(1, 400), st.floats(4, 60))
def test_hatching_stays_inside_its_rectangle(x, y, width, height):
    for px, py in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", hatching(x, y, width, height)):
        assert x - 0.1 <= float(px) <= x + width + 0.1
        assert y - 0.1 <= float(py) <= y + height + 0.1


@given(st.floats(1, 1e15))
def test_the_axis_ends_at_or_above_the_largest_and_less_than_ten_times_it(largest):
    assert largest <= axis_top(largest) < 10 * largest


@given(st.floats(1e-6, 1e9), st.floats(1.1, 1e6))
def test_a_log_axis_keeps_ratios_and_its_ticks_lie_inside(low, times):
    scale = log_scale([low, low * times], 0, 100)
    assert scale.at(low) <= scale.at(low * times)
    assert all(-1e-6 <= scale.at(tick) <= 100 + 1e-6 for tick in scale.ticks())
    tens = [scale.at(tick) for tick in scale.ticks()]
    assert all(abs((b - a) - (tens[1] - tens[0])) < 1e-6 for a, b in itertools.pairwise(tens))


def test_a_straight_axis_has_round_ticks():
    assert Scale(low=-0.61, high=0.72, start=0, end=1).ticks() == pytest.approx([-0.5, 0, 0.5])


@given(st.lists(st.floats(0, 300), min_size=1, max_size=8))
def test_spread_labels_keep_their_order_and_their_distance(wanted):
    placed = spread(wanted, 17)
    ordered = sorted(placed)
    assert all(b - a >= 17 - 1e-6 for a, b in itertools.pairwise(ordered))
    assert sorted(range(len(wanted)), key=lambda i: placed[i]) == sorted(
        range(len(wanted)), key=lambda i: wanted[i]
    )


@given(st.text("abc ", max_size=60))
def test_wrapping_loses_no_word(words):
    assert " ".join(wrap(words, 60, 14)).split() == words.split()


@pytest.fixture
def picture() -> Picture:
    drawing = stacked_bars([Row(name="t", pieces={"weights": GB})], axis_bytes=GB, label="1 GB of weights")
    return Picture(
        svg=drawing, words="1 GB of weights", table=[["", "t"], ["weights", "1 GB"]], title="A title"
    )


def test_the_static_form_needs_neither_script_nor_inline_svg(picture):
    """GitHub drops scripts, styles and inline SVG: what is left must still be a picture and its numbers."""
    html = re.sub(r"<style>.*?</style>", "", static_html(picture))
    assert "<svg" not in html
    assert "<script" not in html
    assert 'alt="1 GB of weights"' in html
    assert "<table>" in html
    assert "1 GB</td>" in html


def test_the_image_of_the_static_form_is_a_whole_svg_file_of_its_own(picture):
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', static_html(picture))[1]
    drawing = base64.b64decode(data).decode()
    assert parsed(drawing).tag == f"{SVG}svg"
    assert "var(--jp" not in drawing
    assert "prefers-color-scheme:dark" in drawing


def test_a_drawing_alone_still_says_its_label(picture):
    assert parsed(alone(picture.svg)).get("aria-label") == "1 GB of weights"


def test_a_message_is_one_line_without_an_image():
    html = message("No bars yet: a < b.")._repr_html_()
    assert "<img" not in html
    assert "a &lt; b" in html


def test_plain_text_of_a_picture_is_its_sentence(picture):
    assert repr(picture) == "1 GB of weights"


def test_axis_labels_are_the_course_s_own_words_for_bytes():
    drawing = stacked_bars([Row(name="t", pieces={"weights": GB})], axis_bytes=200 * GB, label="x")
    assert {"0", bytes_text(100 * GB), bytes_text(200 * GB)} <= set(words_in(drawing))
