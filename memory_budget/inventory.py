"""Which tensors of a set-up are trained and which are frozen, and how many bytes does each kind keep?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from memory_budget import adapters
from memory_budget.architectures import Transformer
from memory_budget.optimizers import Optimizer
from memory_budget.recipes import Recipe
from memory_budget.tensors import Block, TensorShape


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A run of `repeat` alike layers (or what comes before or after them), in the order of the forward pass.

    Sizes are those of one layer. `cast_elements` are parameters of linear layers, which autocast copies;
    `linear_frozen` and `linear_trainable` hold the rest of a stage's tensors by what happens to them."""

    part: str
    repeat: int
    trainable: tuple[TensorShape, ...]
    frozen: tuple[TensorShape, ...]

    @property
    def trainable_elements(self) -> int:
        """How many parameters of one layer are trained."""
        return sum(tensor.elements for tensor in self.trainable)

    @property
    def frozen_elements(self) -> int:
        """How many parameters of one layer are frozen."""
        return sum(tensor.elements for tensor in self.frozen)

    @property
    def cast_elements(self) -> int:
        """How many parameters of one layer autocast copies to 16 bit: weights and biases of linear layers."""
        return sum(
            tensor.elements
            for tensor in (*self.trainable, *self.frozen)
            if tensor.part in ("attention", "mlp", "head", "pooler")
        )


def _adapted(index: int, chosen: Iterable[adapters.Matrix], rank: int) -> tuple[TensorShape, ...]:
    return tuple(
        tensor for matrix in chosen if matrix.block == index for tensor in adapters.lora_tensors(matrix, rank)
    )


def _part(model: Transformer, index: int) -> str:
    if index == 0:
        return "first"
    return "last" if index == len(model.blocks()) - 1 and model.blocks()[index].repeat == 1 else "layer"


@lru_cache(maxsize=256)
def stages(
    model: Transformer, lora_rank: int | None, lora_targets: tuple[str, ...], last_layers: int | None
) -> tuple[Stage, ...]:
    """The model's stages with each tensor trained or frozen: all trained, LoRA's only, or the last layers'."""
    chosen: tuple[adapters.Matrix, ...] = ()
    if lora_rank is not None:
        chosen = adapters.target_matrices(model, lora_targets)
        adapters.check_rank(lora_rank, chosen)
    found = []
    for index, block in enumerate(model.blocks()):
        part = _part(model, index)
        if lora_rank is not None:
            trained, frozen = _adapted(index, chosen, lora_rank), block.tensors
            found.append(Stage(part=part, repeat=block.repeat, trainable=trained, frozen=frozen))
        elif last_layers is None:
            found.append(Stage(part=part, repeat=block.repeat, trainable=block.tensors, frozen=()))
        else:
            found += _last_only(part, block, last_layers, is_end=index >= len(model.blocks()) - 2)
    return tuple(found)


def _last_only(part: str, block: Block, last_layers: int, is_end: bool) -> list[Stage]:
    trained = min(last_layers, block.repeat) if part == "layer" and is_end else 0
    split = (
        Stage(part=part, repeat=block.repeat - trained, trainable=(), frozen=block.tensors),
        Stage(part=part, repeat=trained, trainable=block.tensors, frozen=()),
    )
    return [stage for stage in split if stage.repeat]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Bytes that a set-up keeps on all devices together, by kind, before any sharding.

    `gradient_copy` are the second, fp32 gradients of regimes that have both. The `largest` are elements of the
    largest trainable tensor and of the largest layer; `trainable` and `frozen` count parameters."""

    trainable: int
    frozen: int
    weights: int
    frozen_weights: int
    master_copy: int
    gradients: int
    gradient_copy: int
    first_moment: int
    second_moment: int
    largest_tensor: int = 0
    largest_layer: int = 0


def kept_without_shapes(
    *, trainable: int, frozen: int, recipe: Recipe, adapter: Recipe, optimizer: Optimizer, base: str
) -> Kept:
    """Bytes kept where only numbers of parameters are known; a quantised base is then quantised whole."""
    moments = optimizer.unshaped_bytes(trainable, adapter.moment_bytes)
    return Kept(
        trainable=trainable,
        frozen=frozen,
        weights=trainable * adapter.weight_bytes,
        frozen_weights=adapters.matrix_bytes(frozen, base),
        master_copy=trainable * adapter.master_bytes,
        gradients=trainable * (adapter.gradient_bytes - adapter.gradient_copy_bytes),
        gradient_copy=trainable * adapter.gradient_copy_bytes,
        **moments,
    )


def kept_with_shapes(
    run: tuple[Stage, ...], *, recipe: Recipe, adapter: Recipe, optimizer: Optimizer, base: str
) -> Kept:
    """Bytes kept by every tensor of the stages; optimizer state and quantised matrices follow their shapes."""
    trainable = frozen = frozen_bytes = first = second = largest = largest_layer = 0
    for stage in run:
        trainable += stage.repeat * stage.trainable_elements
        frozen += stage.repeat * stage.frozen_elements
        largest_layer = max(largest_layer, stage.trainable_elements + stage.frozen_elements)
        for tensor in stage.trainable:
            largest = max(largest, tensor.elements)
            state = optimizer.state_bytes(tensor.shape, adapter.moment_bytes, tensor.is_hidden_matrix)
            first += stage.repeat * state["first_moment"]
            second += stage.repeat * state["second_moment"]
        for tensor in stage.frozen:
            frozen_bytes += stage.repeat * adapters.frozen_tensor_bytes(tensor, base, recipe.frozen_bytes)
    return Kept(
        trainable=trainable,
        frozen=frozen,
        weights=trainable * adapter.weight_bytes,
        frozen_weights=frozen_bytes,
        master_copy=trainable * adapter.master_bytes,
        gradients=trainable * (adapter.gradient_bytes - adapter.gradient_copy_bytes),
        gradient_copy=trainable * adapter.gradient_copy_bytes,
        first_moment=first,
        second_moment=second,
        largest_tensor=largest,
        largest_layer=largest_layer,
    )
