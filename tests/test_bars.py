"""The live bars: their numbers are the budget's, their words follow the slider, their cell stands alone."""

import base64
import itertools
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from memory_budget import bars, budget
from memory_budget.bars import pictures, typed
from memory_budget.devices import DEVICES, fit_words
from memory_budget.optimizers import OPTIMIZERS
from memory_budget.recipes import RECIPES
from memory_budget.units import GB, bytes_text

SVG = "{http://www.w3.org/2000/svg}"
WIDGETS = (bars.regimes, bars.training, bars.escape, bars.peak, bars.inference_and_training)
FP32 = {"weights": 4, "master_copy": 0, "gradients": 4, "first_moment": 4, "second_moment": 4}
MIXED = {"weights": 2, "master_copy": 4, "gradients": 2, "first_moment": 4, "second_moment": 4}


def drawn(picture) -> list[dict[str, float]]:
    """Bytes by class of every bar, read off the drawing (a bar begins where its first piece begins)."""
    rows: dict[str, dict[str, float]] = {}
    for group in ElementTree.fromstring(picture.svg).iter(f"{SVG}g"):
        if "data-class" in group.attrib:
            y = group.find(f"{SVG}rect").get("y")
            rows.setdefault(y, {})[group.get("data-class")] = float(group.get("data-bytes"))
    return list(rows.values())


def label(picture) -> str:
    return ElementTree.fromstring(picture.svg).get("aria-label")


def kept(sizes) -> dict[str, float]:
    return {key: size for key, size in sizes.items() if size}


# ---------------------------------------------------------------- numbers are the budget's


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_regime_draws_its_own_terms_beside_the_lesson_s_sixteen(recipe):
    picture = pictures.regime(recipe)
    assert drawn(picture) == [RECIPES[recipe].terms(), RECIPES["mixed"].terms()]
    assert f"= {RECIPES[recipe].bytes_per_parameter():g} bytes" in picture.words


@pytest.mark.parametrize("size", [10**8, 7 * 10**9, 10**11])
@pytest.mark.parametrize("recipe", ["fp32", "mixed", "pure-bf16"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "adamw-8bit"])
def test_training_draws_the_budget_s_bytes(size, recipe, optimizer):
    picture = pictures.training(size, recipe, optimizer, 80 * GB)
    expected = kept(budget.predict(budget.Setup(parameters=size, recipe=recipe, optimizer=optimizer)).bytes)
    beside = "mixed" if recipe == "fp32" else "fp32"
    other = kept(budget.predict(budget.Setup(parameters=size, recipe=beside, optimizer=optimizer)).bytes)
    assert drawn(picture) == [{"weights": expected["weights"]}, expected, other]


def test_seven_billion_says_the_sum_of_the_lesson():
    words = pictures.training(7 * 10**9, "mixed", "adamw", 80 * GB).words
    assert words.startswith("7B x 16 bytes = 112 GB, short by 32 GB on 80 GB")


@pytest.mark.parametrize(
    ("size", "verdict"),
    [(5 * 10**9, "fits on 80 GB"), (5 * 10**9 + 1, "short by 16 B on 80 GB")],
)
def test_words_turn_exactly_at_the_device_s_last_byte(size, verdict):
    assert verdict in pictures.training(size, "mixed", "adamw", 80 * GB).words
    assert fit_words(16 * size, 80 * GB) == verdict


@pytest.mark.parametrize("share", bars.SHARES)
def test_escape_draws_two_bytes_for_frozen_and_sixteen_for_trained(share):
    whole, part = drawn(pictures.escape("7B", share, 16, "bf16"))
    trained = round(7e9 * share)
    assert sum(whole.values()) == 112 * GB
    assert part.get("frozen_weights", 0) == 2 * (7 * 10**9 - trained)
    assert sum(part.values()) == budget.finetune_bytes(7 * 10**9 - trained, trained)


@pytest.mark.parametrize("model", [value for _, value in bars.ESCAPE_MODELS if not value[0].isdigit()])
def test_escape_takes_lora_on_every_architecture_that_it_offers(model):
    for rank in bars.RANKS:
        for _, base in bars.BASE_OPTIONS:
            picture = pictures.escape(model, 1.0, rank, base)
            setup = budget.Setup(model=model, lora_rank=rank, base=None if base == "bf16" else base)
            assert drawn(picture)[1] == kept(budget.predict(setup).bytes)


