"""One training step, run and measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from memory_budget.architectures import Transformer
from memory_budget.measure.adapters import LowRank
from memory_budget.measure.devices import Device
from memory_budget.measure.devices import device as find_device
from memory_budget.measure.measurement import Measurement
from memory_budget.measure.meters import Meter, meter_for
from memory_budget.measure.optimizers import make_optimizer
from memory_budget.measure.prediction import predicted_budget
from memory_budget.measure.small_gpt import small_gpt

RECIPES = ("fp32", "mixed", "autocast", "autocast-accumulate", "no-master", "pure-bf16")
HALF_WEIGHTS = ("mixed", "no-master", "pure-bf16")
SMALLER = "take a smaller batch, a shorter sequence or a smaller model"

Batch = Mapping[str, Tensor] | Sequence[Tensor] | Tensor
LossFunction = Callable[[nn.Module, Any], Tensor]


def example_batch(vocabulary: int, batch: int, sequence: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw token ids and the ids that follow them: two int64 tensors of shape (batch, sequence)."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(vocabulary, (batch, sequence + 1), generator=generator)
    return ids[:, :-1].clone(), ids[:, 1:].clone()


def loss_of(model: nn.Module, data: Any) -> Tensor:
    """Call the model on the batch and find the loss in what it gives back.

    A dict goes in by name, a tuple or list by place; a loss is a scalar tensor, or an output's `.loss`.
    Raises ValueError when there is neither.
    """
    output = (
        model(**data) if isinstance(data, Mapping) else model(*data) if is_sequence(data) else model(data)
    )
    loss = output["loss"] if isinstance(output, Mapping) else getattr(output, "loss", output)
    if not isinstance(loss, Tensor) or loss.ndim:
        raise ValueError("the model gave no scalar loss: pass loss=function(model, batch)")
    return loss


def is_sequence(data: Any) -> bool:
    """Tell whether a batch is given by place."""
    return isinstance(data, Sequence)


def move(data: Any, to: torch.device) -> Any:
    """Copy a batch of tensors to a device."""
    if isinstance(data, Tensor):
        return data.to(to)
    if isinstance(data, Mapping):
        return {name: move(value, to) for name, value in data.items()}
    return type(data)(move(value, to) for value in data)


def training_step(
    model: nn.Module | None = None,
    optimizer: str | torch.optim.Optimizer | Callable[[list[Tensor]], torch.optim.Optimizer] = "adamw",
    batch: int | Batch = 4,
    sequence: int = 64,
    device: str | Device | None = None,
    recipe: str = "fp32",
    implementation: str | None = None,
    micro_batches: int | None = None,
    set_to_none: bool = True,
    loss: LossFunction = loss_of,
    adapter_precision: str = "fp32",
) -> Measurement:
    """Run two training steps of any module and measure them; the second is the one told by moment.

    `model` None is the course's small GPT. `batch` is a number of sequences of `sequence` tokens for a model
    that knows its `shape` (SmallGPT, SmallLlama), else a tensor, tuple or dict of tensors for `model`;
    `loss(model, batch)` gives the scalar to differentiate. The model is trained in place (and cast in place
    for a 16-bit recipe; adapters stay fp32, as PEFT keeps them, unless `adapter_precision` is "recipe").
    Raises ValueError for what is not offered, RuntimeError when memory runs out.
    """
    check_recipe(recipe)
    model = small_gpt() if model is None else model
    place = choose(device)
    count = micro_batch_count(recipe, micro_batches)
    data = batch_for(model, batch, sequence)
    meter = meter_for(place)
    try:
        meter.begin(tensors_of(model, optimizer))
        model.to(place.torch_device)
        narrow(model, recipe, adapter_precision)
        stepper = _optimizer(optimizer, model, recipe, implementation)
        data = move(data, place.torch_device)
        run_steps(model, stepper, data, place, meter, recipe, count, set_to_none, loss)
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        if "out of memory" not in str(error).lower():
            raise
        raise RuntimeError(f"{place.name} ran out of memory: {SMALLER}") from None
    predicted = None
    if isinstance(optimizer, str):
        predicted = predicted_budget(
            model,
            optimizer=optimizer,
            batch=batch if isinstance(batch, int) else 0,
            sequence=sequence,
            recipe=recipe,
            implementation=implementation,
            micro_batches=count,
            set_to_none=set_to_none,
            device=place.kind,
        )
    return meter.measurement(predicted)


def micro_batch_count(recipe: str, wanted: int | None) -> int:
    """Tell how many micro-batches a step has: one unless the recipe or the caller wants more."""
    count = (2 if recipe == "autocast-accumulate" else 1) if wanted is None else wanted
    if count < 1:
        raise ValueError(f"micro_batches is {count}: allowed are 1 and more")
    return count


def run_steps(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Any,
    place: Device,
    meter: Meter,
    recipe: str,
    count: int,
    set_to_none: bool,
    loss: LossFunction,
) -> None:
    """Run two training steps under a meter's eyes."""
    with one_thread(), meter.watching(model, optimizer, data):
        for step in (1, 2):
            _one_step(model, optimizer, data, place, recipe, count, set_to_none, loss, meter, step)


