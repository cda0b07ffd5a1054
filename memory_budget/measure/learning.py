"""Why does one learning rate serve a transformer badly? Gradient sizes and losses of a small one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn

from memory_budget.architectures import Transformer
from memory_budget.measure.optimizers import make_optimizer
from memory_budget.measure.small_gpt import SmallGPT, small_gpt
from memory_budget.measure.step import one_thread

LEARNING_RATES: Mapping[str, tuple[float, ...]] = {
    "sgd": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
    "momentum": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    "adamw": (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1),
}
BATCH = 16
TINY = Transformer(
    name="tiny-gpt", family="gpt2", vocabulary=64, hidden=32, layers=2, heads=2, kv_heads=2, head_size=16,
    ffn=128, context=32, gated=False, tied=True, norm="layernorm", attention_bias=True, output_bias=True,
    mlp_bias=True,
)  # fmt: skip


def zipf_tokens(vocabulary: int, batch: int, sequence: int, generator: torch.Generator) -> Tensor:
    """Draw sequences in which the k-th commonest token comes with a share of 1/k, and order matters.

    Half of the tokens follow from the one before by a fixed rule, so that there is something to learn beyond
    the shares. int64, (batch, sequence).
    """
    shares = 1 / torch.arange(1, vocabulary + 1, dtype=torch.float64)
    tokens = torch.multinomial(shares, batch * sequence, replacement=True, generator=generator)
    tokens = tokens.view(batch, sequence)
    follow = torch.rand(batch, sequence, generator=generator) < 0.5
    for place in range(1, sequence):
        next_tokens = (tokens[:, place - 1] * 5 + 3) % vocabulary
        tokens[:, place] = torch.where(follow[:, place], next_tokens, tokens[:, place])
    return tokens


def gradient_rms(
    model: nn.Module | None = None, batch: int = 4, sequence: int = 64, seed: int = 0
) -> dict[str, float]:
    """Tell the root mean square of each parameter tensor's gradient after one backward on Zipf tokens.

    That is the L2 norm divided by the root of the number of elements: what one parameter of the tensor feels.
    (The norm itself grows with the tensor, and would set large tensors apart for their size alone.) `model` None is the course's small GPT; another one must know its `shape`. No weight changes.
    """
    model = small_gpt(seed) if model is None else model
    tokens = zipf_tokens(model.shape.vocabulary, batch, sequence + 1, torch.Generator().manual_seed(seed))
    model.zero_grad()
    with one_thread():
        model(tokens[:, :-1], tokens[:, 1:]).backward()
    named = model.named_parameters()
    sizes = {name: p.grad.square().mean().sqrt().item() for name, p in named if p.grad is not None}
    model.zero_grad()
    return sizes


def final_loss(optimizer_name: str, learning_rate: float, steps: int = 100, seed: int = 0) -> float:
    """Train the tiny GPT from the same start on the same tokens; tell the mean loss of the last ten steps.

    Infinity when the loss stops being a number: the steps were too long.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SmallGPT(TINY)
    optimizer = make_optimizer(optimizer_name, model, lr=learning_rate, implementation="foreach")
    losses = []
    with one_thread():
        for tokens in training_tokens(steps, seed):
            loss = model(tokens[:, :-1], tokens[:, 1:])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                return math.inf
    return sum(losses[-10:]) / 10


@lru_cache(maxsize=4)
def training_tokens(steps: int, seed: int) -> tuple[Tensor, ...]:
    """Draw the batches of a whole training run, the same for every optimizer."""
    generator = torch.Generator().manual_seed(seed)
    drawn = zipf_tokens(TINY.vocabulary, BATCH * steps, TINY.context + 1, generator)
    return drawn.split(BATCH)


def learning_rate_sweep(
    optimizers: Sequence[str] = ("sgd", "momentum", "adamw"),
    learning_rates: Mapping[str, Sequence[float]] = LEARNING_RATES,
    steps: int = 100,
    seed: int = 0,
) -> dict[str, list[tuple[float, float]]]:
    """Tell the final loss at each learning rate, for each optimizer: about ten seconds on two cores.

    At this size tuned SGD is only a little worse than AdamW; what shows is how wide a range of learning rates
    serves each. A loss of infinity means that training broke down.
    """
    return {
        name: [(rate, final_loss(name, rate, steps, seed)) for rate in learning_rates[name]]
        for name in optimizers
    }