def test_peak_draws_every_moment_and_names_the_fullest():
    picture = pictures.peak(8, "foreach", "none", first_step=True)
    here = pictures.peak_budget(8, "foreach", "none", True)
    assert drawn(picture) == [kept(sizes) for sizes in here.moments.values()]
    assert f"the peak is {bytes_text(here.peak_bytes)}, at the moment '{here.peak_moment}'" in picture.words


def test_the_first_step_begins_without_the_moments_that_a_later_one_begins_with():
    first, later = (drawn(pictures.peak(1, "foreach", "none", first_step)) for first_step in (True, False))
    assert list(first[0]) == ["weights"]
    assert list(later[0]) == ["weights", "first_moment", "second_moment"]
    assert "first_moment" not in first[1]  # at the end of forward
    assert later[1]["first_moment"] == pytest.approx(later[1]["weights"], rel=1e-5)  # and step counters
    assert first[-1] == later[-1]  # after the step both keep the same


def test_one_of_a_thing_is_not_said_as_many():
    assert "1 sequence of 512" in pictures.peak(1, "foreach", "none").words
    assert "1 times" not in pictures.escape("7B", 1.0, 8, "bf16").words


@pytest.mark.parametrize("value_bytes", [2, 4])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_inference_and_training_draw_every_value_equally_wide(value_bytes, optimizer):
    running, training = drawn(
        pictures.inference_and_training(13 * 10**9, 1.0, optimizer, value_bytes, 80 * GB)
    )
    extra = {"sgd": 1, "momentum": 2, "adam": 3}[optimizer]
    assert sum(running.values()) == budget.inference_bytes(13 * 10**9, value_bytes)
    assert sum(training.values()) == 13 * 10**9 * value_bytes * (1 + extra)


def test_the_axis_stands_still_while_the_trainable_share_moves():
    """The 26 GB of weights are as long at 0.01% as at 100%."""
    lengths = set()
    for share in (1.0, 0.1, 0.0001):
        svg = pictures.inference_and_training(13 * 10**9, share, "adam", 2, 80 * GB).svg
        group = next(g for g in ElementTree.fromstring(svg).iter(f"{SVG}g") if "data-class" in g.attrib)
        lengths.add(group.find(f"{SVG}rect").get("width"))
    assert len(lengths) == 1


def test_training_is_never_said_to_fit_without_its_activations():
    words = pictures.inference_and_training(30 * 10**9, 0.0001, "adam", 2, 80 * GB).words
    assert "before its activations, which leaves 19.98 GB of 80 GB for them" in words
    assert "training takes 104 GB before its activations, and without them already short by 24 GB" in (
        pictures.inference_and_training(13 * 10**9, 1.0, "adam", 2, 80 * GB).words
    )


def test_the_figures_of_the_book_come_out():
    """Huyen, AI Engineering, chapter 7: 13B in 2 bytes, 31.2 GB to run, 78 GB more to train all of it."""
    words = pictures.inference_and_training(13 * 10**9, 1.0, "adam", 2, 24 * GB).words
    assert (
        "running takes 31.2 GB with the 20% margin for activations and key-value cache, short by 7.2 GB"
        in words
    )
    assert "add 78 GB to the weights" in words


# ---------------------------------------------------------------- widgets


@pytest.mark.parametrize("make", WIDGETS)
def test_every_position_of_every_control_draws_and_says_what_it_draws(make):
    widget = make()
    for control in widget.controls.values():
        options = [option[1] for option in control.options]
        start = control.value
        for value in options:
            control.value = value
            assert label(widget.picture) == widget.words
            assert widget.words in re.sub(r"&#x27;", "'", widget.canvas.value)
        control.value = start


@pytest.mark.parametrize("make", WIDGETS)
def test_no_label_is_cut_and_every_control_has_one(make):
    for control in make().controls.values():
        assert control.description
        assert control.style.description_width == "130px"
        assert len(control.description) * 7.5 <= 130


