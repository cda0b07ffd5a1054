"""The memory model: sums by hand, published regimes, and laws that every set-up obeys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_budget import (
    ARCHITECTURES,
    RECIPES,
    Setup,
    Transformer,
    adapters,
    architecture,
    budget,
    predict,
)
from memory_budget.optimizers import OPTIMIZERS
from memory_budget.palette import CLASS_KEYS
from memory_budget.units import GB


@pytest.mark.parametrize(("parameters", "gb"), [("1.5B", 24), (7e9, 112), ("70B", 1120), ("3B", 48)])
def test_full_training_takes_sixteen_bytes_a_parameter(parameters: Any, gb: float) -> None:
    assert budget.training_bytes(parameters) == gb * GB


def test_an_adapter_of_4_million_beside_7_billion_is_a_rounding_error() -> None:
    assert budget.finetune_bytes(7e9, 4e6) == 14_064_000_000
    assert budget.finetune_bytes("7B", "20M") == 14_320_000_000


def test_eight_bit_moments_take_ten_bytes_and_their_constants() -> None:
    assert budget.training_bytes("70B", optimizer="adamw-8bit") == 702_187_500_000


def test_the_five_terms_of_3b_are_6_12_6_12_and_12_gb() -> None:
    terms = {key: size / GB for key, size in budget.terms("3B").items() if size}
    assert terms == {
        "weights": 6, "master_copy": 12, "gradients": 6, "first_moment": 12, "second_moment": 12,
    }  # fmt: skip


def test_inference_takes_the_weights_and_a_fifth_more() -> None:
    assert budget.inference_bytes("13B", 2) == 31_200_000_000
    assert budget.inference_bytes("13B", 2, margin=0) == 26_000_000_000
    with pytest.raises(ValueError, match="above 0"):
        budget.inference_bytes("13B", 0)


def test_the_sentence_says_the_sum_and_the_verdict() -> None:
    seven = predict(Setup(parameters="7B"))
    assert seven.sentence(80 * GB) == "7B x 16 bytes = 112 GB, short by 32 GB on 80 GB"
    assert seven.sentence(141 * GB) == "7B x 16 bytes = 112 GB, fits on 141 GB"
    assert seven.short_by_bytes(80 * GB) == 32 * GB
    assert not seven.fits(80 * GB)


def test_the_sentence_names_the_peak_where_it_is_not_the_sum() -> None:
    words = predict(Setup(parameters="7B", recipe="fp32")).sentence(141 * GB)
    assert words == "7B x 16 bytes = 112 GB, 140 GB at the peak (inside step), fits on 141 GB"


def test_the_sentence_tells_frozen_and_trained_apart() -> None:
    words = predict(Setup(parameters="7.004B", trainable=4_000_000)).sentence(24 * GB)
    assert words == "7B frozen x 2 bytes + 4M trained x 16 bytes = 14.06 GB, fits on 24 GB"


@pytest.mark.parametrize("recipe", RECIPES)
def test_prediction_and_short_helpers_agree(recipe: str) -> None:
    result = predict(Setup(parameters="1B", recipe=recipe))
    assert result.bytes == budget.terms("1B", recipe=recipe)
    assert result.total_bytes == budget.training_bytes("1B", recipe)
    assert result.bytes_per_trainable == RECIPES[recipe].bytes_per_parameter()


def test_state_is_not_there_before_the_first_step() -> None:
    first = predict(Setup(parameters="1B", recipe="fp32", first_step=True, implementation="fused"))
    later = predict(Setup(parameters="1B", recipe="fp32", implementation="fused"))
    assert sum(first.moments["before step"].values()) == 8 * GB
    assert sum(later.moments["before step"].values()) == 16 * GB
    assert first.moments["after step"] == later.moments["after step"]


@pytest.mark.parametrize(
    ("recipe", "implementation", "each"),
    [("fp32", "foreach", 20), ("pure-bf16", "foreach", 10), ("fp32", "fused", 16), ("mixed", None, 16)],
)
def test_adams_own_temporaries_make_the_peak(recipe: str, implementation: str | None, each: float) -> None:
    result = predict(Setup(parameters="1B", recipe=recipe, implementation=implementation))
    assert result.peak_bytes == each * GB


def gpt(layers: int, vocabulary: int) -> Transformer:
    """The small GPT, 256 wide, on which torch's MemTracker counted the peaks below."""
    return replace(ARCHITECTURES["small-gpt"], layers=layers, vocabulary=vocabulary, context=128)


