"""The dry run: fake tensors against real ones, few layers extended against all, and its price."""

import dataclasses
import subprocess
import sys

import pytest
import torch
from torch import nn

from memory_budget import measure
from memory_budget.architectures import Transformer, architecture
from memory_budget.measure.dry_run import layer_of
from memory_budget.measure.measurement import total
from memory_budget.measure.progress import progress_bar

GPT = Transformer(
    name="gpt", family="gpt2", vocabulary=300, hidden=32, layers=5, heads=4, kv_heads=4, head_size=8,
    ffn=128, context=64, attention_bias=True, output_bias=True, mlp_bias=True,
)  # fmt: skip
LLAMA = Transformer(
    name="llama", family="llama", vocabulary=300, hidden=32, layers=5, heads=4, kv_heads=2, head_size=8,
    ffn=88, gated=True, tied=False, norm="rmsnorm",
)  # fmt: skip
CHOICES = [
    {"recipe": "fp32"},
    {"recipe": "fp32", "checkpointing": "full"},
    {"recipe": "mixed", "attention": "scores"},
    {"recipe": "autocast", "micro_batches": 2},
    {"recipe": "fp32", "implementation": "foreach"},
    {"recipe": "pure-bf16", "lora_rank": 2, "lora_targets": "all-linear"},
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
@pytest.mark.parametrize("shape", [GPT, LLAMA], ids=["gpt", "llama"])
def test_two_and_three_layers_extended_are_what_all_five_hold(shape, choices):
    few, all_ = (
        measure.dry_run(shape, batch=2, sequence=32, full=full, progress=False, **choices)
        for full in (False, True)
    )
    assert few.moments == all_.moments


@pytest.mark.parametrize("shape", [GPT, LLAMA], ids=lambda shape: shape.name)
def test_fake_tensors_hold_what_real_tensors_hold(shape):
    real = measure.training_step(measure.Case(model=shape).build(), batch=2, sequence=32)
    fake = measure.dry_run(shape, batch=2, sequence=32, recipe="fp32", full=True, progress=False)
    assert fake.moments == real.moments
    assert fake.first_step_peak_bytes == real.first_step_peak_bytes


def test_a_70b_step_is_counted_with_its_sixteen_bytes():
    told = measure.dry_run("llama-3-70b", batch=1, sequence=64, progress=False)
    parameters = architecture("llama-3-70b").parameters
    assert total(told.moments["after step"]) / parameters == pytest.approx(16, rel=1e-4)
    assert abs(told.difference_percent) < 0.1


def test_a_module_of_ones_own_can_be_counted_without_its_memory():
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(200_000, 100_000), nn.ReLU(), nn.Linear(100_000, 10))

    told = measure.dry_run(
        make,
        batch=lambda: (torch.zeros(8, 200_000),),
        recipe="fp32",
        loss=lambda model, batch: model(*batch).square().mean(),
        progress=False,
    )
    parameters = 200_000 * 100_000 + 100_000 + 100_000 * 10 + 10
    assert told.moments["after loading"]["weights"] == 4 * parameters
    assert told.moments["after step"]["second_moment"] == 4 * parameters


def test_a_module_that_is_there_is_counted_and_left_alone():
    model = nn.Linear(20, 3)
    before = model.weight.clone()
    told = measure.dry_run(
        model,
        batch=lambda: (torch.zeros(8, 20),),
        recipe="fp32",
        loss=lambda m, b: m(*b).sum(),
        progress=False,
    )
    assert told.moments["after step"]["gradients"] == 4 * 63
    assert torch.equal(model.weight, before)
    assert model.weight.grad is None


def test_the_extension_is_a_line_through_both_counts():
    deep = dataclasses.replace(LLAMA, layers=1000)
    held = measure.dry_run(deep, recipe="fp32", sequence=8, progress=False).moments["after step"]
    assert held["weights"] == 4 * deep.parameters


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ("t5-3b", {}, "dry runs are for gpt2, llama"),
        ("resnet-50", {}, "known by its total only"),
        ("llama-9", {}, "unknown model 'llama-9'"),
        (GPT, {"sequence": 65}, "1 to 64"),
        (GPT, {"recipe": "fp8"}, "recipe is 'fp8'"),
        (GPT, {"lora_rank": 100, "sequence": 8}, "rank is 100"),
    ],
    ids=["family", "total only", "name", "sequence", "recipe", "rank"],
)
def test_what_cannot_be_counted_is_refused_in_one_line(model, settings, words):
    with pytest.raises(ValueError, match=words) as refused:
        measure.dry_run(model, progress=False, **settings)
    assert "\n" not in str(refused.value)


def test_layers_are_told_from_what_lies_around_them():
    assert layer_of("h.3.attn.c_attn") == 3
    assert layer_of("layers.12") == 12
    assert layer_of("lm_head") is layer_of("") is None


def test_torch_is_left_as_it_was():
    before = torch.get_default_dtype(), torch.get_num_threads()
    with pytest.raises(ValueError, match="rank"):
        measure.dry_run(GPT, sequence=8, lora_rank=100, progress=False)
    measure.dry_run(GPT, sequence=8, progress=False)
    assert (torch.get_default_dtype(), torch.get_num_threads()) == before
    assert not isinstance(torch.zeros(1), torch._subclasses.FakeTensor)


PRICE = """
import resource, sys, time
start = time.process_time()
from memory_budget import measure
measure.dry_run("llama-3-70b", progress=False, **{settings})
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(time.process_time() - start, used)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no getrusage")
@pytest.mark.parametrize("settings", [{}, {"lora_rank": 16}], ids=["full fine-tune", "LoRA"])
def test_a_70b_dry_run_takes_less_than_15_seconds_and_2_gb(settings):
    command = [sys.executable, "-c", PRICE.format(settings=settings)]
    seconds, used_bytes = map(
        float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    )
    assert seconds < 15
    assert used_bytes < 2e9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("gpt2-medium", {"recipe": "fp32", "batch": 2}),
        ("llama-3.2-1b", {"recipe": "mixed", "checkpointing": "full"}),
        ("llama-3-70b", {"lora_rank": 16}),
    ],
)
def test_the_full_count_of_every_layer_agrees_within_a_thousandth(name, settings):
    few, all_ = (measure.dry_run(name, full=full, progress=False, **settings) for full in (False, True))
    for moment, held in all_.moments.items():
        assert total(few.moments[moment]) == pytest.approx(total(held), rel=0.001)
    assert few.peak_moment == all_.peak_moment


class Shell:
    """What IPython's shell looks like inside a notebook."""

    kernel = object()


class Handle:
    """Keeps what a display was updated to."""

    def __init__(self, told):
        self.told = told

    def update(self, data, raw):
        self.told.append(data["text/plain"])


def test_a_notebooks_progress_bar_moves_is_gone_at_the_end_and_writes_to_no_stream(monkeypatch, capsys):
    told = []
    monkeypatch.setattr("IPython.get_ipython", Shell)
    monkeypatch.setattr("IPython.display.display", lambda data, **_: Handle(told))
    with progress_bar(2) as tick:
        tick()
        tick()
    assert told == ["dry run: 1 of 2 layer passes", "dry run: 2 of 2 layer passes", ""]
    assert capsys.readouterr() == ("", "")
