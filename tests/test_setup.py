"""Which set-ups are possible, and what is said about the others."""

from __future__ import annotations

from typing import Any

import pytest

from memory_budget import Setup

IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({}, "give either parameters"),
    ({"parameters": "7B", "model": "gpt2"}, "give either parameters"),
    ({"model": "gpt-5"}, "unknown model 'gpt-5': choose from small-gpt"),
    ({"parameters": "7B", "recipe": "fp8"}, "unknown recipe 'fp8': choose from fp32"),
    ({"parameters": "7B", "optimizer": "rmsprop"}, "unknown optimizer 'rmsprop': choose from sgd"),
    ({"parameters": "7B", "zero": 3}, "ZeRO-3 shares the work of 2 or more GPUs: gpus is 1"),
    ({"parameters": "7B", "zero": 4, "gpus": 2}, "zero must be one of 0, 1, 2, 3, not 4"),
    ({"parameters": "7B", "gpus": 0}, "gpus must be a whole number of 1 or more, not 0"),
    (
        {"parameters": "7B", "trainable": 0, "optimizer": "adamw-8bit"},
        "8-bit AdamW has no parameter to train",
    ),
    ({"parameters": "7B", "trainable": 0.0}, "AdamW has no parameter to train"),
    ({"parameters": 100, "trainable": 101}, "trainable must be 1 to 100"),
    ({"parameters": 100, "trainable": 1.5}, "trainable must be a share up to 1.0"),
    ({"parameters": 100, "trainable": float("nan")}, "trainable must be a share up to 1.0"),
    ({"parameters": 0}, "no parameter to train"),
    ({"parameters": "7B", "base": "nf4"}, "base nf4 is for frozen weights"),
    ({"parameters": "7B", "base": "int3", "trainable": 0.1}, "unknown base precision 'int3'"),
    ({"parameters": "7B", "lora_rank": 8}, "lora_rank needs a model with shapes"),
    ({"parameters": "7B", "batch": 1}, "batch needs a model with shapes"),
    ({"model": "resnet-50", "last_layers": 1}, "last_layers needs a model with shapes"),
    ({"model": "llama-3-8b", "lora_rank": 4097}, "rank 4097 does not fit q_proj of 4096 x 4096"),
    ({"model": "llama-3-8b", "lora_rank": 0}, "choose 1 to 4096"),
    ({"model": "llama-3-8b", "lora_rank": 8, "lora_targets": "w_q"}, "no matrix is called 'w_q'"),
    ({"model": "llama-3-8b", "lora_rank": 8, "last_layers": 1}, "lora_rank or last_layers, not both"),
    ({"model": "llama-3-8b", "lora_rank": 8, "trainable": 0.5}, "leave trainable at 'all'"),
    ({"model": "llama-3-8b", "last_layers": 33}, "last_layers must be 1 to 32 for llama-3-8b, not 33"),
    ({"model": "gpt2", "batch": 1, "sequence": 1025}, "sequence must be 1 to 1024 for gpt2, not 1025"),
    ({"model": "gpt2", "batch": -1}, "batch must be a whole number of 0 or more, not -1"),
    ({"model": "gpt2", "batch": 1.5}, "batch must be a whole number of 0 or more, not 1.5"),
    ({"model": "gpt2", "attention": "flash"}, "attention must be one of sdpa, scores, not 'flash'"),
    ({"model": "gpt2", "checkpointing": "some"}, "checkpointing must be one of none, selective, full"),
    ({"model": "gpt2", "implementation": "slow"}, "implementation must be one of foreach, for-loop, fused"),
    ({"model": "gpt2", "device": "tpu"}, "device must be one of cuda, mps, cpu"),
    ({"model": "gpt2", "offload": "everything"}, "offload must be one of optimizer, gradients, weights"),
    ({"model": "gpt2", "optimizer_in_backward": True, "accumulation": 2}, "accumulation must be 1, not 2"),
]


@pytest.mark.parametrize(("choices", "words"), IMPOSSIBLE, ids=[words[:40] for _, words in IMPOSSIBLE])
def test_an_impossible_setup_is_refused_in_one_line_with_what_is_allowed(
    choices: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the words are compared below
        Setup(**choices)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_adapter_is_kept_in_fp32_unless_it_follows_the_recipe() -> None:
    adapter = Setup(model="gpt2", lora_rank=8, recipe="pure-bf16")
    assert adapter.trained_recipe.name == "fp32"
    follows = Setup(model="gpt2", lora_rank=8, recipe="pure-bf16", adapter_precision="recipe")
    assert follows.trained_recipe.name == "pure-bf16"


def test_targets_and_offload_can_be_written_as_one_text() -> None:
    setup = Setup(model="gpt2", lora_rank=8, lora_targets="attention, mlp", offload="optimizer,gradients")
    assert setup.targets == ("attention", "mlp")
    assert setup.offloaded == ("optimizer", "gradients")
