"""Which device runs the step, and what can that device tell about its memory?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psutil
import torch

KINDS = ("cuda", "mps", "cpu")


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device: `kind` cuda, mps or cpu; its name; its memory in bytes (None where nobody tells).

    `api` is torch.cuda or torch.mps, or something that answers like it; `place` is where tensors then go."""

    kind: str
    name: str
    memory_bytes: int | None = None
    api: Any = field(default=None, repr=False)
    place: str | None = None

    @property
    def torch_device(self) -> torch.device:
        """The device as torch names it."""
        return torch.device(self.place or self.kind)


def has_cuda(torch_module: Any = torch) -> bool:
    """Tell whether an NVIDIA (or ROCm) GPU can be used."""
    return bool(torch_module.cuda.is_available())


def has_mps(torch_module: Any = torch) -> bool:
    """Tell whether an Apple GPU can be used."""
    backends = getattr(torch_module.backends, "mps", None)
    return backends is not None and bool(backends.is_available())


def device(kind: str | None = None, torch_module: Any = torch) -> Device:
    """Choose the device: CUDA, else MPS, else CPU; or the one asked for.

    Raises ValueError for a word that is none of them, RuntimeError when that device is not there.
    """
    present = {"cuda": has_cuda(torch_module), "mps": has_mps(torch_module), "cpu": True}
    if kind is None:
        kind = next(k for k in KINDS if present[k])
    if kind not in present:
        raise ValueError(f"device is {kind!r}: allowed are {', '.join(KINDS)}")
    if not present[kind]:
        raise RuntimeError(f"no {kind} device here: use {' or '.join(k for k in KINDS if present[k])}")
    return {"cuda": _cuda, "mps": _mps, "cpu": _cpu}[kind](torch_module)


def device_name() -> str:
    """Name the device that a measured step would use."""
    return device().name


def _cuda(torch_module: Any) -> Device:
    api = torch_module.cuda
    memory = api.get_device_properties(api.current_device()).total_memory
    return Device(kind="cuda", name=f"CUDA ({api.get_device_name()})", memory_bytes=memory, api=api)


def _mps(torch_module: Any) -> Device:
    api = torch_module.mps
    return Device(kind="mps", name="MPS (Apple GPU)", memory_bytes=api.recommended_max_memory(), api=api)


def _cpu(torch_module: Any) -> Device:
    return Device(kind="cpu", name="CPU", memory_bytes=psutil.virtual_memory().total)