@pytest.mark.parametrize(
    ("choices", "each"),
    [
        (dict(recipe="fp32", implementation="foreach"), 20.0),
        (dict(recipe="pure-bf16", implementation="foreach"), 10.0),
        (dict(recipe="fp32", implementation="for-loop"), 16.4),
        (dict(recipe="fp32", implementation="fused"), 16.1),
        (dict(recipe="autocast", implementation="fused"), 16.1),
        (dict(recipe="autocast", accumulation=2), 18.3),
        (dict(recipe="autocast", set_to_none=False), 18.3),
        (dict(recipe="fp32", accumulation=2), 16.44),
        (dict(recipe="fp32", optimizer_in_backward=True), 12.87),
    ],
)
def test_peaks_that_torch_counted_on_a_small_gpt_with_8_tokens(choices: dict[str, Any], each: float) -> None:
    result = predict(Setup(model=gpt(6, 256), batch=1, sequence=8, device="cpu", **choices))
    assert result.peak_bytes / result.trainable == pytest.approx(each, rel=0.003)


def test_qlora_counts_more_than_780_gb_for_a_full_fine_tune_of_65b() -> None:
    assert 780 < predict(Setup(model="llama-65b", recipe="no-master")).total_bytes / GB < 785


def test_autocast_peaks_at_16_and_with_accumulation_at_18() -> None:
    once = Setup(parameters="1B", recipe="autocast", implementation="fused")
    assert predict(once).peak_bytes == 16 * GB
    for more in (dict(accumulation=2), dict(set_to_none=False), dict(recipe="autocast-accumulate")):
        result = predict(replace(once, **more))
        assert (result.peak_bytes, result.peak_moment) == (18 * GB, "end of forward")


def test_fp16_holds_its_second_gradients_for_the_step_only() -> None:
    result = predict(Setup(parameters="1B", recipe="fp16-both-gradients"))
    assert (result.peak_bytes, result.peak_moment) == (20 * GB, "inside step")
    assert sum(result.moments["before step"].values()) == 16 * GB


def test_an_update_in_backward_never_holds_all_gradients() -> None:
    result = predict(Setup(model="gpt2", recipe="fp32", optimizer_in_backward=True, implementation="fused"))
    largest = 4 * 50257 * 768
    assert result.bytes["gradients"] == largest
    assert sum(result.moments["before step"].values()) - 12 * result.trainable < 4096
    assert result.peak_moment == "backward peak"


@pytest.mark.parametrize(("stage", "each"), [(0, 16), (1, 4 + 12 / 8), (2, 2 + 14 / 8), (3, 16 / 8)])
def test_zero_divides_what_its_stage_names(stage: int, each: float) -> None:
    assert predict(Setup(parameters="8B", zero=stage, gpus=8)).total_bytes == each * 8 * GB


def test_zero_3_brings_one_layer_together_where_the_layers_are_known() -> None:
    result = predict(Setup(model="llama-2-7b", zero=3, gpus=8))
    layer = 2 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096)
    assert result.moments["end of forward"]["temporaries"] == max(layer, 2 * 32000 * 4096)


def test_zero_3_gathers_a_layers_weights_and_gradients_in_backward() -> None:
    result = predict(Setup(model="llama-2-7b", zero=3, gpus=8))
    layer = 2 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096)
    assert result.moments["backward peak"]["temporaries"] == 2 * layer


def test_autocast_copies_linear_layers_and_the_tied_table_that_serves_as_head() -> None:
    result = predict(Setup(model="gpt2", recipe="autocast-accumulate"))
    layer = 12 * 768**2 + 9 * 768  # four matrices and their biases; norms stay as they are
    assert result.bytes["temporaries"] == 2 * (12 * layer + 50257 * 768)


def test_a_step_that_runs_on_the_cpu_needs_nothing_on_the_device() -> None:
    away = Setup(parameters="1B", recipe="fp32", implementation="foreach", offload="optimizer")
    assert predict(away).moments["inside step"]["temporaries"] == 0


def test_offload_moves_bytes_and_removes_none() -> None:
    here = predict(Setup(parameters="1B"))
    away = predict(Setup(parameters="1B", offload="optimizer,gradients"))
    assert away.total_bytes == 2 * GB
    assert sum(away.host_bytes.values()) + away.total_bytes == here.total_bytes