@pytest.mark.parametrize("make", WIDGETS)
def test_the_picture_keeps_its_height_while_a_control_moves(make):
    """Nothing below it may jump: the drawing's height is the same at every position."""
    widget = make()
    heights = set()
    for control in widget.controls.values():
        start = control.value
        for _, value in control.options:
            control.value = value
            heights.add(ElementTree.fromstring(widget.picture.svg).get("viewBox"))
        control.value = start
    assert len(heights) == 1


@pytest.mark.parametrize("make", WIDGETS)
def test_the_cell_keeps_a_picture_with_its_words_for_viewers_without_widgets(make):
    bundle = make()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "data:image/svg+xml;base64," in bundle["text/html"]
    assert "<table>" in bundle["text/html"]
    assert bundle["text/plain"] == make()._repr_mimebundle_()["text/plain"]  # the same in every run
    assert "model_id" not in bundle["text/plain"]


def test_the_static_form_is_the_picture_of_the_moment():
    widget = bars.training()
    widget.controls["parameters"].value = 70 * 10**9
    bundle = widget._repr_mimebundle_()
    assert bundle["text/plain"].startswith("70B x 16 bytes = 1,120 GB")
    data = re.search(r"base64,([^\"]+)", bundle["text/html"])[1]
    assert "1,120 GB" in base64.b64decode(data).decode()


def test_one_move_sends_one_small_message():
    widget, sent = bars.training(), []
    widget.canvas.observe(lambda change: sent.append(change.new), names="value")
    widget.controls["parameters"].value = 13 * 10**9
    assert len(sent) == 1
    assert len(sent[0]) < 12_000


def test_the_axis_stands_still_over_most_moves_of_the_size():
    """A rescaled axis hides growth: it may change a few times over three decades, not at every move."""
    axes = [re.findall(r">([\d,.]+ [KMGT]?B)</text>", pictures.training(size, "mixed", "adamw", 80 * GB).svg)
            for size in bars.SIZES]  # fmt: skip
    ends = [axis[-1] for axis in axes]
    assert sum(a != b for a, b in itertools.pairwise(ends)) <= 8


def test_sizes_run_from_a_tenth_to_a_hundred_billion_in_order():
    assert bars.SIZES[0] == 10**8
    assert bars.SIZES[-1] == 10**11
    assert list(bars.SIZES) == sorted(set(bars.SIZES))
    assert {3 * 10**9, 7 * 10**9, 13 * 10**9, 7 * 10**10} <= set(bars.SIZES)


def test_shares_run_from_all_down_to_a_ten_thousandth():
    assert bars.SHARES[0] == 1.0
    assert bars.SHARES[-1] == 0.0001
    assert list(bars.SHARES) == sorted(bars.SHARES, reverse=True)


def test_escape_shows_the_share_or_the_rank_never_both():
    widget = bars.escape()
    share, rank = widget.controls["share"], widget.controls["rank"]
    assert (share.layout.display, rank.layout.display) == ("", "none")
    widget.controls["model"].value = "llama-2-7b"
    assert (share.layout.display, rank.layout.display) == ("none", "")


def test_every_optimizer_and_device_can_be_chosen():
    assert {value for _, value in bars.OPTIMIZER_OPTIONS} == set(OPTIMIZERS)
    assert {value for _, value in bars.DEVICE_OPTIONS} == {device.bytes for device in DEVICES}


# ---------------------------------------------------------------- what the learner typed


def test_both_bars_reach_the_same_mark():
    picture = bars.sixteen_bytes(FP32, MIXED)
    assert drawn(picture) == [kept(FP32), kept(MIXED)]
    assert picture.words.startswith("Both bars reach 16 bytes")
    assert "smaller: weights, gradients" in picture.words
    assert "larger: master copy" in picture.words


def test_wrong_numbers_are_drawn_as_they_were_typed():
    picture = bars.sixteen_bytes(FP32, MIXED | {"first_moment": 2})
    assert drawn(picture)[1]["first_moment"] == 2
    assert picture.words.startswith("fp32 16 bytes, mixed precision 14")


