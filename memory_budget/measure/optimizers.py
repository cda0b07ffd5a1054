"""The optimizers a measured step can use, by the names of `memory_budget.optimizers`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

IMPLEMENTATIONS = ("for-loop", "foreach", "fused")


class Lion(torch.optim.Optimizer):
    """Keep one running mean and step by its sign (arXiv 2302.06675, algorithm 2)."""

    def __init__(self, parameters: Iterable[Tensor], lr: float = 1e-4) -> None:
        super().__init__(parameters, {"lr": lr, "betas": (0.9, 0.99)})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["exp_avg"] = torch.zeros_like(parameter)
                mean = state["exp_avg"]
                direction = mean.lerp(parameter.grad, 1 - first).sign_()
                parameter.add_(direction, alpha=-group["lr"])
                mean.lerp_(parameter.grad, 1 - second)


class MasterAdamW(torch.optim.Optimizer):
    """AdamW over 16-bit weights with fp32 moments and, unless `master` is False, an fp32 master copy.

    Works tensor by tensor, so that only one tensor's fp32 gradient exists at a time: the lesson's
    2 + 4 + 2 + 4 + 4 bytes (arXiv 1910.02054, section 3.1).
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float = 1e-4, master: bool = True) -> None:
        super().__init__(parameters, {"lr": lr, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01})
        self.keeps_master = master
        if master:
            for group in self.param_groups:
                for parameter in group["params"]:
                    self.state[parameter]["master"] = parameter.detach().float().clone()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step_one(parameter, group)

    def _step_one(self, parameter: Tensor, group: dict) -> None:
        state = self.state[parameter]
        if "exp_avg" not in state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(parameter, dtype=torch.float32)
            state["exp_avg_sq"] = torch.zeros_like(parameter, dtype=torch.float32)
        state["step"] += 1
        count, (first, second) = state["step"].item(), group["betas"]
        weight = state["master"] if self.keeps_master else parameter.float()
        gradient = parameter.grad.float()
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        state["exp_avg"].lerp_(gradient, 1 - first)
        state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        spread = state["exp_avg_sq"].sqrt().div_((1 - second**count) ** 0.5).add_(group["eps"])
        weight.addcdiv_(state["exp_avg"], spread, value=-group["lr"] / (1 - first**count))
        parameter.copy_(weight)


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon on the matrices of the layers, AdamW on embeddings, head and vectors, as Muon is meant to be used.

    (arXiv 2502.16982, section 2.)"""

    def __init__(self, matrices: list[Tensor], others: list[Tensor], lr: float) -> None:
        if not hasattr(torch.optim, "Muon"):
            raise ValueError(f"muon needs torch 2.9 or newer: this is {torch.__version__}")
        super().__init__([*matrices, *others], {"lr": lr})
        self.parts = [torch.optim.Muon(matrices, lr=lr), torch.optim.AdamW(others, lr=lr)]

    def step(self, closure: Callable[[], float] | None = None) -> None:
        for part in self.parts:
            part.step()
            self.state.update(part.state)


def _muon(model: nn.Module, lr: float) -> torch.optim.Optimizer:
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    is_hidden = {id(p): p.ndim == 2 and id(p) not in tables and "lm_head" not in name for name, p in named}
    matrices = [p for _, p in named if is_hidden[id(p)]]
    return MuonAndAdamW(matrices, [p for _, p in named if not is_hidden[id(p)]], lr)


def make_optimizer(
    name: str, model: nn.Module, recipe: str = "fp32", implementation: str | None = None, lr: float = 1e-3
) -> torch.optim.Optimizer:
    """Build the named optimizer over the model's trainable parameters.

    `implementation` is "for-loop", "foreach" or "fused"; None leaves torch's choice, foreach on CUDA and
    for-loop elsewhere. Raises ValueError for a name or word that is not offered, or nothing to train.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError("no parameter is trainable: unfreeze some or add an adapter")
    if implementation not in (None, *IMPLEMENTATIONS):
        raise ValueError(f"implementation is {implementation!r}: allowed are {', '.join(IMPLEMENTATIONS)}")
    if recipe in ("mixed", "no-master") and any(p.element_size() == 2 for p in parameters):
        if name != "adamw":
            raise ValueError(f"recipe {recipe!r} is measured with adamw only, not {name!r}")
        return MasterAdamW(parameters, lr=lr, master=recipe == "mixed")
    how = {"foreach": implementation == "foreach", "fused": implementation == "fused"}
    how = {} if implementation is None else how
    makers: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "sgd": lambda: torch.optim.SGD(parameters, lr=lr, **how),
        "momentum": lambda: torch.optim.SGD(parameters, lr=lr, momentum=0.9, **how),
        "adam": lambda: torch.optim.Adam(parameters, lr=lr, **how),
        "adamw": lambda: torch.optim.AdamW(parameters, lr=lr, **how),
        "amsgrad": lambda: torch.optim.AdamW(parameters, lr=lr, amsgrad=True, **how),
        "adafactor": lambda: torch.optim.Adafactor(parameters, lr=lr),
        "lion": lambda: Lion(parameters, lr=lr),
        "muon": lambda: _muon(model, lr),
    }
    if name not in makers:
        raise ValueError(f"optimizer is {name!r}: measured are {', '.join(makers)}")
    return makers[name]()