def test_the_last_layers_alone_can_be_trained() -> None:
    result = predict(Setup(model="gpt2", last_layers=2))
    layer = 12 * 768**2 + 13 * 768
    assert result.trainable == 2 * layer
    assert result.trainable + result.frozen == architecture("gpt2").parameters


def test_a_quantised_base_keeps_its_other_tensors_in_16_bit() -> None:
    result = predict(Setup(model="llama-2-7b", lora_rank=8, base="nf4"))
    assert result.bytes["frozen_weights"] == adapters.base_bytes("llama-2-7b", "nf4")
    assert result.bytes_per_trainable == pytest.approx(16, rel=1e-3)


def test_a_step_counter_of_4_bytes_comes_with_each_tensor() -> None:
    result = predict(Setup(model="gpt2", recipe="fp32"))
    assert result.total_bytes == 16 * 124_439_808 + 4 * 148


def test_what_holds_the_peak_is_named_largest_first() -> None:
    result = predict(Setup(parameters="7B", optimizer="momentum"))
    assert result.peak_holders == ["master_copy", "first_moment", "weights", "gradients"]


SETUPS = st.fixed_dictionaries(
    dict(
        model=st.sampled_from(["small-gpt", "gpt2", "qwen2.5-0.5b"]),
        recipe=st.sampled_from(sorted(RECIPES)),
        optimizer=st.sampled_from(sorted(OPTIMIZERS)),
        lora_rank=st.sampled_from([None, 4]),
        batch=st.integers(0, 4),
        sequence=st.sampled_from([32, 64]),
        attention=st.sampled_from(["sdpa", "scores"]),
        checkpointing=st.sampled_from(["none", "selective", "full"]),
        implementation=st.sampled_from([None, "foreach", "for-loop", "fused"]),
        accumulation=st.integers(1, 2),
        zero=st.integers(0, 3),
        gpus=st.integers(2, 9),
        offload=st.sampled_from(["", "optimizer", "optimizer,gradients"]),
        first_step=st.booleans(),
    )
)


@settings(max_examples=60, deadline=None)
@given(SETUPS)
def test_bytes_are_whole_numbers_of_every_class_at_every_moment(choices: dict[str, Any]) -> None:
    result = predict(Setup(**choices))
    assert tuple(result.moments) == budget.MOMENTS
    for sizes in (result.bytes, result.host_bytes, *result.moments.values()):
        assert tuple(sizes) == CLASS_KEYS
        assert all(type(size) is int and size >= 0 for size in sizes.values())
    assert result.peak_bytes == max(sum(sizes.values()) for sizes in result.moments.values())
    assert result.total_bytes == sum(result.bytes.values())


@settings(max_examples=30, deadline=None)
@given(SETUPS)
def test_doubling_the_batch_doubles_activations_and_leaves_the_states(choices: dict[str, Any]) -> None:
    one = predict(Setup(**(choices | {"batch": 2})))
    two = predict(Setup(**(choices | {"batch": 4})))
    for key in CLASS_KEYS[:6]:
        assert one.bytes[key] == two.bytes[key]
    assert two.bytes["activations"] == pytest.approx(2 * one.bytes["activations"], rel=0.02)


@settings(max_examples=30, deadline=None)
@given(SETUPS, st.integers(2, 4))
def test_more_gpus_never_hold_more_each(choices: dict[str, Any], factor: int) -> None:
    few = Setup(**choices)
    assert predict(replace(few, gpus=factor * few.gpus)).peak_bytes <= predict(few).peak_bytes


@settings(deadline=None)  # a busy machine is no failure
@given(st.integers(1, 10**12), st.sampled_from(sorted(RECIPES)), st.sampled_from(sorted(OPTIMIZERS)))
def test_cost_is_proportional_to_what_is_trained(parameters: int, recipe: str, optimizer: str) -> None:
    each = RECIPES[recipe].bytes_per_parameter(optimizer)
    assert budget.training_bytes(parameters, recipe, optimizer) == pytest.approx(parameters * each, abs=10)


@settings(deadline=None)  # a busy machine is no failure
@given(st.floats(0.001, 1.0))
def test_freezing_more_never_costs_more(share: float) -> None:
    some, every = Setup(parameters="7B", trainable=share), Setup(parameters="7B")
    assert predict(some).peak_bytes <= predict(every).peak_bytes
