"""A GPT-2 written plainly in torch: what every measured step of the course runs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from memory_budget.architectures import Transformer, architecture

ATTENTIONS = ("sdpa", "scores")
CHECKPOINTINGS = ("none", "selective", "full")


def kept_scores_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attend with the scores written out, so that autograd keeps them: what SDPA avoids."""
    length, groups = query.shape[-2], query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (each.repeat_interleave(groups, dim=1) for each in (key, value))
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
    shares = scores.masked_fill(future, float("-inf")).softmax(-1)
    return shares @ value


def sdpa_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attend by torch's fused kernel, which keeps a logarithm a row in place of the scores."""
    grouped = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=grouped)


def attend(query: Tensor, key: Tensor, value: Tensor, attention: str, checkpointing: str) -> Tensor:
    """Attend in the wanted way; selective checkpointing recomputes this part alone (2205.05198 sec. 5)."""
    core = sdpa_attention if attention == "sdpa" else kept_scores_attention
    if checkpointing == "selective" and torch.is_grad_enabled():
        return checkpoint(core, query, key, value, use_reentrant=False, preserve_rng_state=False)
    return core(query, key, value)


class Attention(nn.Module):
    """Causal self-attention with one matrix for query, key and value, as GPT-2 has it."""

    def __init__(self, shape: Transformer, attention: str, checkpointing: str) -> None:
        super().__init__()
        self.heads, self.attention, self.checkpointing = shape.heads, attention, checkpointing
        self.c_attn = nn.Linear(shape.hidden, 3 * shape.hidden, bias=shape.attention_bias)
        self.c_proj = nn.Linear(shape.hidden, shape.hidden, bias=shape.output_bias)

    def forward(self, hidden: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        heads = [
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.c_attn(hidden).split(width, dim=-1)
        ]
        mixed = attend(*heads, self.attention, self.checkpointing)
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    """Two matrices with a GELU between them."""

    def __init__(self, shape: Transformer) -> None:
        super().__init__()
        self.c_fc = nn.Linear(shape.hidden, shape.ffn, bias=shape.mlp_bias)
        self.c_proj = nn.Linear(shape.ffn, shape.hidden, bias=shape.mlp_bias)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(hidden), approximate="tanh"))


class Block(nn.Module):
    """One layer: attention, then feed-forward, each added to what came in."""

    def __init__(self, shape: Transformer, attention: str, checkpointing: str) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(shape.hidden)
        self.attn = Attention(shape, attention, checkpointing)
        self.ln_2 = nn.LayerNorm(shape.hidden)
        self.mlp = FeedForward(shape)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attn(self.ln_1(hidden))
        return hidden + self.mlp(self.ln_2(hidden))


class SmallGPT(nn.Module):
    """A GPT-2 of any size, whose `forward(tokens, targets)` gives the mean loss.

    tokens and targets are int64 of shape (batch, sequence). `attention` is "sdpa" or "scores" (kept);
    `checkpointing` is "none", "selective" (the attention core is recomputed) or "full" (each layer is).
    Raises ValueError for another family or another word.
    """

    families = ("gpt2",)

    def __init__(
        self, shape: Transformer | str = "small-gpt", attention: str = "sdpa", checkpointing: str = "none"
    ) -> None:
        super().__init__()
        shape = architecture(shape) if isinstance(shape, str) else shape
        check_choices(shape, self.families, attention, checkpointing)
        self.shape, self.attention, self.checkpointing = shape, attention, checkpointing
        self.wte = nn.Embedding(shape.vocabulary, shape.hidden)
        self.wpe = nn.Embedding(shape.context, shape.hidden)
        self.h = nn.ModuleList(Block(shape, attention, checkpointing) for _ in range(shape.layers))
        self.ln_f = nn.LayerNorm(shape.hidden)
        self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        self.apply(small_normal)
        if shape.tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.wte(tokens) + self.wpe(positions)
        hidden = run_layers(self.h, self.checkpointing, hidden)
        logits = self.lm_head(self.ln_f(hidden))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def run_layers(layers: nn.ModuleList, checkpointing: str, hidden: Tensor, *rest: Tensor) -> Tensor:
    """Run the layers in turn; under full checkpointing keep only what goes into each."""
    for layer in layers:
        if checkpointing == "full" and torch.is_grad_enabled():
            hidden = checkpoint(layer, hidden, *rest, use_reentrant=False, preserve_rng_state=False)
        else:
            hidden = layer(hidden, *rest)
    return hidden


def check_choices(shape: Transformer, families: tuple[str, ...], attention: str, checkpointing: str) -> None:
    """Raise ValueError unless the family and both words are ones this module can build."""
    for name, value, allowed in (
        ("family", shape.family, families),
        ("attention", attention, ATTENTIONS),
        ("checkpointing", checkpointing, CHECKPOINTINGS),
    ):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}: allowed are {', '.join(allowed)}")


def small_normal(module: nn.Module) -> None:
    """Draw matrices from a normal of width 0.02 and clear biases, as GPT-2 does."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def small_gpt(seed: int = 0, attention: str = "sdpa", checkpointing: str = "none") -> SmallGPT:
    """Build the course's own small GPT, the same weights each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SmallGPT("small-gpt", attention, checkpointing)
