"""LoRA's counts and the bytes of a quantised base."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_budget import adapters
from memory_budget.architectures import architecture


@pytest.mark.parametrize(
    ("model", "rank", "targets", "count"),
    [
        ("llama-3.2-3b", 32, "q_proj,v_proj", 9_175_040),  # PEFT's logs
        ("llama-3.2-3b", 64, "q_proj,v_proj", 18_350_080),
        ("llama-3.2-3b", 10, "mlp", 9_461_760),
        ("gpt3-175b", 4, "q_proj,v_proj", 18_874_368),  # arXiv 2106.09685, table 18's 18.9M
        ("roberta-base", 8, "query,value", 294_912),  # arXiv 2106.09685, table 2's 0.3M
        ("gpt2", 8, "c_attn", 294_912),  # PEFT's own example
        ("llama-2-7b", 16, "all-linear", 39_976_960),  # QLoRA's usual adapter
        ("mistral-7b", 16, "all-linear", 41_943_040),
    ],
)
def test_lora_trains_the_published_number_of_parameters(
    model: str, rank: int, targets: str, count: int
) -> None:
    assert adapters.lora_parameters(model, rank, targets.split(",")) == count


@pytest.mark.parametrize("model", ["gpt2", "llama-2-7b", "roberta-base", "t5-small", "qwen2.5-0.5b"])
def test_attention_and_mlp_together_are_every_matrix_of_the_layers(model: str) -> None:
    both = adapters.target_matrices(model, ("attention", "mlp"))
    hidden = sum(matrix.repeat * matrix.d_in * matrix.d_out for matrix in both)
    assert hidden == adapters.hidden_matrix_parameters(model)


def test_gpt2s_fused_matrix_can_be_named_whole_or_in_parts() -> None:
    (whole,) = adapters.target_matrices("gpt2", "c_attn")
    parts = adapters.target_matrices("gpt2", ("q_proj", "k_proj", "v_proj"))
    assert (whole.d_in, whole.d_out) == (768, 2304)
    assert [(part.d_in, part.d_out) for part in parts] == [(768, 768)] * 3


@settings(deadline=None)  # a busy machine is no failure
@given(st.integers(1, 64))
def test_doubling_the_rank_doubles_the_adapter(rank: int) -> None:
    once = adapters.lora_parameters("llama-3-8b", rank, "all-linear")
    assert adapters.lora_parameters("llama-3-8b", 2 * rank, "all-linear") == 2 * once


@pytest.mark.parametrize("rank", [0, -1, 1025, 2.0, True])
def test_a_rank_that_does_not_fit_is_refused_with_the_matrix(rank: object) -> None:
    with pytest.raises(ValueError, match=r"rank .* does not fit v_proj of 1024 x 4096: choose 1 to 1024"):
        adapters.lora_parameters("llama-3-8b", rank, "v_proj")  # type: ignore[arg-type]


def test_a_target_that_is_not_there_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="no matrix is called 'c_attn': choose from down_proj"):
        adapters.lora_parameters("llama-3-8b", 8, "c_attn")
    with pytest.raises(ValueError, match="known by its total only"):
        adapters.lora_parameters("resnet-50", 8)


def test_nf4_takes_4_and_a_half_bits_and_double_quantisation_4_127() -> None:
    assert adapters.BASES["nf4"].bits == 4.5
    assert adapters.BASES["nf4-dq"].bits == pytest.approx(4.127, abs=5e-4)
    assert adapters.matrix_bytes(4096 * 4096, "nf4") * 8 / 4096**2 == 4.5
    assert adapters.matrix_bytes(4096 * 4096, "nf4-dq") * 8 / 4096**2 == pytest.approx(4.127, abs=5e-4)


def test_only_the_matrices_of_the_layers_are_quantised() -> None:
    model = architecture("llama-2-7b")
    matrices = adapters.hidden_matrix_parameters(model)
    assert matrices == 6_476_005_376  # litgpt and QLoRA quantise these
    rest = 2 * (model.parameters - matrices)
    assert adapters.base_bytes(model, "nf4") == matrices * 9 // 16 + rest
    assert adapters.base_bytes(model, "bf16") == 2 * model.parameters
    assert adapters.base_bytes(model, "fp32") == 4 * model.parameters


def test_int8_has_one_scale_for_each_output_row() -> None:
    assert adapters.matrix_bytes(4096 * 1024, "int8", rows=1024) == 4096 * 1024 + 4 * 1024


def test_a_model_without_shapes_is_quantised_whole() -> None:
    assert adapters.base_bytes("resnet-50", "bf16") == 2 * 25_557_032


def test_an_unknown_precision_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="'fp4': choose from fp32, bf16, int8, nf4, nf4-dq"):
        adapters.base_named("fp4")
