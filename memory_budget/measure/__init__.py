"""Measures one real training step: bytes by class and moment, on CUDA, MPS or the CPU."""

from memory_budget.measure.adapters import freeze_and_adapt
from memory_budget.measure.case import Case
from memory_budget.measure.devices import Device, device, device_name
from memory_budget.measure.dry_run import dry_run
from memory_budget.measure.isolated import in_own_process
from memory_budget.measure.learning import gradient_rms, learning_rate_sweep
from memory_budget.measure.measurement import Measurement
from memory_budget.measure.small_gpt import SmallGPT, small_gpt
from memory_budget.measure.small_llama import SmallLlama
from memory_budget.measure.step import training_step

__all__ = [
    "Case",
    "Device",
    "Measurement",
    "SmallGPT",
    "SmallLlama",
    "device",
    "device_name",
    "dry_run",
    "freeze_and_adapt",
    "gradient_rms",
    "in_own_process",
    "learning_rate_sweep",
    "small_gpt",
    "training_step",
]
