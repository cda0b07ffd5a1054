"""A Llama written plainly in torch: rotary positions, RMSNorm, SwiGLU and grouped heads."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memory_budget.architectures import Transformer, architecture
from memory_budget.measure.small_gpt import attend, check_choices, run_layers, small_normal


class RMSNorm(nn.Module):
    """Divide by the root mean square, reckoned in fp32 as Hugging Face's Llama does."""

    def __init__(self, width: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, hidden: Tensor) -> Tensor:
        wide = hidden.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * wide.to(hidden.dtype)


def rotary_tables(length: int, head_size: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Tell the cosines and sines of every position, each (length, head_size), in the dtype of `like`."""
    rates = 1 / 10_000 ** (torch.arange(0, head_size, 2, device=like.device).float() / head_size)
    angles = torch.outer(torch.arange(length, device=like.device).float(), rates)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def rotate(states: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Turn each pair of a head's numbers by its position's angle."""
    first, second = states.chunk(2, dim=-1)
    return states * cosines + torch.cat((-second, first), dim=-1) * sines


class LlamaAttention(nn.Module):
    """Causal self-attention whose key and value heads are shared by groups of query heads."""

    def __init__(self, shape: Transformer, attention: str, checkpointing: str) -> None:
        super().__init__()
        self.head_size, self.attention, self.checkpointing = shape.head_size, attention, checkpointing
        query_width, key_width = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
        self.q_proj = nn.Linear(shape.hidden, query_width, bias=shape.attention_bias)
        self.k_proj = nn.Linear(shape.hidden, key_width, bias=shape.attention_bias)
        self.v_proj = nn.Linear(shape.hidden, key_width, bias=shape.attention_bias)
        self.o_proj = nn.Linear(query_width, shape.hidden, bias=shape.output_bias)

    def forward(self, hidden: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        query, key, value = (
            project(hidden).unflatten(-1, (-1, self.head_size)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = rotate(query, cosines, sines), rotate(key, cosines, sines)
        mixed = attend(query, key, value, self.attention, self.checkpointing)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class SwiGLU(nn.Module):
    """Three matrices: one path gates the other."""

    def __init__(self, shape: Transformer) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.ffn, bias=shape.mlp_bias)
        self.up_proj = nn.Linear(shape.hidden, shape.ffn, bias=shape.mlp_bias)
        self.down_proj = nn.Linear(shape.ffn, shape.hidden, bias=shape.mlp_bias)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(hidden)) * self.up_proj(hidden))


class LlamaBlock(nn.Module):
    """One layer: attention, then feed-forward, each added to what came in."""

    def __init__(self, shape: Transformer, attention: str, checkpointing: str) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden)
        self.self_attn = LlamaAttention(shape, attention, checkpointing)
        self.post_attention_layernorm = RMSNorm(shape.hidden)
        self.mlp = SwiGLU(shape)

    def forward(self, hidden: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), cosines, sines)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class SmallLlama(nn.Module):
    """A Llama (or Qwen 2, or Mistral) of any size, whose `forward(tokens, targets)` gives the mean loss.

    Arguments and errors as `SmallGPT`.
    """

    families = ("llama", "qwen2", "mistral")

    def __init__(
        self, shape: Transformer | str, attention: str = "sdpa", checkpointing: str = "none"
    ) -> None:
        super().__init__()
        shape = architecture(shape) if isinstance(shape, str) else shape
        check_choices(shape, self.families, attention, checkpointing)
        self.shape, self.attention, self.checkpointing = shape, attention, checkpointing
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(LlamaBlock(shape, attention, checkpointing) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden)
        self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        self.apply(small_normal)
        if shape.tied:
            self.lm_head.weight = self.embed_tokens.weight

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        hidden = self.embed_tokens(tokens)
        tables = rotary_tables(tokens.shape[1], self.shape.head_size, hidden)
        hidden = run_layers(self.layers, self.checkpointing, hidden, *tables)
        logits = self.lm_head(self.norm(hidden))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
