"""Counts a training step with fake tensors: what a model of any size would hold, without its memory."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

try:  # private to torch as MemTracker is; tested with 2.13
    from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
except ImportError as error:  # pragma: no cover - needs another torch
    raise ImportError(f"torch {torch.__version__} has no FakeTensorMode: install torch 2.13") from error

from memory_budget.architectures import TotalOnly, Transformer, architecture
from memory_budget.measure.adapters import freeze_and_adapt
from memory_budget.measure.devices import Device
from memory_budget.measure.measurement import Measurement, TensorBytes, total
from memory_budget.measure.meters import CountingMeter, moments_of, timeline_of
from memory_budget.measure.optimizers import make_optimizer
from memory_budget.measure.prediction import predicted_budget
from memory_budget.measure.progress import progress_bar
from memory_budget.measure.small_gpt import SmallGPT
from memory_budget.measure.small_llama import SmallLlama
from memory_budget.measure.step import (
    HALF_WEIGHTS,
    LossFunction,
    check_batch,
    check_recipe,
    loss_of,
    micro_batch_count,
    run_steps,
)
from memory_budget.measure.tracker import Record

COUNTED = (2, 3)
NOTE = "Counted with fake tensors: nothing was computed and none of these bytes were held."
FAKE = Device(kind="cpu", name="no device (dry run)")

Factory = Callable[[], nn.Module]


def dry_run(
    model: str | Transformer | Factory | nn.Module,
    optimizer: str = "adamw",
    batch: Any = 1,
    sequence: int = 512,
    recipe: str = "mixed",
    lora_rank: int | None = None,
    lora_targets: tuple[str, ...] | str | None = None,
    attention: str = "sdpa",
    checkpointing: str = "none",
    implementation: str | None = None,
    micro_batches: int | None = None,
    set_to_none: bool = True,
    adapter_precision: str = "fp32",
    loss: LossFunction = loss_of,
    full: bool = False,
    progress: bool = True,
) -> Measurement:
    """Count the bytes of a training step of a named architecture, a Transformer, a module or what makes one.

    A transformer is counted with two and with three layers and extended, since each further layer adds the
    same; `full` counts every layer. For a module of your own `batch` is a function that makes its tensors,
    and every layer is counted. Raises ValueError for a family without a module here (T5, BERT) and for what
    `training_step` does not offer.
    """
    check_recipe(recipe)
    shape = _shape_of(model)
    settings = {
        "optimizer": optimizer,
        "recipe": recipe,
        "implementation": implementation,
        "micro_batches": micro_batch_count(recipe, micro_batches),
        "set_to_none": set_to_none,
    }

    def count(layers: int | None, tick: Callable[[], None]) -> tuple[list[Record], Any]:
        make = model if shape is None else _builder(replace(shape, layers=layers), attention, checkpointing)
        wanted = (lora_rank, lora_targets, adapter_precision)
        return _count(make, batch, sequence, settings, wanted, loss, tick)

    if shape is None:
        with progress_bar(1, progress) as tick:
            records, made = count(None, lambda: None)
            tick()
        predicted = _predicted(None, made, settings, 0, sequence)
        return _measurement(moments_of(records), timeline_of(records), predicted)
    check_batch(shape, batch, sequence)
    counted = (shape.layers,) if full or shape.layers <= COUNTED[-1] else COUNTED
    with progress_bar(4 * sum(counted), progress) as tick:
        runs = [count(layers, tick) for layers in counted]
    predicted = _predicted(shape, runs[-1][1], settings, batch, sequence)
    if len(runs) == 1:
        return _measurement(moments_of(runs[0][0]), timeline_of(runs[0][0]), predicted)
    records = extend(runs[0][0], runs[1][0], COUNTED, shape.layers)
    return _measurement(moments_of(records), timeline_of(records), predicted)


def _shape_of(model: Any) -> Transformer | None:
    if isinstance(model, nn.Module) or (callable(model) and not isinstance(model, str)):
        return None
    shape = architecture(model)
    if isinstance(shape, TotalOnly):
        raise ValueError(f"{shape.name} is known by its total only: a dry run needs shapes")
    families = SmallGPT.families + SmallLlama.families
    if shape.family not in families:
        raise ValueError(f"family is {shape.family!r}: dry runs are for {', '.join(families)}")
    return shape


def _builder(shape: Transformer, attention: str, checkpointing: str) -> Factory:
    kind = SmallGPT if shape.family in SmallGPT.families else SmallLlama
    return lambda: kind(shape, attention, checkpointing)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _count(make, batch, sequence, settings, adapter, loss, tick) -> tuple[list[Record], nn.Module]:
    """Build the model out of fake tensors, run two steps and give what was written down."""
    recipe, meter = settings["recipe"], CountingMeter(FAKE)
    rank, targets, precision = adapter
    half = recipe in HALF_WEIGHTS
    fake = FakeTensorMode()
    make = _faked(make, fake) if isinstance(make, nn.Module) else make
    with fake:
        with _default_dtype(torch.bfloat16 if half else torch.float32):  # .to() fails on a fake module
            model = make if isinstance(make, nn.Module) else make()
            data = _fake_batch(model, batch, sequence)
            if rank is not None:
                wide = torch.float32 if precision == "fp32" else None
                freeze_and_adapt(model, rank, targets, dtype=wide, seed=None)
        stepper = make_optimizer(settings["optimizer"], model, recipe, settings["implementation"])
        meter.on_layer = tick
        how = (recipe, settings["micro_batches"], settings["set_to_none"], loss)
        run_steps(model, stepper, data, FAKE, meter, *how)
    return meter.records, model


def _faked(model: nn.Module, fake: FakeTensorMode) -> nn.Module:
    """Copy a module with fake parameters in place of its own; it must be outside of the fake mode."""
    with FakeCopyMode(fake):
        return copy.deepcopy(model)


def _fake_batch(model: nn.Module, batch: Any, sequence: int) -> Any:
    if callable(batch):
        return batch()
    if getattr(model, "shape", None) is None:
        raise ValueError("batch of a module of your own is a function that makes its tensors")
    size = (batch, sequence)
    return torch.zeros(size, dtype=torch.int64), torch.zeros(size, dtype=torch.int64)


def _predicted(shape: Transformer | None, model: nn.Module, settings: dict, batch: int, sequence: int) -> Any:
    return predicted_budget(model, batch=batch, sequence=sequence, shape=shape, device="cpu", **settings)


def _measurement(moments: dict, timeline: list, predicted: Any) -> Measurement:
    first = [held for label, held in timeline if label.startswith(("step 0", "step 1"))]
    return Measurement(
        computed=False,
        device=FAKE.name,
        moments=moments,
        timeline=timeline,
        notes=(NOTE,),
        predicted=predicted,
        first_step_peak_bytes=max(map(total, first)),
    )


def extend(fewer: list[Record], more: list[Record], counted: tuple[int, int], layers: int) -> list[Record]:
    """Extend two counts with few layers to all layers: zone by zone, class by class, along a line.

    A zone is a part of the step in or around the first or the last layer: within one, the same operation
    holds most however many layers there are."""
    low, high = _zones(fewer, counted[0]), _zones(more, counted[1])
    return [
        Record(*key[:2], key[-1], _line(low[key], high[key], counted, layers)) for key in high if key in low
    ]


def _line(low: TensorBytes, high: TensorBytes, counted: tuple[int, int], layers: int) -> TensorBytes:
    step = counted[1] - counted[0]
    return {k: high[k] + (layers - counted[1]) * (high[k] - low[k]) // step for k in high}


def _zones(records: list[Record], layers: int) -> dict[tuple, TensorBytes]:
    """Find what is held at most in each zone, in order: (step, phase, how often before, zone)."""
    most: dict[tuple, TensorBytes] = {}
    passes: dict[tuple, int] = {}
    before, seen = None, False
    for record in records:
        at = record[:2]
        if at != before:
            passes[at] = passes.get(at, 0) + 1
            before, seen = at, False
        layer = layer_of(record.label)
        seen = seen or layer is not None
        zone = _zone(layer, layers, seen, record.label)
        key = (*at, passes[at], zone)
        if zone and (key not in most or total(record.held) > total(most[key])):
            most[key] = record.held
    return most


def _zone(layer: int | None, layers: int, seen: bool, label: str) -> str:
    if label == "end":
        return "end"
    if layer is None:
        return "after the layers" if seen else "before the layers"
    return {0: "first layer", layers - 1: "last layer"}.get(layer, "")


def layer_of(label: str) -> int | None:
    """Read the layer's number in a module's name; None outside of the layers."""
    found = re.match(r"(?:h|layers)\.(\d+)", label)
    return int(found[1]) if found else None
