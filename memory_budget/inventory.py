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

    Sizes are those of one layer."""

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
    """The model's stages with each tensor trained or frozen: all trained, LoRA's only, or the last layers."""
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

    `trainable` and `frozen` count parameters. `gradient_copy` are the second, fp32 gradients of regimes that
    have both. `casts` are autocast's 16-bit copies of all linear layers. `tensors` are the trainable ones in
    their order, alike layers twice; `largest_tensor` counts the elements of the largest."""

    trainable: int
    frozen: int
    weights: int
    frozen_weights: int
    master_copy: int
    gradients: int
    gradient_copy: int
    first_moment: int
    second_moment: int
    casts: int
    tensors: tuple[TensorShape, ...] = ()
    largest_layer_bytes: int = 0

    @property
    def largest_tensor(self) -> int:
        """Elements of the largest trainable tensor; 0 where shapes are not known."""
        return max((tensor.elements for tensor in self.tensors), default=0)


def _trained(trainable: int, trained: Recipe) -> dict[str, int]:
    """Bytes that depend on the number of trainable parameters alone."""
    return dict(
        weights=trainable * trained.weight_bytes,
        master_copy=trainable * trained.master_bytes,
        gradients=trainable * (trained.gradient_bytes - trained.gradient_copy_bytes),
        gradient_copy=trainable * trained.gradient_copy_bytes,
    )


def kept_without_shapes(
    *, trainable: int, frozen: int, recipe: Recipe, trained: Recipe, optimizer: Optimizer, base: str
) -> Kept:
    """Bytes kept where only numbers of parameters are known; a quantised base is then quantised whole."""
    return Kept(
        trainable=trainable,
        frozen=frozen,
        frozen_weights=adapters.matrix_bytes(frozen, base),
        casts=recipe.cast_bytes * (trainable + frozen),
        **_trained(trainable, trained),
        **optimizer.unshaped_bytes(trainable, trained.moment_bytes),
    )


def _state(run: tuple[Stage, ...], optimizer: Optimizer, moment_bytes: int) -> dict[str, int]:
    """Bytes of the optimizer's state, tensor by tensor."""
    total = {"first_moment": 0, "second_moment": 0}
    for stage in run:
        for tensor in stage.trainable:
            sizes = optimizer.state_bytes(tensor.shape, moment_bytes, tensor.is_hidden_matrix)
            for key, size in sizes.items():
                total[key] += stage.repeat * size
    return total


def _layer_bytes(stage: Stage, recipe: Recipe, trained: Recipe, base: str) -> tuple[int, int]:
    """Bytes of one layer's trained and frozen weights."""
    frozen = sum(adapters.frozen_tensor_bytes(t, base, recipe.frozen_bytes) for t in stage.frozen)
    return stage.trainable_elements * trained.weight_bytes, frozen


def kept_with_shapes(
    run: tuple[Stage, ...], *, tied: bool, recipe: Recipe, trained: Recipe, optimizer: Optimizer, base: str
) -> Kept:
    """Bytes kept by every tensor of the stages: optimizer state and quantised matrices follow the shapes."""
    trainable = sum(stage.repeat * stage.trainable_elements for stage in run)
    weights = [(stage.repeat, *_layer_bytes(stage, recipe, trained, base)) for stage in run]
    casts = sum(stage.repeat * stage.cast_elements for stage in run)
    table = (*run[0].trainable, *run[0].frozen)[0].elements if tied else 0
    return Kept(
        trainable=trainable,
        frozen=sum(stage.repeat * stage.frozen_elements for stage in run),
        frozen_weights=sum(repeat * frozen for repeat, _, frozen in weights),
        casts=recipe.cast_bytes * (casts + table),
        tensors=tuple(t for stage in run for _ in range(min(stage.repeat, 2)) for t in stage.trainable),
        largest_layer_bytes=max(trained + frozen for _, trained, frozen in weights),
        **_trained(trainable, trained),
        **_state(run, optimizer, trained.moment_bytes),
    )
