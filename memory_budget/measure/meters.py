"""Watches a training step: by counting tensors on the CPU, by the allocator's own figures on a GPU."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from memory_budget.budget import Budget
from memory_budget.measure.devices import Device
from memory_budget.measure.measurement import Measurement, total
from memory_budget.measure.tracker import (
    Record,
    StepTracker,
    TensorBytes,
    optimizer_bytes,
    storage_bytes,
    weight_bytes,
)


class Meter(ABC):
    """Watches two steps; each kind of device has one."""

    notes: tuple[str, ...] = ()
    sampled = False

    def __init__(self, device: Device) -> None:
        self.device = device
        self.records: list[Record] = []

    def begin(self, tensors: Iterable[Tensor]) -> None:  # noqa: B027 - one that counts has nothing to note
        """Note what the device holds beside these tensors, which belong to the step."""

    @abstractmethod
    def watching(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, data: Any
    ) -> AbstractContextManager[Any]:
        """Watch as long as the context is open; give the batch back."""

    @abstractmethod
    def phase(self, step: int, name: str) -> None:
        """Say that another part of the step begins."""

    def reserved_bytes(self) -> int | None:
        """What the allocator took from the device, where it says."""
        return None

    def measurement(self, predicted: Budget | None = None) -> Measurement:
        """Sum up what was seen."""
        return Measurement(
            device=self.device.name,
            sampled=self.sampled,
            moments=moments_of(self.records),
            timeline=timeline_of(self.records),
            notes=self.notes,
            predicted=predicted,
            reserved_bytes=self.reserved_bytes(),
            first_step_peak_bytes=max(total(r.held) for r in self.records if r.step < 2),
        )


class CountingMeter(Meter):
    """Counts every tensor with torch's MemTracker: exact, and the same each time."""

    tracker: StepTracker
    on_layer: Callable[[], None] | None = None

    @contextmanager
    def watching(self, model: nn.Module, optimizer: torch.optim.Optimizer, data: Any) -> Iterator[Any]:
        self.tracker = StepTracker(model, optimizer, self.on_layer)
        self.tracker.record("")
        self.tracker.track_external(*(leaf for leaf in tree_leaves(data) if isinstance(leaf, Tensor)))
        gc.collect()
        with self.tracker:
            yield data
        self.records = self.tracker.records

    def phase(self, step: int, name: str) -> None:
        self.tracker.count_state()
        close_phase(self.tracker.records, self.tracker.now())
        if name == "forward":
            self.tracker.reset_mod_stats()
        self.tracker.step, self.tracker.phase = step, name


class AllocatorMeter(Meter):
    """Reads a GPU's allocator at each gradient's arrival; tensors are counted, the rest is the difference.

    CUDA keeps the peak between two readings; MPS has no peak, so there the readings are all there is.
    """

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.api = device.api
        self.has_peak = device.kind == "cuda"
        self.sampled = not self.has_peak
        self.notes = (ALLOCATOR_NOTE,) if self.has_peak else (ALLOCATOR_NOTE, SAMPLED_NOTE)
        self.step, self.name, self.base, self.kept = 0, "loading", 0, 0

    def begin(self, tensors: Iterable[Tensor]) -> None:
        where = self.device.torch_device
        small = torch.ones(8, 8, device=where)
        (small @ small).sum()  # the first product takes the library's workspace, which is no tensor of ours
        del small
        there = [tensor for tensor in tensors if tensor.device.type == where.type]
        self.base = self._allocated() - storage_bytes(there)
        self._reset_peak()

    @contextmanager
    def watching(self, model: nn.Module, optimizer: torch.optim.Optimizer, data: Any) -> Iterator[Any]:
        self.model, self.optimizer = model, optimizer
        self.data_bytes = storage_bytes(x for x in tree_leaves(data) if isinstance(x, Tensor))
        self.records.append(Record(0, "loading", "", self._held(self._allocated() - self.data_bytes)))
        self._reset_peak()
        names = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        handles = [
            p.register_post_accumulate_grad_hook(lambda _, name=name: self._sample(name)) for name, p in names
        ]
        try:
            yield data
        finally:
            for handle in handles:
                handle.remove()

    def phase(self, step: int, name: str) -> None:
        self._sample("")
        if self.name == "forward":
            self.kept = self.records[-1].held["activations"]
        close_phase(self.records, self.records[-1].held)
        self.step, self.name = step, name

    def reserved_bytes(self) -> int:
        return self.api.memory_reserved() if self.has_peak else self.api.driver_allocated_memory()

    def _sample(self, label: str) -> None:
        if self.has_peak:
            peak = self._held(self.api.max_memory_allocated())
            self.records.append(Record(self.step, self.name, label, peak))
            self._reset_peak()
        self.records.append(Record(self.step, self.name, label, self._held(self._allocated())))

    def _held(self, allocated: int) -> TensorBytes:
        counted = {
            **weight_bytes(self.model),
            **optimizer_bytes(self.optimizer),
            "gradients": storage_bytes(p.grad for p in self.model.parameters()),
        }
        rest = max(0, allocated - self.base - sum(counted.values()))
        activations = rest if self.name in ("loading", "forward") else min(rest, self.kept)
        if self.name not in ("loading", "forward", "backward"):
            activations = min(rest, self.data_bytes)
        return {**counted, "activations": activations, "temporaries": rest - activations}

    def _allocated(self) -> int:
        return self.api.memory_allocated() if self.has_peak else self.api.current_allocated_memory()

    def _reset_peak(self) -> None:
        if self.has_peak:
            self.api.reset_peak_memory_stats()


ALLOCATOR_NOTE = (
    "Weights, gradients and optimizer state are counted; activations and temporaries are what else "
    "is allocated."
)
SAMPLED_NOTE = (
    "MPS keeps no peak: these are samples of current_allocated_memory, so the true peak may lie higher."
)


def meter_for(device: Device) -> Meter:
    """Choose how to watch this device."""
    return CountingMeter(device) if device.kind == "cpu" else AllocatorMeter(device)


def close_phase(records: list[Record], held: TensorBytes) -> None:
    """Mark the end of the part that ran till now."""
    last = records[-1]
    records.append(Record(last.step, last.phase, "end", held))


def moments_of(records: list[Record]) -> dict[str, TensorBytes]:
    """Pick the six moments out of all records: those of the second step, and the loaded model.

    The end of forward is the most that forward holds: its very end, when the logits are still there."""
    second = [record for record in records if record.step == 2]
    ends = {r.phase: r.held for r in second if r.label == "end"}
    most = {
        phase: max((r.held for r in second if r.phase == phase), key=total)
        for phase in ("forward", "backward", "step")
    }
    return {
        "after loading": records[0].held,
        "end of forward": most["forward"],  # reached with the loss, and the step's peak where casts end it
        "backward peak": most["backward"],
        "before step": ends["backward"],
        "inside step": most["step"],
        "after step": ends["step"],
    }


def timeline_of(records: list[Record]) -> list[tuple[str, TensorBytes]]:
    """Shorten the records: of neighbours with one label keep the one that holds most, and the last."""
    timeline: list[tuple[str, TensorBytes]] = []
    group: list[Record] = []
    for record in [*records, None]:
        if group and (record is None or record[:3] != group[-1][:3]):
            name = f"step {group[0].step} {group[0].phase} {group[0].label}".strip()
            most = max(group, key=lambda r: total(r.held))
            timeline += [(name, r.held) for r in ([most] if most is group[-1] else [most, group[-1]])]
            group = []
        group.append(record)
    return timeline
