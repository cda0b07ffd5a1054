"""Low-rank adapters: freeze a model and train two thin matrices beside each chosen one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from memory_budget.adapters import target_matrices
from memory_budget.architectures import Transformer

ATTENTION_INPUTS = ("c_attn", "q_proj", "v_proj")
HEADS = ("lm_head",)


class LowRank(nn.Module):
    """A frozen linear layer plus B(A(x)), as LoRA has it (arXiv 2106.09685, section 4.1)."""

    def __init__(
        self, base: nn.Linear, rank: int, scale: float = 2.0, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        if not 1 <= rank <= min(base.in_features, base.out_features):
            smaller = min(base.in_features, base.out_features)
            raise ValueError(f"rank is {rank}: allowed are 1 to {smaller}, the matrix's smaller side")
        self.base, self.scale = base, scale
        like = {"device": base.weight.device, "dtype": dtype or base.weight.dtype}
        self.down = nn.Linear(base.in_features, rank, bias=False, **like)
        self.up = nn.Linear(rank, base.out_features, bias=False, **like)
        nn.init.zeros_(self.up.weight)

    def forward(self, hidden: Tensor) -> Tensor:
        made = self.base(hidden)
        # scaling the thin product costs no tensor of the full width
        low = self.down(hidden.to(self.down.weight.dtype)) * self.scale
        return (made + self.up(low)).to(made.dtype)


def freeze_and_adapt(
    model: nn.Module,
    rank: int = 8,
    targets: Sequence[str] | str | None = None,
    dtype: torch.dtype | None = None,
    seed: int | None = 0,
) -> nn.Module:
    """Freeze every parameter and put a LoRA of this rank on the chosen linear layers, in place.

    `targets` are ends of module names ("q_proj", "mlp.c_proj"), "attention", "mlp", or "all-linear" for every
    linear layer but the head; None is the attention's input (c_attn, or q_proj and v_proj). `dtype` None is
    that of the frozen matrix. Gives the model back. ValueError when a rank does not fit or nothing matches.
    """
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    ends = _ends(model, targets)
    wanted = [name for name in linear if _is_target(name, ends)]
    if not wanted:
        present = sorted({name.rpartition(".")[2] for name in linear} - set(HEADS))
        raise ValueError(f"no linear layer is named {targets!r}: this model has {', '.join(present)}")
    model.requires_grad_(False)
    with _seeded(seed):
        for name in wanted:
            parent, _, last = name.rpartition(".")
            base = model.get_submodule(name)
            setattr(model.get_submodule(parent), last, LowRank(base, rank, dtype=dtype))
    return model


@contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _ends(model: nn.Module, targets: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """Turn targets into the ends of module names; None means every linear layer but the head."""
    if targets is None:
        return ATTENTION_INPUTS
    targets = (targets,) if isinstance(targets, str) else tuple(targets)
    if "all-linear" in targets:
        return None
    shape = getattr(model, "shape", None)
    if isinstance(shape, Transformer):
        ends = {m.module.partition("{}.")[2] for m in target_matrices(shape, targets)}
        fused = {end for end in ends if end in ("attn.q_proj", "attn.k_proj", "attn.v_proj")}
        return tuple(ends - fused) + (("c_attn",) if fused else ())
    return targets


def _is_target(name: str, ends: tuple[str, ...] | None) -> bool:
    if ends is None:
        return name.rpartition(".")[2] not in HEADS
    return ("." + name).endswith(tuple("." + end for end in ends))