def tensors_of(model: nn.Module, optimizer: object) -> Iterator[Tensor]:
    """Every tensor that a step of this model and optimizer starts with."""
    yield from model.buffers()
    for parameter in model.parameters():
        yield parameter
        if parameter.grad is not None:
            yield parameter.grad
    if isinstance(optimizer, torch.optim.Optimizer):
        for state in optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, Tensor))


def narrow(model: nn.Module, recipe: str, adapter_precision: str = "fp32") -> None:
    """Cast a model in place to the recipe's width; adapters only where they follow the recipe."""
    if adapter_precision not in ("fp32", "recipe"):
        raise ValueError(f"adapter_precision is {adapter_precision!r}: allowed are fp32, recipe")
    if recipe not in HALF_WEIGHTS:
        return
    wide = [m for m in model.modules() if isinstance(m, LowRank)] if adapter_precision == "fp32" else []
    model.to(torch.bfloat16)
    for adapter in wide:
        adapter.down.float()
        adapter.up.float()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread, so that sums are added in the same order each time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_recipe(recipe: str) -> None:
    """Raise ValueError unless a step can be run in this recipe."""
    if recipe not in RECIPES:
        raise ValueError(f"recipe is {recipe!r}: measured are {', '.join(RECIPES)}")


def choose(wanted: str | Device | None) -> Device:
    """Take a device that was given, or find the one asked for by kind."""
    return wanted if isinstance(wanted, Device) else find_device(wanted)


def batch_for(model: nn.Module, batch: int | Batch, sequence: int) -> Batch:
    """Make an example batch where a number was given; ValueError when the model does not tell its shape."""
    if not isinstance(batch, int):
        return batch
    shape = getattr(model, "shape", None)
    if shape is None:
        raise ValueError("pass batch as tensors: only SmallGPT and SmallLlama can make their own")
    check_batch(shape, batch, sequence)
    return example_batch(shape.vocabulary, batch, sequence)


def check_batch(shape: Transformer, batch: int, sequence: int) -> None:
    """Raise ValueError unless a batch of that size fits the model's positions."""
    if batch < 1 or sequence < 1 or (shape.context and sequence > shape.context):
        limit = f"1 to {shape.context}" if shape.context else "1 or more"
        raise ValueError(f"batch is {batch}, sequence {sequence}: batch is 1 or more, sequence {limit}")


def _optimizer(optimizer, model, recipe, implementation) -> torch.optim.Optimizer:
    if isinstance(optimizer, str):
        return make_optimizer(optimizer, model, recipe, implementation)
    if isinstance(optimizer, torch.optim.Optimizer):
        return optimizer
    return optimizer([p for p in model.parameters() if p.requires_grad])


def _one_step(model, optimizer, data, place, recipe, count, set_to_none, loss, meter: Meter, step) -> None:
    half = (
        torch.autocast(place.torch_device.type, torch.bfloat16)
        if recipe.startswith("autocast")
        else nullcontext()
    )
    for _ in range(count):
        meter.phase(step, "forward")
        with half:
            value = loss(model, data)
        meter.phase(step, "backward")
        value.backward()
        del value
    meter.phase(step, "step")
    optimizer.step()
    meter.phase(step, "after step")
    optimizer.zero_grad(set_to_none=set_to_none)
    meter.phase(step, "end")
