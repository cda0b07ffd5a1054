"""How many bytes does a training set-up take: by tensor class, by moment of the step, and at its peak?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

from memory_budget import adapters, devices, inventory
from memory_budget.architectures import TotalOnly, Transformer, architecture
from memory_budget.optimizers import Optimizer, optimizer_named
from memory_budget.palette import CLASS_KEYS, in_order
from memory_budget.recipes import RECIPES, Recipe, recipe_named
from memory_budget.units import bytes_text, count_text, number_text, parse_count

MOMENTS = ("after loading", "end of forward", "backward peak", "before step", "inside step", "after step")
ATTENTIONS = ("sdpa", "scores")
CHECKPOINTINGS = ("none", "selective", "full")
IMPLEMENTATIONS = ("foreach", "for-loop", "fused")
DEVICE_KINDS = ("cuda", "mps", "cpu")
OFFLOADS = ("optimizer", "gradients", "weights")


def terms(
    trainable: float = 1, frozen: float = 0, recipe: str = "mixed", optimizer: str = "adamw"
) -> dict[str, int]:
    """Bytes by tensor class of that many trainable and frozen parameters, without activations.

    Counts are numbers or text such as 7B; every class is present, in drawing order, most of them 0."""
    chosen, kept = recipe_named(recipe), optimizer_named(optimizer)
    count = parse_count(trainable)
    sizes: dict[str, Any] = {key: int(value * count) for key, value in chosen.terms("sgd").items()}
    sizes |= kept.unshaped_bytes(count, chosen.moment_bytes)
    return in_order(sizes | {"frozen_weights": parse_count(frozen) * chosen.frozen_bytes})


def training_bytes(trainable: float, recipe: str = "mixed", optimizer: str = "adamw") -> int:
    """Bytes to train that many parameters, all of them, without activations: 16 each in most regimes."""
    return sum(terms(trainable, 0, recipe, optimizer).values())


def finetune_bytes(frozen: float, trainable: float, recipe: str = "mixed", optimizer: str = "adamw") -> int:
    """Bytes to train `trainable` parameters beside `frozen` ones, without activations: 2 F + 16 T if mixed."""
    return sum(terms(trainable, frozen, recipe, optimizer).values())


def inference_bytes(parameters: float, bytes_per_parameter: float = 2, margin: float = 0.2) -> int:
    """Bytes to run a model: its weights, and about a fifth more for activations and the key-value cache."""
    if bytes_per_parameter <= 0 or margin < 0:
        raise ValueError(
            f"bytes_per_parameter must be above 0 and margin 0 or more, not {bytes_per_parameter!r}, {margin!r}"
        )
    return round(parse_count(parameters) * bytes_per_parameter * (1 + margin))


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A training set-up: what is trained, how its numbers are kept, and what each step does.

    Give `parameters` (a count, or text such as 7B) or `model` (a name or a Transformer). `trainable` is "all",
    a share (a float up to 1.0) or a count (an int); `lora_rank` or `last_layers` choose it by tensors instead.
    `batch` is sequences in one micro-batch on one GPU; with 0 (the default) activations are left out.
    An adapter is kept in fp32 beside a 16-bit base, as PEFT does, unless `adapter_precision` is "recipe".
    `implementation` None means what is usual: fused where there is a master copy, else torch's own choice on
    `device` (foreach on cuda, for-loop elsewhere). Errors are ValueErrors in one line with what is allowed."""

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


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a set-up takes on one device, in bytes.

    `bytes` is the sum on paper: every state and the activations, by class. `moments` is what is alive at each
    moment of a step; the largest of them is the peak, which can lie above the sum (temporaries of the step) or
    below it (activations are gone before the last gradients come). `host_bytes` is what offload moved to RAM."""

    setup: Setup
    bytes: dict[str, int]
    moments: dict[str, dict[str, int]]
    trainable: int
    frozen: int
    host_bytes: dict[str, int]

    @cached_property
    def total_bytes(self) -> int:
        """The sum on paper, over all classes."""
        return sum(self.bytes.values())

    @cached_property
    def peak_moment(self) -> str:
        """The moment that holds most; `before step` if it holds as much as another, else the earlier one."""
        order = sorted(self.moments, key=lambda moment: moment != "before step")
        return max(order, key=lambda moment: sum(self.moments[moment].values()))

    @cached_property
    def peak_bytes(self) -> int:
        """The most bytes that are alive at once."""
        return sum(self.moments[self.peak_moment].values())

    @property
    def peak_holders(self) -> list[str]:
        """The tensor classes alive at the peak, largest first."""
        alive = self.moments[self.peak_moment]
        return sorted((key for key in alive if alive[key]), key=lambda key: -alive[key])

    @property
    def bytes_per_trainable(self) -> float:
        """Bytes kept for what is trained (no frozen weights, no activations), per trainable parameter."""
        kept = sum(
            size for key, size in self.bytes.items() if key not in ("frozen_weights", "activations")
        )
        return kept / self.trainable if self.trainable else 0.0

    def fits(self, device_bytes: int) -> bool:
        """Whether the peak, and the sum where that is larger, fits in `device_bytes`."""
        return self.short_by_bytes(device_bytes) == 0

    def short_by_bytes(self, device_bytes: int) -> int:
        """How many bytes are missing on such a device; 0 if it fits."""
        return devices.short_by_bytes(self.peak_bytes, device_bytes)

    @property
    def sum_in_words(self) -> str:
        """The sum as people say it: `7B x 16 bytes = 112 GB`, with its frozen part and activations if any."""
        parts = []
        if self.frozen:
            each = self.bytes["frozen_weights"] / self.frozen
            parts.append(f"{count_text(self.frozen)} frozen x {number_text(each)} bytes")
        if self.trainable:
            what = " trained" if self.frozen else ""
            each = number_text(self.bytes_per_trainable)
            parts.append(f"{count_text(self.trainable)}{what} x {each} bytes")
        if self.bytes["activations"]:
            parts.append(f"{bytes_text(self.bytes['activations'])} activations")
        return f"{' + '.join(parts)} = {bytes_text(self.total_bytes)}"

    def sentence(self, device_bytes: int) -> str:
        """The sum and the verdict: `7B x 16 bytes = 112 GB, short by 32 GB on 80 GB`."""
        verdict = devices.fit_words(self.peak_bytes, device_bytes)
        if bytes_text(self.peak_bytes) == bytes_text(self.total_bytes):
            return f"{self.sum_in_words}, {verdict}"
        peak = f"{bytes_text(self.peak_bytes)} at the peak ({self.peak_moment})"
        return f"{self.sum_in_words}, {peak}, {verdict}"


def _one_of(name: str, value: object, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}, not {value!r}")


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
    for part in _offloaded(setup):
        _one_of("offload", part, OFFLOADS)
    _check_together(setup)


def _check_together(setup: Setup) -> None:
    """Raise ValueError for choices that are each allowed and do not go together."""
    if setup.zero and setup.gpus < 2:
        raise ValueError(f"ZeRO-{setup.zero} shares the work of 2 or more GPUs: gpus is {setup.gpus}")
    if setup.lora_rank is not None and setup.last_layers is not None:
        raise ValueError("choose lora_rank or last_layers, not both")
    if setup.trainable != "all" and (setup.lora_rank is not None or setup.last_layers is not None):
        raise ValueError("lora_rank and last_layers choose what is trained: leave trainable at 'all'")
    if setup.optimizer_in_backward and setup.accumulation > 1:
        raise ValueError("an optimizer in backward frees each gradient at once: accumulation must be 1")
    model = None if setup.model is None else architecture(setup.model)
    shaped = isinstance(model, Transformer)
    if not shaped and (setup.lora_rank is not None or setup.last_layers is not None or setup.batch):
        what = "batch" if setup.batch else "last_layers" if setup.lora_rank is None else "lora_rank"
        raise ValueError(f"{what} needs a model with shapes, such as model='llama-2-7b'")
    if shaped and model.context and setup.batch and setup.sequence > model.context:
        raise ValueError(f"sequence must be 1 to {model.context} for {model.name}, not {setup.sequence}")
    if setup.last_layers is not None:
        _whole("last_layers", setup.last_layers, 1)
        if setup.last_layers > (model.decoder_layers or model.layers):
            raise ValueError(f"last_layers must be 1 to {model.layers} for {model.name}, not {setup.last_layers}")


def _offloaded(setup: Setup) -> tuple[str, ...]:
    parts = setup.offload
    return tuple(part for part in parts.split(",") if part) if isinstance(parts, str) else tuple(parts)


def _counts(setup: Setup) -> tuple[int, int]:
    """Trainable and frozen parameters of a set-up that is not told tensor by tensor."""
    total = parse_count(setup.parameters) if setup.model is None else architecture(setup.model).parameters
    chosen = setup.trainable
    if chosen == "all":
        return total, 0
    if isinstance(chosen, float):
        if not 0 <= chosen <= 1:
            raise ValueError(f"trainable must be a share from 0.0 to 1.0, a count or 'all', not {chosen!r}")
        count = round(total * chosen)
    else:
        count = parse_count(chosen)
        if count > total:
            raise ValueError(f"trainable must be 0 to {total}, the model's parameters, not {chosen!r}")
    return count, total - count


def _kept(setup: Setup) -> inventory.Kept:
    recipe, optimizer = recipe_named(setup.recipe), optimizer_named(setup.optimizer)
    base = setup.base or ("fp32" if recipe.frozen_bytes == 4 else "bf16")
    is_adapter = setup.lora_rank is not None and setup.adapter_precision == "fp32"
    common = dict(
        recipe=recipe, adapter=RECIPES["fp32"] if is_adapter else recipe, optimizer=optimizer, base=base
    )
    if isinstance(setup.model, str | Transformer) and setup.trainable == "all":
        model = architecture(setup.model)
        if isinstance(model, Transformer):
            targets = setup.lora_targets
            targets = tuple(targets.split(",")) if isinstance(targets, str) else tuple(targets)
            run = inventory.stages(model, setup.lora_rank, targets, setup.last_layers)
            return inventory.kept_with_shapes(run, **common)
    trainable, frozen = _counts(setup)
    return inventory.kept_without_shapes(trainable=trainable, frozen=frozen, **common)


def _check_kept(setup: Setup, kept: inventory.Kept) -> None:
    """Raise ValueError for a set-up that trains nothing, or quantises where nothing is frozen."""
    if not kept.trainable:
        optimizer = optimizer_named(setup.optimizer).label
        raise ValueError(
            f"{optimizer} has nothing to train: trainable must be a share above 0, a count of 1 or more, or 'all'"
        )
    if setup.base is not None and not kept.frozen:
        raise ValueError(
            f"base {setup.base} is for frozen weights and everything is trained: choose lora_rank, last_layers "
            "or a smaller trainable part"
        )


def _activation_bytes(setup: Setup) -> int:
    """Placeholder: the layer formula of arXiv 2205.05198, equation 2, and 16-bit or fp32 logits."""
    if not setup.batch:
        return 0
    model, width = architecture(setup.model), recipe_named(setup.recipe).compute_bytes
    tokens = setup.batch * setup.sequence
    scores = 5 * model.heads * setup.sequence // model.hidden if setup.attention == "scores" else 0
    layer = tokens * model.hidden * (34 + scores) * width // 2
    if setup.checkpointing == "full":
        return tokens * model.hidden * width * model.layers + layer + 4 * tokens * model.vocabulary
    return layer * (model.layers + model.decoder_layers) + 4 * tokens * model.vocabulary


def predict(setup: Setup) -> Budget:
    """What the set-up takes on one device: bytes by class and by moment of a step, in under a millisecond."""
    kept = _kept(setup)
    _check_kept(setup, kept)
    shared = setup.gpus if setup.zero else 1
    offloaded = _offloaded(setup)

    def shard(size: int, stage: int) -> int:
        return ceil(size / shared) if setup.zero >= stage else size

    states = {
        "weights": shard(kept.weights, 3),
        "frozen_weights": shard(kept.frozen_weights, 3),
        "master_copy": shard(kept.master_copy, 1),
        "gradients": shard(kept.gradients, 2) + shard(kept.gradient_copy, 1),
        "first_moment": shard(kept.first_moment, 1),
        "second_moment": shard(kept.second_moment, 1),
    }
    host = {}
    groups = {
        "optimizer": ("master_copy", "first_moment", "second_moment"),
        "gradients": ("gradients",), "weights": ("weights", "frozen_weights"),
    }  # fmt: skip
    for part in offloaded:
        for key in groups[part]:
            host[key], states[key] = states[key], 0
    activations = _activation_bytes(setup)
    moments = _moments(setup, kept, states, activations)
    return Budget(
        setup=setup,
        bytes=in_order(states | {"activations": activations, "temporaries": _casts(setup, kept, True)}),
        moments=moments,
        trainable=kept.trainable,
        frozen=kept.frozen,
        host_bytes=in_order(host),
    )


def _casts(setup: Setup, kept: inventory.Kept, with_gradients: bool) -> int:
    recipe = recipe_named(setup.recipe)
    keeps = recipe.cast_with_gradients or setup.accumulation > 1 or not setup.set_to_none
    return recipe.cast_bytes * (kept.trainable + kept.frozen) if keeps or not with_gradients else 0


def implementation_of(setup: Setup) -> str:
    """The implementation of the optimizer's step that the set-up runs."""
    if setup.implementation is not None:
        return setup.implementation
    if recipe_named(setup.recipe).master_bytes:
        return "fused"
    return "foreach" if setup.device == "cuda" else "for-loop"


