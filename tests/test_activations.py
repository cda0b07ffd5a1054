"""Activations against torch itself, the published formula's terms, laws, and bytes counted by hand."""

import dataclasses
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memory_budget import activations
from memory_budget.activations import Run, one_pass
from memory_budget.architectures import Transformer, architecture
from memory_budget.measure import Case
from memory_budget.measure.step import example_batch

GPT = Transformer(
    name="gpt", family="gpt2", vocabulary=300, hidden=32, layers=2, heads=4, kv_heads=4, head_size=8,
    ffn=128, context=64, attention_bias=True, output_bias=True, mlp_bias=True,
)  # fmt: skip
LLAMA = Transformer(
    name="llama", family="llama", vocabulary=300, hidden=32, layers=2, heads=4, kv_heads=2, head_size=8,
    ffn=88, gated=True, tied=False, norm="rmsnorm",
)  # fmt: skip


def saved_bytes(model: torch.nn.Module, batch: int, sequence: int) -> int:
    """What autograd saves in a forward, told by torch's own hooks: each storage once, parameters left out."""
    parameters = {p.untyped_storage()._cdata for p in model.parameters()}
    saved: dict[int, int] = {}
    kept = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in parameters:
            saved[storage._cdata] = storage.nbytes()
            kept.append(tensor)  # or a later storage could take the same address
        return tensor

    data = example_batch(model.shape.vocabulary, batch, sequence)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(*data)
    assert loss.requires_grad
    return sum(saved.values())


@pytest.mark.parametrize("shape", [GPT, LLAMA], ids=lambda shape: shape.name)
@pytest.mark.parametrize("attention", ["sdpa", "scores"])
@pytest.mark.parametrize("rank", [None, 4])
def test_what_is_kept_is_what_torch_says_it_saves(shape, attention, rank):
    adapted = {"lora_rank": rank, "lora_targets": ("all-linear",)}
    model = Case(model=shape, attention=attention, **adapted).build()
    told = one_pass(shape, Run(attention=attention, **adapted), 3, 20).end_of_forward["activations"]
    # beside what is saved: the loss itself (4 bytes), and the targets and ids that nothing saves
    held = 2 * 8 * 60
    embeds = rank is None
    saved = saved_bytes(model, 3, 20) - (8 * 60 if embeds else 0) - 8 * 60
    assert told == saved + held + 4


def test_a_layer_of_gpt2_keeps_sixteen_copies_of_its_input_and_five_numbers_a_row_and_head():
    more = dataclasses.replace(GPT, layers=3)
    batch, sequence = 2, 16
    layer = (
        one_pass(more, Run(), batch, sequence).end_of_forward["activations"]
        - one_pass(GPT, Run(), batch, sequence).end_of_forward["activations"]
    )
    rows, width = batch * sequence, GPT.hidden
    # hidden, ln_1, q k v, attention's output, hidden, ln_2, c_fc (4), gelu (4): 1+1+3+1+1+1+4+4 = 16
    assert layer == 4 * (16 * rows * width + 4 * rows + rows * GPT.heads)


def test_full_checkpointing_keeps_only_the_input_of_each_layer():
    more = dataclasses.replace(GPT, layers=12)
    run = Run(checkpointing="full")
    kept = one_pass(more, run, 2, 16).end_of_forward["activations"]
    fewer = one_pass(dataclasses.replace(GPT, layers=5), run, 2, 16).end_of_forward["activations"]
    assert kept - fewer == 7 * 2 * 16 * GPT.hidden * 4


def test_selective_checkpointing_takes_away_what_grows_with_the_square_of_the_sequence():
    def squared(checkpointing: str) -> int:
        run = Run(attention="scores", checkpointing=checkpointing)
        one, two, four = (one_pass(LLAMA, run, 1, 32 * n).end_of_forward["activations"] for n in (1, 2, 4))
        return (four - two) - 2 * (two - one)

    assert squared("selective") == 0
    assert squared("none") > 0


def test_the_logits_and_their_gradient_are_the_peak_of_a_long_vocabulary():
    wordy = dataclasses.replace(GPT, vocabulary=50_000, tied=False)
    told = one_pass(wordy, Run(), 2, 32)
    logits = 2 * 32 * 50_000 * 4
    # the logarithms of the shares, their gradient, and the logits' gradient
    assert sum(told.backward_peak.values()) == pytest.approx(3 * logits, rel=0.03)
    assert sum(told.forward_peak.values()) == pytest.approx(2 * logits, rel=0.03)


