"""How many bytes does a training set-up take: by tensor class, by moment of the step, and at its peak?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from memory_budget import devices, inventory
from memory_budget.moments import MOMENTS, Step
from memory_budget.optimizers import optimizer_named
from memory_budget.palette import in_order
from memory_budget.recipes import recipe_named
from memory_budget.setup import Setup
from memory_budget.units import bytes_text, count_text, number_text, parse_count

__all__ = [
    "MOMENTS",
    "Budget",
    "Setup",
    "finetune_bytes",
    "inference_bytes",
    "predict",
    "terms",
    "training_bytes",
]

_OFFLOADED = {
    "optimizer": ("master_copy", "first_moment", "second_moment"),
    "gradients": ("gradients",),
    "weights": ("weights", "frozen_weights"),
}


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
    """Bytes to train `trainable` parameters beside `frozen` ones, without activations.

    In the mixed regime with AdamW that is 2 F + 16 T: no gradient and no moment belongs to what is frozen."""
    return sum(terms(trainable, frozen, recipe, optimizer).values())


def inference_bytes(parameters: float, bytes_per_parameter: float = 2, margin: float = 0.2) -> int:
    """Bytes to run a model: its weights, and about a fifth more for activations and the key-value cache."""
    if bytes_per_parameter <= 0 or margin < 0:
        raise ValueError(
            "bytes_per_parameter must be above 0 and margin 0 or more, "
            f"not {bytes_per_parameter!r} and {margin!r}"
        )
    return round(parse_count(parameters) * bytes_per_parameter * (1 + margin))


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a set-up takes on one device, in bytes.

    `bytes` is the sum on paper: every state and the activations, by class. `moments` is what is alive at
    each moment of a step; the largest of them is the peak, which can lie above the sum (temporaries of the
    step) or below it (activations are gone before the last gradients come). `host_bytes` is what offload
    moved to RAM."""

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
        kept = sum(size for key, size in self.bytes.items() if key not in ("frozen_weights", "activations"))
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


def _kept(setup: Setup) -> inventory.Kept:
    common = dict(
        recipe=setup.chosen_recipe,
        trained=setup.trained_recipe,
        optimizer=setup.chosen_optimizer,
        base=setup.chosen_base,
    )
    if setup.shape is not None and setup.trainable == "all":
        run = inventory.stages(setup.shape, setup.lora_rank, setup.targets, setup.last_layers)
        return inventory.kept_with_shapes(run, tied=setup.shape.tied, **common)
    trainable, frozen = setup.counts()
    return inventory.kept_without_shapes(trainable=trainable, frozen=frozen, **common)


def _on_device(setup: Setup, kept: inventory.Kept) -> tuple[dict[str, int], int]:
    """Bytes of each state on one device after sharding, and how many of its gradients are second copies."""

    def shard(size: int, stage: int) -> int:
        return -(-size // setup.gpus) if setup.zero >= stage else size

    gradients, copy = shard(kept.gradients, 2), shard(kept.gradient_copy, 1)
    if setup.optimizer_in_backward:
        gradients, copy = min(kept.largest_tensor * setup.trained_recipe.gradient_bytes, gradients), 0
    states = {
        "weights": shard(kept.weights, 3),
        "frozen_weights": shard(kept.frozen_weights, 3),
        "master_copy": shard(kept.master_copy, 1),
        "gradients": gradients + copy,
        "first_moment": shard(kept.first_moment, 1),
        "second_moment": shard(kept.second_moment, 1),
    }
    return states, copy


def predict(setup: Setup) -> Budget:
    """What the set-up takes on one device: bytes by class and by moment of a step."""
    kept = _kept(setup)
    states, copy = _on_device(setup, kept)
    host = {key: states[key] for part in setup.offloaded for key in _OFFLOADED[part]}
    states |= dict.fromkeys(host, 0)
    step = Step(setup=setup, kept=kept, states=states, gradient_copy=0 if "gradients" in host else copy)
    casts = kept.casts if setup.keeps_gradients else 0
    return Budget(
        setup=setup,
        bytes=in_order(states | {"activations": step.activations, "temporaries": casts}),
        moments=step.moments(),
        trainable=kept.trainable,
        frozen=kept.frozen,
        host_bytes=in_order(host),
    )
