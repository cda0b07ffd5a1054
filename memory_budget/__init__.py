"""How much memory does it take to train a language model, and why?

`budget` holds the model, `bars` and `figures` its pictures, `measure` one real training step. Importing this
package loads pure arithmetic only; import `bars`, `figures` and `measure` by name where you need them."""

from memory_budget import architectures, budget, devices, optimizers, palette, recipes, units
from memory_budget.architectures import ARCHITECTURES, Transformer, architecture
from memory_budget.budget import (
    Budget,
    Setup,
    finetune_bytes,
    inference_bytes,
    predict,
    terms,
    training_bytes,
)
from memory_budget.devices import DEVICES
from memory_budget.optimizers import OPTIMIZERS
from memory_budget.palette import TENSOR_CLASSES
from memory_budget.recipes import RECIPES

__all__ = [
    "ARCHITECTURES",
    "DEVICES",
    "OPTIMIZERS",
    "RECIPES",
    "TENSOR_CLASSES",
    "Budget",
    "Setup",
    "Transformer",
    "architecture",
    "architectures",
    "budget",
    "devices",
    "finetune_bytes",
    "inference_bytes",
    "optimizers",
    "palette",
    "predict",
    "recipes",
    "terms",
    "training_bytes",
    "units",
]
