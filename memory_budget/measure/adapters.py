"""Low-rank adapters: freeze a model and train two thin matrices beside each chosen one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

ATTENTION_ONLY = ("c_attn", "q_proj", "v_proj")
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
    model: nn.Module, rank: int = 8, targets: Sequence[str] | str | None = None, scale: float = 2.0
) -> nn.Module:
    """Freeze every parameter and put a LoRA of this rank on the named linear layers, in place.

    `targets` are the last parts of module names ("q_proj"), or "all-linear" for every linear layer but the
    head; None means the attention's input matrices (c_attn, or q_proj and v_proj). Gives the model back.
    Raises ValueError when a rank does not fit or no layer matches.
    """
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    wanted = [name for name in linear if _is_target(name.rpartition(".")[2], targets)]
    if not wanted:
        present = sorted({name.rpartition(".")[2] for name in linear} - set(HEADS))
        raise ValueError(f"no linear layer is named {targets!r}: this model has {', '.join(present)}")
    model.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for name in wanted:
            parent, _, last = name.rpartition(".")
            base = model.get_submodule(name)
            setattr(model.get_submodule(parent), last, LowRank(base, rank, scale))
    return model


def _is_target(name: str, targets: Sequence[str] | str | None) -> bool:
    if targets == "all-linear":
        return name not in HEADS
    if isinstance(targets, str):
        targets = (targets,)
    return name in (ATTENTION_ONLY if targets is None else targets)
