"""The still pictures: what they draw equals what they were given, and their titles are computed from it."""

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from memory_budget import budget, figures
from memory_budget.figures.before_after import same_bits
from memory_budget.figures.learning import holds, loss_past_best
from memory_budget.figures.measures import MEASURES, measure_bytes

SVG = "{http://www.w3.org/2000/svg}"
SWEEP = {
    "sgd": [(0.1, 3.0), (0.3, 2.8), (1.0, 3.0), (3.0, math.inf)],
    "adamw": [(0.001, 2.9), (0.003, 2.5), (0.01, 2.6), (0.03, 3.3)],
}
TIMELINE = [
    ("step 1 forward", {"weights": 4, "activations": 0}),
    ("step 1 forward end", {"weights": 4, "activations": 6}),
    ("step 1 backward", {"weights": 4, "activations": 5, "gradients": 4}),
    ("step 1 optimizer", {"weights": 4, "gradients": 4}),
]


def points(picture) -> list[str]:
    root = ElementTree.fromstring(picture.svg)
    return [element.get("data-point") for element in root.iter() if element.get("data-point")]


def words_in(picture) -> list[str]:
    return [element.text for element in ElementTree.fromstring(picture.svg).iter(f"{SVG}text")]


def is_whole(picture) -> bool:
    """A title, a label that is the sentence, and a table: the three ways to read a picture."""
    root = ElementTree.fromstring(picture.svg)
    return bool(picture.title) and root.get("aria-label") == picture.words and len(picture.table) > 1


# ---------------------------------------------------------------- measures


def test_every_measure_is_proportional_to_what_is_trained():
    for name in MEASURES:
        assert measure_bytes(name, 10**9) == pytest.approx(1000 * measure_bytes(name, 10**6), rel=1e-3)


def test_measures_cost_what_the_lesson_counts():
    each = {name: measure_bytes(name, 10**9) / 10**9 for name in MEASURES}
    assert each == pytest.approx({
        "AdamW": 16, "SGD with momentum": 12, "8-bit AdamW": 10.03125, "SGD": 8, "Adafactor": 8,
        "pure bf16": 8,
        "ZeRO-3, each of 8 GPUs": 2,
    })  # fmt: skip


def test_the_adapter_is_a_step_along_the_same_line():
    picture = figures.measures()
    assert is_whole(picture)
    assert "1,750 times further left: 112 GB become 64 MB" in picture.words
    assert budget.training_bytes(4 * 10**6) == 64 * 10**6


def test_all_lines_are_drawn_parallel():
    root = ElementTree.fromstring(figures.measures().svg)
    slopes = []
    for path in root.iter(f"{SVG}path"):
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", path.get("d"))]
        if len(numbers) == 12:  # six points: one line
            slopes += [(numbers[-1] - numbers[1]) / (numbers[-2] - numbers[0])]
    assert len(slopes) == 5
    assert max(slopes) - min(slopes) < 1e-3


# ---------------------------------------------------------------- gradients


def test_each_tensor_is_one_dot_at_its_own_size():
    norms = {"h.0.ln.weight": 0.001, "h.1.ln.weight": 0.01, "wte.weight": 0.1}
    picture = figures.gradient_spread(norms)
    assert is_whole(picture)
    assert sorted(points(picture)) == sorted(norms)
    root = ElementTree.fromstring(picture.svg)
    x = {e.get("data-point"): float(e.get("cx")) for e in root.iter(f"{SVG}circle") if e.get("data-point")}
    assert x["h.1.ln.weight"] - x["h.0.ln.weight"] == pytest.approx(
        x["wte.weight"] - x["h.1.ln.weight"], abs=0.2
    )
    assert "factor of 100" in picture.title


def test_layers_of_one_kind_share_a_row():
    picture = figures.gradient_spread({f"h.{i}.attn.c_attn.weight": 10.0**-i for i in range(4)})
    assert words_in(picture).count("attn.c_attn.weight") == 1


