"""Which transformers do we know by name, and how many parameters has each, to the last one?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memory_budget import configs, layouts
from memory_budget.tensors import Block, TensorShape

if TYPE_CHECKING:
    from pathlib import Path

FAMILIES = tuple(layouts.BLOCKS_OF)


@dataclass(frozen=True, kw_only=True)
class TotalOnly:
    """A model of which only the number of parameters is known: no shapes, so no LoRA and no activations."""

    name: str
    parameters: int
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """The dimensions of a transformer, from which every tensor follows.

    `context` is the number of learned positions (0 for rotary or relative ones). `ffn` is the width of the
    MLP; `gated` means three matrices instead of two. `tied` means the output head is the embedding table.
    `attention_bias` is on query, key and value, `output_bias` on attention's output, `mlp_bias` on the MLP.
    `decoder_layers` (T5) come beside `layers` in the encoder, with cross-attention. `token_types` and
    `pooler` are BERT's; BERT and RoBERTa are counted as the bare encoder with its pooler, without a head."""

    name: str
    family: str
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    context: int = 0
    gated: bool = False
    tied: bool = True
    norm: str = "layernorm"
    attention_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    dropout: float = 0.0
    token_types: int = 0
    pooler: bool = False
    decoder_layers: int = 0
    relative_buckets: int = 0

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(f"unknown family {self.family!r}: choose from {', '.join(FAMILIES)}")
        for field in ("vocabulary", "hidden", "layers", "heads", "kv_heads", "head_size", "ffn"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be 1 or more, not {getattr(self, field)!r}")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads must divide {self.heads} heads, not {self.kv_heads!r}")

    def blocks(self) -> tuple[Block, ...]:
        """The tensors as a template: what comes first, the layers with their repetition, what comes last."""
        return _blocks(self)

    def tensors(self) -> tuple[TensorShape, ...]:
        """Every parameter tensor by its Hugging Face name, in the order of the forward pass."""
        return tuple(
            TensorShape(name=tensor.name.format(index), shape=tensor.shape, part=tensor.part)
            for block in self.blocks()
            for index in range(block.repeat)
            for tensor in block.tensors
        )

    @property
    def parameters(self) -> int:
        """How many parameters the model has; a tied head counts once."""
        return sum(block.repeat * block.elements for block in self.blocks())

    @classmethod
    def from_config(cls, config: str | Path | Mapping[str, Any], name: str | None = None) -> Transformer:
        """The architecture in a Hugging Face `config.json`: its path, its folder, or the dict.

        ValueError in one line for a file that cannot be read and for a model_type that is not known."""
        from pathlib import Path  # here, so that the package is imported quickly

        source = "config"
        if not isinstance(config, Mapping):
            source, config = str(config), configs.read_config(Path(config))
        if name is None:
            name = str(config.get("_name_or_path") or source)
        return cls(name=name, family=config.get("model_type"), **configs.fields_of(config, source))


@lru_cache(maxsize=256)
def _blocks(model: Transformer) -> tuple[Block, ...]:
    return layouts.BLOCKS_OF[model.family](model)


def _gpt2(name: str, hidden: int, layers: int, heads: int, **more: Any) -> Transformer:
    fields = dict(vocabulary=50257, context=1024, ffn=4 * hidden, dropout=0.1) | more
    return Transformer(
        name=name, family="gpt2", hidden=hidden, layers=layers, heads=heads, kv_heads=heads,
        head_size=hidden // heads, attention_bias=True, output_bias=True, mlp_bias=True, **fields,
    )  # fmt: skip


