"""What does an optimizer need beside its state while it steps, and is gone when it has?

Read off torch 2.13 by counting live tensors: `tests/test_stepping.py` counts them again."""

from __future__ import annotations

from collections.abc import Sequence

from memory_budget.optimizers import Optimizer
from memory_budget.tensors import TensorShape

IMPLEMENTATIONS = ("foreach", "for-loop", "fused")
ADAMS = ("adam", "adamw", "amsgrad")
IN_PLACE = ("sgd", "momentum", "adamw-8bit", "adamw-4bit")
"""Optimizers whose step writes into what is there; those of 8 and 4 bit work block by block in a kernel."""


def usual_implementation(optimizer: Optimizer, device: str, has_wider_state: bool) -> str:
    """What runs when nobody chooses: foreach on CUDA, for-loop elsewhere; fused where 16-bit weights have
    fp32 state, which no torch optimizer offers and Apex, DeepSpeed and Megatron-LM do in a fused kernel."""
    if optimizer.name in ADAMS and has_wider_state:
        return "fused"
    return "foreach" if device == "cuda" else "for-loop"


def _largest_pair(tensors: Sequence[TensorShape], copies: int) -> int:
    """Elements alive in a for-loop: `copies` of a tensor, and one left over from the tensor before it."""
    most = before = 0
    for tensor in tensors:
        most = max(most, before + copies * tensor.elements)
        before = tensor.elements
    return most


def _muon_bytes(tensors: Sequence[TensorShape], weight_bytes: int) -> int:
    """Muon's update, two bf16 copies and two bf16 Gram matrices of one hidden matrix (arXiv 2502.16982)."""
    sizes = [
        (weight_bytes + 4) * tensor.elements + 4 * min(tensor.shape) ** 2
        for tensor in tensors
        if tensor.is_hidden_matrix
    ]
    return max(sizes, default=0)


def step_temporary_bytes(
    optimizer: Optimizer,
    implementation: str,
    tensors: Sequence[TensorShape],
    *,
    elements: int,
    moment_bytes: int,
    weight_bytes: int,
    master_bytes: int = 0,
) -> int:
    """Bytes alive inside the step beside the state: for AdamW one value a parameter with foreach, two of the
    largest tensor in a for-loop, nothing if fused.

    `tensors` are the trainable ones in the order of the step (none where shapes are not known) and `elements`
    their sum. A 16-bit weight with fp32 state has its gradient, and without a master copy itself, widened."""
    if optimizer.name in IN_PLACE or (implementation == "fused" and optimizer.name in ADAMS):
        return 0
    if optimizer.name == "muon":
        rest = [tensor for tensor in tensors if not tensor.is_hidden_matrix]
        return max(_muon_bytes(tensors, weight_bytes), moment_bytes * _largest_pair(rest, 2))
    if moment_bytes > weight_bytes:
        widened = 2 if master_bytes else 3
        many = elements if implementation == "foreach" else max((t.elements for t in tensors), default=0)
        return moment_bytes * widened * many
    if implementation == "foreach" and optimizer.name != "lion":
        return moment_bytes * elements
    return moment_bytes * _largest_pair(tensors, 2 if optimizer.name in ADAMS else 1)


def in_backward_temporary_bytes(largest_elements: int, gradient_bytes: int, moment_bytes: int) -> int:
    """Bytes alive beside one tensor's gradient when its update runs inside backward.

    The gradient as it arrived is still held beside the stored one, and a for-loop step makes two more."""
    return largest_elements * (gradient_bytes + 2 * moment_bytes)