def test_a_tied_table_ends_backward_with_three_gradients_of_its_size():
    wordy = dataclasses.replace(GPT, vocabulary=50_000)
    told = one_pass(wordy, Run(), 1, 1)
    assert told.backward_peak["temporaries"] == 3 * wordy.vocabulary * wordy.hidden * 4


def test_freezing_does_not_remove_activations():
    everything = one_pass(GPT, Run(), 4, 32).end_of_forward["activations"]
    adapted = one_pass(GPT, Run(lora_rank=1, lora_targets=("all-linear",)), 4, 32).end_of_forward[
        "activations"
    ]
    assert 0.85 * everything < adapted < everything


def test_an_adapter_on_the_last_layers_only_spares_the_layers_before():
    deep = dataclasses.replace(GPT, layers=12)
    whole, part = (one_pass(deep, Run(last_layers=n), 4, 32).end_of_forward["activations"] for n in (None, 1))
    assert part < whole / 4


def test_autocast_keeps_a_16_bit_cast_of_every_weight_of_a_product():
    casts = one_pass(GPT, Run(autocast=True), 1, 8).end_of_forward["temporaries"]
    layer = 12 * GPT.hidden**2
    assert casts == 2 * (GPT.layers * layer + GPT.vocabulary * GPT.hidden)


def test_gradients_that_exist_are_not_stored_again():
    run = Run(gradients_exist=True)
    assert one_pass(GPT, run, 2, 16).backward_peak["gradients"] <= GPT.vocabulary * GPT.hidden * 4
    assert one_pass(GPT, run, 2, 16).end_of_forward == one_pass(GPT, Run(), 2, 16).end_of_forward


@pytest.mark.parametrize("shape", [GPT, LLAMA], ids=lambda shape: shape.name)
def test_three_layers_say_what_nine_layers_hold(shape, monkeypatch):
    deep = dataclasses.replace(shape, layers=9)
    choices = itertools.product(
        (4, 2), (False, True), ("sdpa", "scores"), ("none", "selective", "full"), (None, 4), (None, 1, 5)
    )
    runs = [
        Run(
            weight_bytes=width, autocast=half, attention=attention, checkpointing=recomputed, lora_rank=rank,
            lora_targets=("all-linear",), last_layers=last,
        )
        for width, half, attention, recomputed, rank, last in choices
        if not (rank and last)
    ]  # fmt: skip
    few = [activations._Model(deep, run).reckon().at(3, 20) for run in runs]
    monkeypatch.setattr(activations, "SIMULATED_LAYERS", 99)
    assert few == [activations._Model(deep, run).reckon().at(3, 20) for run in runs]


@given(batch=st.integers(1, 64), sequence=st.integers(1, 64), rank=st.sampled_from([None, 1, 8]))
def test_doubling_the_batch_doubles_what_follows_it(batch, sequence, rank):
    run = Run(lora_rank=rank, lora_targets=("all-linear",))
    none, one, two = (one_pass(LLAMA, run, n * batch, sequence).end_of_forward for n in (0, 1, 2))
    assert two["activations"] - one["activations"] == one["activations"] - none["activations"]
    assert two["temporaries"] == one["temporaries"]


@given(batch=st.integers(1, 16), sequence=st.integers(1, 64))
def test_checkpointing_more_keeps_less(batch, sequence):
    kept = [
        one_pass(GPT, Run(attention="scores", checkpointing=c), batch, sequence).end_of_forward["activations"]
        for c in ("none", "selective", "full")
    ]
    assert kept[0] > kept[1] > kept[2]


def test_a_rank_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"33"):
        one_pass(GPT, Run(lora_rank=33, lora_targets=("all-linear",)), 1, 8)


def test_a_quantised_matrix_is_copied_for_its_product():
    run = Run(weight_bytes=2, lora_rank=2, lora_targets=("all-linear",))
    plain = one_pass(GPT, run, 1, 1)
    copied = one_pass(GPT, dataclasses.replace(run, quantised=True), 1, 1)
    assert sum(copied.backward_peak.values()) > sum(plain.backward_peak.values())
    assert copied.end_of_forward == plain.end_of_forward


def test_all_named_decoders_can_be_reckoned():
    for name in ("gpt2-xl", "llama-3-70b", "qwen2.5-0.5b", "mistral-7b"):
        shape = architecture(name)
        told = one_pass(shape, Run(weight_bytes=2, checkpointing="full"), 1, 512)
        assert told.end_of_forward["activations"] > 512 * shape.hidden * shape.layers * 2
