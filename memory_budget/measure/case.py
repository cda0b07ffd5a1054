"""One measured step told by plain words, so that it can be run in another process or put in a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from memory_budget.architectures import Transformer, architecture
from memory_budget.measure.adapters import freeze_and_adapt
from memory_budget.measure.isolated import in_own_process
from memory_budget.measure.measurement import Measurement
from memory_budget.measure.small_gpt import SmallGPT
from memory_budget.measure.small_llama import SmallLlama
from memory_budget.measure.step import training_step


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model (a name or a Transformer), its adapter, how it attends and recomputes, and a step's settings.

    `settings` go to `training_step`: optimizer, recipe, batch, sequence and the rest."""

    model: str | Transformer = "small-gpt"
    attention: str = "sdpa"
    checkpointing: str = "none"
    lora_rank: int | None = None
    lora_targets: tuple[str, ...] | str | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def build(self) -> SmallGPT | SmallLlama:
        """Build the model, the same weights each time."""
        shape = architecture(self.model)
        kind = SmallGPT if shape.family in SmallGPT.families else SmallLlama
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = kind(shape, self.attention, self.checkpointing)
        if self.lora_rank is not None:
            freeze_and_adapt(model, self.lora_rank, self.lora_targets)
        return model

    def measure(self) -> Measurement:
        """Run the step here."""
        return training_step(self.build(), **self.settings)

    def measure_apart(self) -> Measurement:
        """Run the step in a process of its own."""
        return in_own_process(self.measure)
