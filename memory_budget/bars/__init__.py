"""Which memory does a job take, as bars that move with a slider? One call on one line for each picture."""

from typing import Any

from memory_budget.bars import pictures, typed
from memory_budget.bars.live import LiveBars, dropdown, slider
from memory_budget.devices import DEVICES
from memory_budget.drawing import Picture
from memory_budget.optimizers import OPTIMIZERS
from memory_budget.recipes import RECIPES
from memory_budget.units import GB, count_text, number_text

__all__ = [
    "escape",
    "inference_and_training",
    "peak",
    "predicted_and_measured",
    "regimes",
    "sixteen_bytes",
    "training",
]

_MANTISSAS = (1, 1.3, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
SIZES = (*(round(m * 10**decade) for decade in (8, 9, 10) for m in _MANTISSAS), 10**11)
RECIPE_OPTIONS = [(recipe.label, name) for name, recipe in RECIPES.items()]
OPTIMIZER_OPTIONS = [(optimizer.label, name) for name, optimizer in OPTIMIZERS.items()]
SHARES = tuple(
    10.0**power * m
    for power, m in ((0, 1.0), *((p, m) for p in (-1, -2, -3) for m in (5, 2, 1)), (-4, 5), (-4, 2), (-4, 1))
)
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BATCHES = (1, 2, 4, 8, 16, 32, 64)
ESCAPE_MODELS = [
    ("7B, any model: choose a share", "7B"),
    ("70B, any model: choose a share", "70B"),
    *(
        (f"{name}: LoRA on query and value", name)
        for name in ("llama-2-7b", "llama-3-8b", "mistral-7b", "qwen2.5-7b", "llama-3.2-1b", "llama-2-70b")
    ),
]
BASE_OPTIONS = [("bf16, 2 bytes", "bf16"), ("int8, 1 byte", "int8"), ("NF4, about half a byte", "nf4")]
STEP_OPTIONS = [
    ("foreach (torch's choice on CUDA)", "foreach"),
    ("for-loop (torch's choice on a CPU)", "for-loop"),
    ("fused", "fused"),
    ("inside backward", "backward"),
]
CHECKPOINT_OPTIONS = [("none", "none"), ("selective", "selective"), ("full", "full")]
DEVICE_OPTIONS = [(f"{device.label} ({device.examples})", device.bytes) for device in DEVICES]


def sixteen_bytes(fp32: Any, mixed: Any) -> Picture:
    """Two bars of the bytes you typed for one trainable parameter: a dict in fp32, one in mixed precision."""
    return typed.sixteen_bytes(fp32, mixed)


def regimes() -> LiveBars:
    """One stop of the slider for each regime in which people count 8, 12, 16, 18 or 20 bytes."""
    return LiveBars(pictures.regime, {"recipe": slider("Regime", RECIPE_OPTIONS, "mixed", readout=False)})


def training() -> LiveBars:
    """Model size, regime and optimizer against the memory of real devices."""
    return LiveBars(
        pictures.training,
        {
            "parameters": slider("Parameters", [(count_text(size), size) for size in SIZES], 7 * 10**9),
            "recipe": dropdown("Regime", RECIPE_OPTIONS, "mixed"),
            "optimizer": dropdown("Optimizer", OPTIMIZER_OPTIONS, "adamw"),
            "device_bytes": dropdown("Device", DEVICE_OPTIONS, 80 * GB),
        },
    )


def escape() -> LiveBars:
    """The trainable share, or the LoRA rank on a real architecture, beside training everything."""
    controls = {
        "model": dropdown("Model", ESCAPE_MODELS, "7B"),
        "share": slider(
            "Trainable share", [(f"{number_text(100 * share)}%", share) for share in SHARES], 0.001
        ),
        "rank": slider("LoRA rank", [(str(rank), rank) for rank in RANKS], 16),
        "base": dropdown("Frozen weights in", BASE_OPTIONS, "bf16"),
    }

    def swap(change: object = None) -> None:
        any_shape = controls["model"].value[0].isdigit()
        controls["share"].layout.display = "" if any_shape else "none"
        controls["rank"].layout.display = "none" if any_shape else ""

    controls["model"].observe(swap, names="value")
    swap()
    return LiveBars(pictures.escape, controls)


def peak() -> LiveBars:
    """Which moment of the step holds most, and how batch and optimizer move it."""
    return LiveBars(
        pictures.peak,
        {
            "batch": slider("Batch", [(str(batch), batch) for batch in BATCHES], 8),
            "step": dropdown("AdamW runs", STEP_OPTIONS, "foreach"),
            "checkpointing": dropdown("Checkpointing", CHECKPOINT_OPTIONS, "none"),
            "first_step": dropdown(
                "Which step", [("a later one", False), ("the first of the run", True)], False
            ),
        },
    )


def predicted_and_measured(predicted: Any, measured: Any) -> Picture:
    """Two bars of one step, as predicted and as measured, and the difference in per cent by class."""
    return pictures.predicted_and_measured(predicted, measured)


def inference_and_training() -> LiveBars:
    """Running and training one model on one scale, when every value is equally wide."""
    return LiveBars(
        pictures.inference_and_training,
        {
            "parameters": slider("Parameters", [(count_text(size), size) for size in SIZES], 13 * 10**9),
            "share": slider(
                "Trainable share", [(f"{number_text(100 * share)}%", share) for share in SHARES], 1.0
            ),
            "optimizer": dropdown(
                "Optimizer", [(OPTIMIZERS[name].label, name) for name in ("sgd", "momentum", "adam")], "adam"
            ),
            "value_bytes": dropdown("Bytes a value", [("2", 2), ("4", 4)], 2),
            "device_bytes": dropdown("Device", DEVICE_OPTIONS, 80 * GB),
        },
    )