@pytest.mark.parametrize(
    ("value", "remark"),
    [
        (None, "weights not filled in yet"),
        (..., "weights not filled in yet"),
        ("four", "'four' is not a number"),
        (True, "True is not a number"),
        ([4], "[4] is not a number"),
        (float("nan"), "nan cannot be drawn"),
        (math.inf, "inf cannot be drawn"),
        (-4, "-4 is less than nothing"),
        (1e9, "too much to draw"),
        pytest.param(10**400, "is not a number", id="too-large-for-a-float"),
        (4 + 0j, "is not a number"),
    ],
)
def test_what_cannot_be_drawn_gets_one_clear_remark(value, remark):
    picture = bars.sixteen_bytes(FP32 | {"weights": value}, MIXED)
    (said,) = [
        part for part in picture.words.split(". ") if part.startswith(("fp32, weights:", "fp32: weights"))
    ]
    assert remark in said
    assert "weights" not in drawn(picture)[0]


def test_numpy_and_torch_numbers_are_drawn():
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    picture = bars.sixteen_bytes(FP32 | {"weights": numpy.float32(4), "gradients": torch.tensor(4)}, MIXED)
    assert drawn(picture)[0] == kept(FP32)


@pytest.mark.parametrize("typed_in", [None, 5, "16", [4, 4], {}, dict.fromkeys(FP32)])
def test_nothing_typed_draws_two_empty_bars_and_says_so_in_one_line(typed_in):
    picture = bars.sixteen_bytes(typed_in, None)
    assert drawn(picture) == []
    assert "0 bytes" in picture.svg
    assert picture.words.startswith("No bars yet: they grow with what you type.")
    assert "\n" not in picture.words


def test_a_misspelt_row_is_named_with_the_right_names():
    picture = bars.sixteen_bytes({**FP32, "frist_moment": 4}, MIXED)
    assert "no row is called 'frist_moment'; the rows are weights, master_copy" in picture.words


def test_a_learner_s_own_class_cannot_break_the_picture():
    class Rude:
        def __float__(self):
            raise ValueError("no")

        def __repr__(self):
            raise RuntimeError("no")

    assert "a Rude is not a number" in bars.sixteen_bytes(FP32 | {"weights": Rude()}, MIXED).words


def test_half_filled_bars_grow_without_a_verdict():
    assert typed.sixteen_bytes(FP32, {}).words.startswith("So far: fp32 16 bytes, mixed precision 0 bytes.")


# ---------------------------------------------------------------- predicted and measured


def test_predicted_and_measured_stand_on_one_axis_with_the_difference():
    picture = bars.predicted_and_measured(
        {"weights": 100, "gradients": 100}, {"weights": 100, "gradients": 90}
    )
    assert drawn(picture) == [{"weights": 100, "gradients": 100}, {"weights": 100, "gradients": 90}]
    assert "the prediction is 5.3% too high" in picture.words
    assert picture.table[-1][-1] == "+5.3%"


def test_a_budget_is_taken_at_its_peak():
    here = budget.predict(budget.Setup(model="gpt2", recipe="fp32", batch=8))
    picture = bars.predicted_and_measured(here, {"weights": here.peak_bytes})
    assert sum(drawn(picture)[0].values()) == here.peak_bytes
    assert "the prediction is right to 0.1%" in picture.words


@pytest.mark.parametrize(
    ("predicted", "measured"),
    [
        (None, {"weights": 1}),
        ({"weights": 1}, None),
        ({"weights": 1}, {}),
        ({"weights": float("nan")}, {"weights": 1}),
        ({"weights": -1}, {"weights": 1}),
        ({"weights": "1 GB"}, {"weights": 1}),
        ({"wieghts": 1}, {"weights": 1}),
        (7, {"weights": 1}),
    ],
)
def test_what_cannot_be_compared_gives_one_line(predicted, measured):
    picture = bars.predicted_and_measured(predicted, measured)
    assert picture.svg == ""
    assert picture.words.startswith("No bars yet: ")
    assert "\n" not in picture.words


# ---------------------------------------------------------------- the package


def test_drawing_needs_neither_ipywidgets_nor_torch():
    code = (
        "import sys; from memory_budget import figures; figures.measures();"
        "print(sorted({'ipywidgets', 'torch', 'matplotlib', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
