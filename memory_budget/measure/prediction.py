"""What does the memory model say of the very step that is measured?"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from memory_budget.architectures import Transformer
from memory_budget.budget import Budget, Setup, predict
from memory_budget.measure.adapters import LowRank

LOOPED = ("mixed", "no-master")


def predicted_budget(
    model: nn.Module,
    *,
    optimizer: str,
    batch: int,
    sequence: int,
    recipe: str,
    implementation: str | None,
    micro_batches: int,
    set_to_none: bool,
    device: str,
    shape: Transformer | None = None,
) -> Budget | None:
    """Predict the step of a SmallGPT or SmallLlama, trained whole or by its adapters, with activations.

    Of any other module (or a part trained by hand) the states alone: its layers' activations are not known.
    `shape` None is the model's own; another one is what the model stands for, when it was built smaller."""
    how = {
        "optimizer": optimizer,
        "recipe": recipe,
        "implementation": implementation or ("for-loop" if recipe in LOOPED else None),
        "device": device,
    }
    passes = {
        "batch": batch,
        "sequence": sequence,
        "accumulation": micro_batches,
        "set_to_none": set_to_none,
        "attention": getattr(model, "attention", "sdpa"),
        "checkpointing": getattr(model, "checkpointing", "none"),
    }
    own = getattr(model, "shape", None)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    if isinstance(own, Transformer) and batch:
        setup = Setup(model=own, **passes, **how, **adapter_of(model))
        if predict(setup).trainable == trained:
            return predict(replace(setup, model=shape or own))
    everything = sum(p.numel() for p in model.parameters())
    return predict(Setup(parameters=everything, trainable=trained, **how))


def adapter_of(model: nn.Module) -> dict[str, object]:
    """Describe the adapters found in a model as `Setup` takes them; {} where there are none."""
    found = {name: m for name, m in model.named_modules() if isinstance(m, LowRank)}
    if not found:
        return {}
    one = next(iter(found.values()))
    wide = one.down.weight.element_size() > one.base.weight.element_size()
    return {
        "lora_rank": one.down.out_features,
        "lora_targets": tuple(sorted({".".join(name.split(".")[-2:]) for name in found})),
        "adapter_precision": "fp32" if wide else "recipe",
    }