def _step_temporaries(setup: Setup, kept: inventory.Kept, states: dict[str, int]) -> int:
    name = optimizer_named(setup.optimizer).name
    if name not in ("adam", "adamw", "amsgrad"):
        return 0
    moment = recipe_named(setup.recipe).moment_bytes
    return {
        "foreach": states["first_moment"],
        "for-loop": 2 * kept.largest_tensor * moment,
        "fused": 0,
    }[implementation_of(setup)]


def _moments(setup: Setup, kept: inventory.Kept, states: dict[str, int], activations: int) -> dict:
    recipe = recipe_named(setup.recipe)
    early = recipe.gradients_at_start or setup.accumulation > 1 or not setup.set_to_none
    weights = {key: states[key] for key in ("weights", "frozen_weights", "master_copy")}
    state = {key: states[key] for key in ("first_moment", "second_moment")}
    before = {} if setup.first_step else state
    gradients = {"gradients": states["gradients"]}
    casts = _casts(setup, kept, False)
    loading = weights | (gradients if recipe.gradients_at_start else {})
    forward = weights | before | (gradients if early else {}) | {"activations": activations, "temporaries": casts}
    backward = weights | before | gradients | {"activations": activations if early else activations // 2}
    inside = weights | state | gradients | {"temporaries": _step_temporaries(setup, kept, states)}
    sizes = (loading, forward, backward, weights | before | gradients, inside, weights | state | gradients)
    return {name: in_order(size) for name, size in zip(MOMENTS, sizes, strict=True)}