def _llama(
    name: str, vocabulary: int, hidden: int, layers: int, heads: int, kv_heads: int, ffn: int, **more: Any
) -> Transformer:
    fields = dict(family="llama", tied=False, head_size=hidden // heads) | more
    return Transformer(
        name=name, vocabulary=vocabulary, hidden=hidden, layers=layers, heads=heads, kv_heads=kv_heads,
        ffn=ffn, gated=True, norm="rmsnorm", **fields,
    )  # fmt: skip


def _qwen(
    name: str, hidden: int, layers: int, heads: int, kv_heads: int, ffn: int, **more: Any
) -> Transformer:
    fields = dict(vocabulary=152064, family="qwen2", attention_bias=True) | more
    return _llama(name, hidden=hidden, layers=layers, heads=heads, kv_heads=kv_heads, ffn=ffn, **fields)


def _bert(
    name: str, family: str, vocabulary: int, hidden: int, layers: int, context: int, types: int
) -> Transformer:
    heads = hidden // 64
    return Transformer(
        name=name, family=family, vocabulary=vocabulary, hidden=hidden, layers=layers, heads=heads,
        kv_heads=heads, head_size=64, ffn=4 * hidden, context=context, token_types=types, pooler=True,
        attention_bias=True, output_bias=True, mlp_bias=True, dropout=0.1,
    )  # fmt: skip


def _t5(name: str, hidden: int, layers: int, heads: int, head_size: int, ffn: int) -> Transformer:
    return Transformer(
        name=name, family="t5", vocabulary=32128, hidden=hidden, layers=layers, heads=heads, kv_heads=heads,
        head_size=head_size, ffn=ffn, norm="rmsnorm", dropout=0.1, decoder_layers=layers, relative_buckets=32,
    )  # fmt: skip


_ALL: tuple[Transformer | TotalOnly, ...] = (
    _gpt2("small-gpt", 256, 4, 4, vocabulary=1024, context=256, dropout=0.0),
    _gpt2("gpt2", 768, 12, 12),
    _gpt2("gpt2-medium", 1024, 24, 16),
    _gpt2("gpt2-large", 1280, 36, 20),
    _gpt2("gpt2-xl", 1600, 48, 25),
    _gpt2("gpt3-175b", 12288, 96, 96, context=2048),
    _llama("llama-33b", 32000, 6656, 60, 52, 52, 17920),
    _llama("llama-65b", 32000, 8192, 80, 64, 64, 22016),
    _llama("llama-2-7b", 32000, 4096, 32, 32, 32, 11008),
    _llama("llama-2-13b", 32000, 5120, 40, 40, 40, 13824),
    _llama("llama-2-70b", 32000, 8192, 80, 64, 8, 28672),
    _llama("llama-3-8b", 128256, 4096, 32, 32, 8, 14336),
    _llama("llama-3-70b", 128256, 8192, 80, 64, 8, 28672),
    _llama("llama-3.1-405b", 128256, 16384, 126, 128, 8, 53248),
    _llama("llama-3.2-1b", 128256, 2048, 16, 32, 8, 8192, tied=True),
    _llama("llama-3.2-3b", 128256, 3072, 28, 24, 8, 8192, tied=True),
    _qwen("qwen2.5-0.5b", 896, 24, 14, 2, 4864, vocabulary=151936, tied=True),
    _qwen("qwen2.5-1.5b", 1536, 28, 12, 2, 8960, vocabulary=151936, tied=True),
    _qwen("qwen2.5-3b", 2048, 36, 16, 2, 11008, vocabulary=151936, tied=True),
    _qwen("qwen2.5-7b", 3584, 28, 28, 4, 18944),
    _qwen("qwen2.5-14b", 5120, 48, 40, 8, 13824),
    _qwen("qwen2.5-32b", 5120, 64, 40, 8, 27648),
    _qwen("qwen2.5-72b", 8192, 80, 64, 8, 29568),
    _qwen("qwen1.5-72b", 8192, 80, 64, 64, 24576),
    _llama("mistral-7b", 32000, 4096, 32, 32, 8, 14336, family="mistral"),
    _bert("bert-base", "bert", 30522, 768, 12, 512, 2),
    _bert("bert-base-cased", "bert", 28996, 768, 12, 512, 2),
    _bert("bert-large", "bert", 30522, 1024, 24, 512, 2),
    _bert("roberta-base", "roberta", 50265, 768, 12, 514, 1),
    _bert("roberta-large", "roberta", 50265, 1024, 24, 514, 1),
    _t5("t5-small", 512, 6, 8, 64, 2048),
    _t5("t5-base", 768, 12, 12, 64, 3072),
    _t5("t5-large", 1024, 24, 16, 64, 4096),
    _t5("t5-3b", 1024, 24, 32, 128, 16384),
    _t5("t5-11b", 1024, 24, 128, 128, 65536),
    TotalOnly(name="resnet-50", parameters=25_557_032, note="torchvision, with its 1000-class head"),
)

ARCHITECTURES: dict[str, Transformer | TotalOnly] = {model.name: model for model in _ALL}


def architecture(name: str | Transformer | TotalOnly) -> Transformer | TotalOnly:
    """The named model; ValueError names the ones there are. A Transformer is returned as it is."""
    if isinstance(name, Transformer | TotalOnly):
        return name
    key = str(name).strip().lower()
    if key not in ARCHITECTURES:
        raise ValueError(f"unknown model {name!r}: choose from {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[key]