def test_a_gradient_of_zero_is_left_out_not_drawn_at_minus_infinity():
    assert points(figures.gradient_spread({"a": 0.0, "b": 0.1, "c": 0.2})) == ["b", "c"]


def test_many_kinds_keep_the_extremes():
    norms = {f"tensor_{i}": 1.5**i for i in range(1, 60)}
    picture = figures.gradient_spread(norms)
    assert {"tensor_1", "tensor_59"} <= set(points(picture))
    assert len(points(picture)) == 30


@pytest.mark.parametrize(
    "norms", [None, {}, [1, 2], "x", {"a": None}, {"a": "1"}, {"a": math.nan}, {"a": -1.0}, {"a": 0.0}]
)
def test_gradients_that_cannot_be_drawn_give_one_line(norms):
    picture = figures.gradient_spread(norms)
    assert picture.svg == ""
    assert picture.words.startswith("No picture yet: ")


# ---------------------------------------------------------------- learning rates


def test_each_run_is_one_mark_and_blown_up_ones_are_crosses():
    picture = figures.loss_against_learning_rate(SWEEP)
    assert is_whole(picture)
    assert len(points(picture)) == sum(map(len, SWEEP.values()))
    assert sum("blown up" in point for point in points(picture)) == 1


def test_the_title_says_who_holds_ten_times_past_the_best():
    assert figures.loss_against_learning_rate(SWEEP).title == (
        "At ten times its best learning rate SGD has blown up; AdamW has not"
    )


def test_the_title_claims_nothing_that_the_data_do_not_show():
    both = {"sgd": SWEEP["adamw"], "adamw": SWEEP["adamw"]}
    assert figures.loss_against_learning_rate(both).title == (
        "The lowest loss, 2.50, is SGD's, at learning rate 0.003"
    )


def test_ten_times_past_the_best_is_the_first_run_there():
    assert loss_past_best(SWEEP["sgd"]) == (3.0, math.inf)
    assert loss_past_best(SWEEP["sgd"][:3]) is None
    assert holds(SWEEP["adamw"]) is True


@pytest.mark.parametrize(
    "sweep",
    [None, {}, 3, {"sgd": None}, {"sgd": "abc"}, {"sgd": []}, {"sgd": [(0, 1)]}, {"sgd": [(0.1, math.nan)]},
     {"sgd": [(0.1,)]}, {"sgd": [("0.1", 2)]}],
)  # fmt: skip
def test_sweeps_that_cannot_be_drawn_give_one_line(sweep):
    picture = figures.loss_against_learning_rate(sweep)
    assert picture.svg == ""
    assert picture.words.startswith("No picture yet: ")


# ---------------------------------------------------------------- along the step


def test_the_peak_is_marked_and_named():
    picture = figures.timeline(TIMELINE)
    assert is_whole(picture)
    assert "peak 13 B: step 1 backward" in words_in(picture)
    assert picture.title == (
        "The peak, 13 B, comes at 'step 1 backward', which holds weights, gradients and activations"
    )


