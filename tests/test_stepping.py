"""What an optimizer needs while it steps, against live tensors counted in torch."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from memory_budget.optimizers import OPTIMIZERS
from memory_budget.stepping import step_temporary_bytes, usual_implementation
from memory_budget.tensors import TensorShape

SHAPES = [(64, 64), (128, 64), (100,), (256, 64), (256, 64), (64, 32)]


class LiveBytes(TorchDispatchMode):
    """Counts the storages that operations make, and the most that were alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {
            t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)
        }
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage()._cdata not in given:
                self._count(tensor.untyped_storage())
        self.most = max(self.most, self.now)
        return result

    def _count(self, storage: Any) -> None:
        size = storage.nbytes()
        self.now += size
        weakref.finalize(storage, self._let_go, size)

    def _let_go(self, size: int) -> None:
        self.now -= size


def measured(make: Any, dtype: torch.dtype) -> int:
    """Most bytes alive in a third step, beside state that exists."""
    parameters = [torch.nn.Parameter(torch.ones(shape, dtype=dtype)) for shape in SHAPES]
    optimizer = make(parameters)
    for _ in range(3):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        with LiveBytes() as live:
            optimizer.step()
    return live.most


ADAMS = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "amsgrad": lambda p, **how: torch.optim.AdamW(p, amsgrad=True, **how),
}
SGDS = {
    "sgd": lambda p, **how: torch.optim.SGD(p, lr=0.1, **how),
    "momentum": lambda p, **how: torch.optim.SGD(p, lr=0.1, momentum=0.9, **how),
}


def predicted(name: str, implementation: str, width: int) -> int:
    tensors = [TensorShape(name="", part="mlp", shape=shape) for shape in SHAPES]
    return step_temporary_bytes(
        OPTIMIZERS[name],
        implementation,
        tensors,
        elements=sum(tensor.elements for tensor in tensors),
        moment_bytes=width,
        weight_bytes=width,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("implementation", ["foreach", "for-loop", "fused"])
@pytest.mark.parametrize("name", [*ADAMS, *SGDS])
def test_adam_and_sgd_need_what_torch_needs_inside_the_step(
    name: str, implementation: str, dtype: torch.dtype
) -> None:
    how = {"foreach": implementation == "foreach", "fused": implementation == "fused"}
    counted = measured(lambda p: (ADAMS | SGDS)[name](p, **how), dtype)
    assert predicted(name, implementation, dtype.itemsize) == pytest.approx(counted, rel=0.01)


@pytest.mark.parametrize("implementation", ["foreach", "for-loop"])
def test_adafactor_needs_a_full_second_moment_for_a_while(implementation: str) -> None:
    counted = measured(lambda p: torch.optim.Adafactor(p, foreach=implementation == "foreach"), torch.float32)
    assert predicted("adafactor", implementation, 4) == pytest.approx(counted, rel=0.03)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon came with torch 2.9")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_muon_needs_bf16_copies_of_one_matrix(dtype: torch.dtype) -> None:
    counted = measured(lambda p: torch.optim.Muon([t for t in p if t.ndim == 2]), dtype)
    assert predicted("muon", "for-loop", dtype.itemsize) == pytest.approx(counted, rel=0.03)


def test_foreach_adam_needs_one_more_value_for_each_parameter() -> None:
    assert predicted("adamw", "foreach", 4) == 4 * sum(torch.Size(shape).numel() for shape in SHAPES)


def test_the_usual_implementation_is_foreach_on_cuda_only_and_fused_for_a_master_copy() -> None:
    adamw = OPTIMIZERS["adamw"]
    assert usual_implementation(adamw, "cuda", has_wider_state=False) == "foreach"
    assert usual_implementation(adamw, "cpu", has_wider_state=False) == "for-loop"
    assert usual_implementation(adamw, "mps", has_wider_state=False) == "for-loop"
    assert usual_implementation(adamw, "cuda", has_wider_state=True) == "fused"


@pytest.mark.parametrize(("master_bytes", "each"), [(4, 8), (0, 12)])
def test_a_loop_over_16_bit_weights_widens_one_tensor_at_a_time(master_bytes: int, each: int) -> None:
    tensors = [TensorShape(name="", part="mlp", shape=shape) for shape in SHAPES]
    needed = step_temporary_bytes(
        OPTIMIZERS["adamw"], "for-loop", tensors, elements=1, moment_bytes=4, weight_bytes=2,
        master_bytes=master_bytes,
    )  # fmt: skip
    assert needed == each * 256 * 64
