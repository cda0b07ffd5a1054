"""What would make a set-up fit on a device? Single changes first, then the ones people combine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from memory_budget import devices
from memory_budget.architectures import Transformer, architecture
from memory_budget.budget import Setup, predict
from memory_budget.optimizers import optimizer_named
from memory_budget.recipes import recipe_named
from memory_budget.units import bytes_text

MOST_GPUS = 1024


@dataclass(frozen=True, kw_only=True)
class Way:
    """One change that makes the set-up fit: in words, the changed set-up, and its peak in bytes."""

    words: str
    setup: Setup
    peak_bytes: int


def _changes(setup: Setup) -> list[tuple[str, dict[str, Any]]]:
    """Changes that fit this set-up's kind, from the one that costs least to the one that changes most."""
    optimizer, recipe = optimizer_named(setup.optimizer).name, recipe_named(setup.recipe).name
    shaped = setup.model is not None and isinstance(architecture(setup.model), Transformer)
    adapter = setup.lora_rank is not None
    changes: list[tuple[str, dict[str, Any]]] = []
    if setup.implementation != "fused" and optimizer in ("adam", "adamw", "amsgrad"):
        changes.append(("the fused optimizer step", {"implementation": "fused"}))
    if setup.batch and setup.checkpointing != "full":
        changes.append(("full checkpointing", {"checkpointing": "full"}))
    if setup.batch > 1:
        changes.append(("a micro-batch of 1", {"batch": 1, "checkpointing": "full"}))
    if optimizer in ("adam", "adamw", "amsgrad"):
        changes.append(("8-bit AdamW", {"optimizer": "adamw-8bit"}))
    if recipe not in ("pure-bf16", "no-master") and not adapter:
        changes.append(("pure bf16 (small updates get lost)", {"recipe": "pure-bf16"}))
        both = {"recipe": "pure-bf16", "optimizer": "adamw-8bit"}
        changes.append(("pure bf16 and 8-bit AdamW (small updates get lost)", both))
    if setup.trainable == "all" and setup.last_layers is None:
        changes += _adapters(setup, shaped)
    return changes


def _adapters(setup: Setup, shaped: bool) -> list[tuple[str, dict[str, Any]]]:
    small: dict[str, Any] = {"lora_rank": setup.lora_rank or 8} if shaped else {"trainable": 0.005}
    what = "LoRA of rank 8" if shaped else "training 0.5% of the parameters as an adapter"
    saving = {"checkpointing": "full", "batch": 1} if setup.batch else {}
    nf4 = small | {"base": "nf4-dq"}
    found: list[tuple[str, dict[str, Any]]] = []
    if setup.lora_rank is None:
        found.append((what, small | {"base": None}))
    else:
        what = "the same adapter"
    found.append((f"{what} on an NF4 base", nf4))
    if saving:
        found.append((f"{what} on an NF4 base, micro-batch 1, full checkpointing", nf4 | saving))
    return found


def _sharded(setup: Setup, device_bytes: int) -> Way | None:
    """The smallest number of GPUs, a power of two, on which ZeRO-3 fits, with checkpointing if it must be."""
    for checkpointing in dict.fromkeys((setup.checkpointing, "full" if setup.batch else setup.checkpointing)):
        also = "" if checkpointing == setup.checkpointing else ", full checkpointing"
        gpus = max(2, setup.gpus)
        while gpus <= MOST_GPUS:
            changed = replace(setup, zero=3, gpus=gpus, offload=(), checkpointing=checkpointing)
            peak = predict(changed).peak_bytes
            if peak <= device_bytes:
                return Way(words=f"ZeRO-3 over {gpus} such GPUs{also}", setup=changed, peak_bytes=peak)
            gpus *= 2
    return None


def ways_to_fit(setup: Setup, device_bytes: int, most: int = 5) -> list[Way]:
    """Up to `most` changes after which the peak fits in `device_bytes`, the gentlest first; [] if it fits."""
    if predict(setup).fits(device_bytes):
        return []
    ways = []
    for words, change in _changes(setup):
        try:
            changed = replace(setup, **change)
            peak = predict(changed).peak_bytes
        except ValueError:
            continue
        if peak <= device_bytes:
            ways.append(Way(words=words, setup=changed, peak_bytes=peak))
    sharded = _sharded(setup, device_bytes) if not setup.optimizer_in_backward else None
    return [*ways[: most - 1], sharded] if sharded else ways[:most]


def advice_lines(setup: Setup, device_bytes: int) -> list[str]:
    """The ways to fit as lines of text, and the smallest device that would hold the set-up as it is."""
    lines = [f"{way.words}: {bytes_text(way.peak_bytes)}" for way in ways_to_fit(setup, device_bytes)]
    larger = devices.smallest_that_holds(predict(setup).peak_bytes)
    if larger is not None and larger.bytes > device_bytes:
        lines.append(f"a device of {larger.label} ({larger.examples})")
    return lines or ["nothing on the list: take a smaller model"]