def test_the_areas_stack_to_the_sum_of_each_moment():
    """The upper edge of the uppermost area is the total of each moment, read off the drawing."""
    root = ElementTree.fromstring(figures.timeline(TIMELINE).svg)
    areas = [path for path in root.iter(f"{SVG}path") if path.get("data-class")]
    assert [area.get("data-class") for area in areas] == ["weights", "gradients", "activations"]
    edge = [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", areas[-1].get("d"))]
    zero, end, top = 300, 44, 15  # coordinates of 0 and of the axis's end, 15 B
    width = (625 - 70) / len(TIMELINE)
    for i, (_, held) in enumerate(TIMELINE):
        middle = 70 + (i + 0.5) * width
        heights = [y for (x, y), (x2, _) in itertools.pairwise(edge) if min(x, x2) <= middle <= max(x, x2)]
        total = (zero - min(heights)) / (zero - end) * top
        assert total == pytest.approx(sum(held.values()), abs=0.05)


def test_a_measurement_is_drawn_by_its_timeline():
    class Measured:
        timeline = TIMELINE

    assert figures.timeline(Measured()).words == figures.timeline(TIMELINE).words


@pytest.mark.parametrize(
    "measured",
    [None, [], 5, "abc", [1], [("a", None)], [("a", {"wieghts": 1})], [("a", {"weights": math.nan})],
     [("a", {"weights": -1})], [("a", {"weights": 0})]],
)  # fmt: skip
def test_timelines_that_cannot_be_drawn_give_one_line(measured):
    picture = figures.timeline(measured)
    assert picture.svg == ""
    assert picture.words.startswith("No picture yet: ")


# ---------------------------------------------------------------- before and after


def test_every_parameter_is_drawn_and_the_frozen_stand_apart():
    before = {"body": [[1.0, 2.0]], "head": [3.0]}
    after = {"body": [[1.0, 2.0]], "head": [3.5]}
    picture = figures.before_and_after(before, after, frozen={"body"})
    assert is_whole(picture)
    assert points(picture) == ["body[0, 0]", "body[0, 1]", "head[0]"]
    assert picture.title == "1 of 3 parameters moved; the 2 frozen ones are what they were, to the last bit"
    assert picture.table[3] == ["head[0]", "3", "3.5", "moved +0.5"]
    assert picture.table[1][3] == "frozen, same bits"


def test_a_frozen_parameter_that_moved_by_one_bit_is_found():
    picture = figures.before_and_after({"b": [1.0]}, {"b": [math.nextafter(1.0, 2)]}, frozen={"b"})
    assert picture.title == "1 of 1 frozen parameters moved: they were not frozen"


def test_bits_are_compared_not_values():
    assert not same_bits(0.0, -0.0)
    assert same_bits(0.1 + 0.2, 0.30000000000000004)


def test_a_real_step_of_adamw_and_of_sgd_moves_the_head_only():
    torch = pytest.importorskip("torch")
    for make in (torch.optim.AdamW, torch.optim.SGD):
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
        model[0].requires_grad_(False)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        optimizer = make(model.parameters(), lr=0.1)
        model(torch.ones(1, 4)).square().sum().backward()
        optimizer.step()
        picture = figures.before_and_after(before, model.state_dict(), frozen={"0.weight", "0.bias"})
        assert picture.title == (
            "8 of 23 parameters moved; the 15 frozen ones are what they were, to the last bit"
        )


def test_a_large_model_is_drawn_in_part_and_says_so():
    values = {f"t{i}": [float(j) for j in range(100)] for i in range(4)}
    picture = figures.before_and_after(values, values)
    assert len(points(picture)) == 48
    assert "Drawn: 48 of 400 parameters" in picture.words


@pytest.mark.parametrize(
    ("before", "after", "frozen"),
    [
        (None, None, ()),
        ({}, {}, ()),
        ({"a": [1.0]}, {"b": [1.0]}, ()),
        ({"a": [1.0]}, {"a": [1.0, 2.0]}, ()),
        ({"a": ["x"]}, {"a": ["x"]}, ()),
        ({"a": [math.nan]}, {"a": [1.0]}, ()),
        ({"a": [1.0]}, {"a": [1.0]}, {"body"}),
        ({"a": [1.0]}, {"a": [1.0]}, 3),
        ({"a": []}, {"a": []}, ()),
    ],
)
def test_parameters_that_cannot_be_compared_give_one_line(before, after, frozen):
    picture = figures.before_and_after(before, after, frozen)
    assert picture.svg == ""
    assert picture.words.startswith("No picture yet: ")


# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize(
    "picture",
    [
        figures.measures(),
        figures.gradient_spread({"a": 0.1, "b": 1.0}),
        figures.loss_against_learning_rate(SWEEP),
        figures.timeline(TIMELINE),
        figures.before_and_after({"a": [1.0]}, {"a": [2.0]}),
    ],
)
def test_alternative_text_and_title_travel_with_the_image(picture):
    html = picture._repr_html_()
    assert f"<strong>{picture.title.replace(chr(39), '&#x27;')}</strong>" in html
    assert 'alt="' in html
    assert "<svg" not in html
