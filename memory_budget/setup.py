"""What is a training set-up, and which set-ups are possible?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory_budget import adapters
from memory_budget.architectures import TotalOnly, Transformer, architecture
from memory_budget.optimizers import Optimizer, optimizer_named
from memory_budget.recipes import RECIPES, Recipe, recipe_named
from memory_budget.stepping import IMPLEMENTATIONS, usual_implementation
from memory_budget.units import parse_count

ATTENTIONS = ("sdpa", "scores")
CHECKPOINTINGS = ("none", "selective", "full")
DEVICE_KINDS = ("cuda", "mps", "cpu")
OFFLOADS = ("optimizer", "gradients", "weights")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A training set-up: what is trained, how its numbers are kept, and what each step does.

    Give `parameters` (a count, or text such as 7B) or `model` (a name or a Transformer). `trainable` is
    "all", a share (a float up to 1.0) or a count (an int); `lora_rank` or `last_layers` choose it by tensors
    instead. `batch` is sequences in one micro-batch on one GPU; with 0 (the default) activations are left
    out. An adapter is kept in fp32, as PEFT does, unless `adapter_precision` is "recipe". `implementation`
    None means what is usual: fused where 16-bit weights have fp32 state, else torch's own choice on `device`
    (foreach on cuda, for-loop elsewhere). Errors are ValueErrors in one line with what is allowed."""

    parameters: float | str | None = None
    model: str | Transformer | TotalOnly | None = None
    trainable: str | float | int = "all"
    last_layers: int | None = None
    lora_rank: int | None = None
    lora_targets: tuple[str, ...] | str = adapters.DEFAULT_TARGETS
    adapter_precision: str = "fp32"
    recipe: str | Recipe = "mixed"
    optimizer: str | Optimizer = "adamw"
    base: str | None = None
    batch: int = 0
    sequence: int = 512
    accumulation: int = 1
    set_to_none: bool = True
    attention: str = "sdpa"
    checkpointing: str = "none"
    implementation: str | None = None
    optimizer_in_backward: bool = False
    first_step: bool = False
    zero: int = 0
    gpus: int = 1
    offload: tuple[str, ...] | str = ()
    device: str = "cuda"

    def __post_init__(self) -> None:
        _check(self)

    @property
    def shape(self) -> Transformer | None:
        """The model's dimensions; None where only a number of parameters is known."""
        model = None if self.model is None else architecture(self.model)
        return model if isinstance(model, Transformer) else None

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the matrices that the adapter sits on."""
        return _words(self.lora_targets)

    @property
    def offloaded(self) -> tuple[str, ...]:
        """What lives in RAM instead of on the device."""
        return _words(self.offload)

    @property
    def chosen_recipe(self) -> Recipe:
        """The recipe by which weights, gradients and frozen weights are kept."""
        return recipe_named(self.recipe)

    @property
    def trained_recipe(self) -> Recipe:
        """The recipe of what is trained: fp32 for an adapter, unless it follows the set-up's own."""
        is_apart = self.lora_rank is not None and self.adapter_precision == "fp32"
        return RECIPES["fp32"] if is_apart else self.chosen_recipe

    @property
    def chosen_optimizer(self) -> Optimizer:
        """The optimizer."""
        return optimizer_named(self.optimizer)

    @property
    def chosen_base(self) -> str:
        """The precision of frozen weights: the one asked for, else the recipe's."""
        return self.base or ("fp32" if self.chosen_recipe.frozen_bytes == 4 else "bf16")

    @property
    def chosen_implementation(self) -> str:
        """The implementation of the optimizer's step: the one asked for, else the usual one."""
        if self.implementation is not None:
            return self.implementation
        kept = self.trained_recipe
        return usual_implementation(self.chosen_optimizer, self.device, kept.moment_bytes > kept.weight_bytes)

    @property
    def keeps_gradients(self) -> bool:
        """Whether gradients are alive while a forward runs: several micro-batches, or not set to None."""
        early = self.chosen_recipe.gradients_at_start or self.chosen_recipe.cast_with_gradients
        return (early or self.accumulation > 1 or not self.set_to_none) and not self.optimizer_in_backward

    def counts(self) -> tuple[int, int]:
        """Trainable and frozen parameters where they are chosen by number, not tensor by tensor."""
        total = parse_count(self.parameters) if self.model is None else architecture(self.model).parameters
        chosen = self.trainable
        if chosen == "all":
            return total, 0
        if isinstance(chosen, float):
            if not 0 <= chosen <= 1:
                raise ValueError(f"trainable must be a share up to 1.0, a count or 'all', not {chosen!r}")
            count = round(total * chosen)
        else:
            count = parse_count(chosen)
        if count > total:
            raise ValueError(f"trainable must be 1 to {total}, the model's parameters, not {chosen!r}")
        return count, total - count


