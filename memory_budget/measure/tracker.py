"""Counts every tensor of a training step on the CPU, by class, after each operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

try:  # a private module of torch: present in 2.6 to 2.13, tested with 2.13
    from torch.distributed._tools.mem_tracker import MemTracker, _MemRefType
except ImportError as error:  # pragma: no cover - needs another torch
    raise ImportError(
        f"torch {torch.__version__} has no MemTracker, which counts memory on the CPU: install torch 2.13"
    ) from error

TensorBytes = dict[str, int]

FIRST_MOMENT_KEYS = frozenset({"exp_avg", "momentum_buffer", "state1"})
SECOND_MOMENT_KEYS = frozenset({"exp_avg_sq", "max_exp_avg_sq", "row_var", "col_var", "variance", "state2"})


def storage_bytes(tensors: Iterable[Tensor | None]) -> int:
    """Sum the bytes behind the tensors, each storage once however many tensors look at it."""
    storages = {}
    for tensor in tensors:
        if tensor is not None:
            storage = tensor.untyped_storage()
            storages[storage._cdata] = storage.nbytes()
    return sum(storages.values())


def state_class(key: str, state: Mapping[str, object]) -> str:
    """Tell the tensor class of one entry of a parameter's optimizer state by its key.

    The step counter (4 bytes a tensor) goes with the first moment, with the second where there is no first.
    """
    if key == "master":
        return "master_copy"
    if key in SECOND_MOMENT_KEYS:
        return "second_moment"
    return "first_moment" if key in FIRST_MOMENT_KEYS or FIRST_MOMENT_KEYS & state.keys() else "second_moment"


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> TensorBytes:
    """Count an optimizer's state by tensor class, in bytes."""
    counted = dict.fromkeys(("master_copy", "first_moment", "second_moment"), 0)
    for state in optimizer.state.values():
        for key, value in state.items():
            if isinstance(value, Tensor):
                counted[state_class(key, state)] += value.untyped_storage().nbytes()
    return counted


def weight_bytes(model: nn.Module) -> TensorBytes:
    """Count a model's parameters and buffers, trainable and frozen, in bytes."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    frozen = [p for p in model.parameters() if not p.requires_grad]
    return {
        "weights": storage_bytes(trainable),
        "frozen_weights": storage_bytes([*frozen, *model.buffers()]),
    }


class Record(NamedTuple):
    """What was held at one instant: which step, which part of it, where, and bytes by class."""

    step: int
    phase: str
    label: str
    held: TensorBytes


class StepTracker(MemTracker):
    """MemTracker that also writes down what is held after every operation.

    Set `step` and `phase` between the parts of a step, and call `reset_mod_stats()` before each further
    forward: MemTracker refuses a second one otherwise.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        on_layer: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._on_layer, self._layer = on_layer, ""
        self.step, self.phase = 0, "loading"
        self.records: list[Record] = []
        self._optimizer = optimizer
        self._weights = weight_bytes(model)
        self._state_count, self._state = -1, optimizer_bytes(optimizer)
        self.track_external(model, optimizer)

    def now(self) -> TensorBytes:
        """Tell what is held at this moment, by class, in bytes."""
        snapshots = self._curr_mem_snap.values()
        held = {kind: sum(s.get(kind, 0) for s in snapshots) for kind in _MemRefType}
        state = self._optimizer_state()
        unclassed = held[_MemRefType.OPT] + held[_MemRefType.PARAM] + held[_MemRefType.BUFFER]
        unclassed -= sum(state.values()) + sum(self._weights.values())
        return {
            **self._weights,
            "master_copy": state["master_copy"],
            "gradients": held[_MemRefType.GRAD],
            "first_moment": state["first_moment"],
            "second_moment": state["second_moment"],
            "activations": held[_MemRefType.ACT] + held[_MemRefType.OTH],
            "temporaries": held[_MemRefType.TEMP] + unclassed,
        }

    def record(self, label: str) -> None:
        """Write down what is held now, under a label."""
        self.records.append(Record(self.step, self.phase, label, self.now()))

    def _track_module_params_and_buffers(
        self, module: nn.Module, install_grad_hooks: bool = True
    ) -> tuple[int, int]:
        # MemTracker hooks frozen parameters too, which torch refuses
        sizes = super()._track_module_params_and_buffers(module, install_grad_hooks=False)
        if install_grad_hooks:
            for parameter in module.parameters():
                if parameter.requires_grad and parameter not in self._param_to_grad_hook_handles:
                    self._param_to_grad_hook_handles[parameter] = (
                        parameter.register_hook(self._is_gradient),
                        parameter.register_post_accumulate_grad_hook(lambda p: self._is_gradient(p.grad)),
                    )
        return sizes

    def _is_gradient(self, gradient: Tensor) -> None:
        self._update_and_maybe_create_winfos(gradient, _MemRefType.GRAD)

    def _update_peak_stats(self, peak_state: object) -> None:
        """Leave out MemTracker's own peak of every module, which costs more than all the rest."""

    def count_state(self) -> None:
        """Count the optimizer's state anew if entries have come: SGD's momentum comes after its last operation."""
        count = sum(map(len, self._optimizer.state.values()))
        if count != self._state_count:
            self._state_count, self._state = count, optimizer_bytes(self._optimizer)

    def _optimizer_state(self) -> TensorBytes:
        if self._in_opt:
            self.count_state()
        return self._state

    def _where(self) -> str:
        inside = max(self._mod_tracker.parents - {"Global"}, key=len, default="")
        return inside.partition(".")[2]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if func is torch.ops.aten._to_copy.default and isinstance(args[0], nn.Parameter):
            # autocast's 16-bit copy of a weight is no activation: its size does not follow the batch
            self._update_and_maybe_create_winfos(result, _MemRefType.TEMP)
        where = self._where()
        self.record(where)
        if self._on_layer is not None:
            self._watch_layers(where)
        return result

    def _watch_layers(self, where: str) -> None:
        layer = ".".join(where.split(".")[:2])
        if layer != self._layer:
            self._layer = layer
            if layer[-1:].isdigit():
                self._on_layer()