def _words(names: tuple[str, ...] | str) -> tuple[str, ...]:
    parts = names.split(",") if isinstance(names, str) else names
    return tuple(part.strip() for part in parts if part.strip())


def _one_of(name: str, value: object, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        words = ", ".join(str(each) for each in allowed if each is not None)
        raise ValueError(f"{name} must be one of {words}, not {value!r}")


def _whole(name: str, value: object, smallest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
        raise ValueError(f"{name} must be a whole number of {smallest} or more, not {value!r}")


def _check(setup: Setup) -> None:
    """Raise ValueError for the first thing that is wrong with a set-up."""
    if (setup.parameters is None) == (setup.model is None):
        raise ValueError("give either parameters (such as 7B) or model (such as llama-2-7b)")
    recipe_named(setup.recipe)
    optimizer_named(setup.optimizer)
    if setup.base is not None:
        adapters.base_named(setup.base)
    _one_of("attention", setup.attention, ATTENTIONS)
    _one_of("checkpointing", setup.checkpointing, CHECKPOINTINGS)
    _one_of("implementation", setup.implementation, (None, *IMPLEMENTATIONS))
    _one_of("adapter_precision", setup.adapter_precision, ("fp32", "recipe"))
    _one_of("device", setup.device, DEVICE_KINDS)
    _one_of("zero", setup.zero, (0, 1, 2, 3))
    for name, smallest in (("batch", 0), ("sequence", 1), ("accumulation", 1), ("gpus", 1)):
        _whole(name, getattr(setup, name), smallest)
    for part in setup.offloaded:
        _one_of("offload", part, OFFLOADS)
    _check_together(setup)
    _check_shapes(setup)


def _check_together(setup: Setup) -> None:
    """Raise ValueError for choices that are each allowed and do not go together."""
    chosen = setup.lora_rank is not None or setup.last_layers is not None
    if setup.zero and setup.gpus < 2:
        raise ValueError(f"ZeRO-{setup.zero} shares the work of 2 or more GPUs: gpus is {setup.gpus}")
    if setup.lora_rank is not None and setup.last_layers is not None:
        raise ValueError("choose lora_rank or last_layers, not both")
    if setup.trainable != "all" and chosen:
        raise ValueError("lora_rank and last_layers choose what is trained: leave trainable at 'all'")
    if setup.optimizer_in_backward and setup.accumulation > 1:
        many = setup.accumulation
        raise ValueError(
            f"an optimizer in backward uses gradients at once: accumulation must be 1, not {many}"
        )
    if not chosen:
        _check_part(setup)


def _check_part(setup: Setup) -> None:
    """Raise ValueError for a set-up that trains nothing, or quantises where nothing is frozen."""
    trainable, frozen = setup.counts()
    if not trainable:
        label = setup.chosen_optimizer.label
        raise ValueError(f"{label} has no parameter to train: trainable must be above 0, up to {frozen}")
    if setup.base is not None and not frozen:
        raise ValueError(
            f"base {setup.base} is for frozen weights, and everything is trained: "
            "choose lora_rank, last_layers or a smaller trainable part"
        )


def _check_shapes(setup: Setup) -> None:
    """Raise ValueError for what needs tensor shapes that are not there, or does not fit those that are."""
    shape = setup.shape
    if shape is None:
        for name in ("lora_rank", "last_layers", "batch"):
            if getattr(setup, name):
                raise ValueError(f"{name} needs a model with shapes, such as model llama-2-7b, not a count")
        return
    if shape.context and setup.batch and setup.sequence > shape.context:
        raise ValueError(f"sequence must be 1 to {shape.context} for {shape.name}, not {setup.sequence}")
    if setup.lora_rank is not None:
        adapters.check_rank(setup.lora_rank, adapters.target_matrices(shape, setup.targets))
    if setup.last_layers is not None:
        layers = shape.decoder_layers or shape.layers
        if isinstance(setup.last_layers, bool) or not 1 <= setup.last_layers <= layers:
            raise ValueError(f"last_layers must be 1 to {layers} for {shape.name}, not {setup.last_layers!r}")
