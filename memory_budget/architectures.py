"""Which tensors does a transformer have? Exact shapes of named models and of any Hugging Face config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

FAMILIES = ("gpt2", "llama", "qwen2", "mistral", "bert", "roberta", "t5")


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorShape:
    """One parameter tensor. `part` is embedding, attention, mlp, norm, pooler or head; a linear layer's weight
    has the shape (d_out, d_in), except in GPT-2, which stores (d_in, d_out)."""

    name: str
    shape: tuple[int, ...]
    part: str

    @property
    def elements(self) -> int:
        """How many numbers the tensor holds."""
        return prod(self.shape)

    @property
    def is_linear(self) -> bool:
        """Whether it is the matrix of a linear layer (embedding tables are not)."""
        return len(self.shape) == 2 and self.part in ("attention", "mlp", "head", "pooler")

    @property
    def is_hidden_matrix(self) -> bool:
        """Whether it is a matrix inside the layers: what LoRA, Muon and 4-bit bases act on."""
        return len(self.shape) == 2 and self.part in ("attention", "mlp")


@dataclass(frozen=True, kw_only=True)
class Block:
    """Tensors that come `repeat` times, once a layer; `{}` in a name stands for the layer's number."""

    repeat: int
    tensors: tuple[TensorShape, ...]

    @property
    def elements(self) -> int:
        """How many parameters one repetition has."""
        return sum(tensor.elements for tensor in self.tensors)


@dataclass(frozen=True, kw_only=True)
class TotalOnly:
    """A model of which only the number of parameters is known: no shapes, so no LoRA and no activations."""

    name: str
    parameters: int
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """The dimensions of a transformer, from which every tensor follows.

    `context` is the number of learned positions (0 for rotary or relative ones). `ffn` is the width of the MLP;
    `gated` means three matrices instead of two. `tied` means the output head is the embedding table.
    `attention_bias` is on query, key and value, `output_bias` on attention's output, `mlp_bias` on the MLP.
    `decoder_layers` (T5) come beside `layers` in the encoder, with cross-attention. `token_types` and `pooler`
    are BERT's; BERT and RoBERTa are counted as the bare encoder with its pooler, without a task's head."""

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
        return _BLOCKS[self.family](self)

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
        """The architecture in a Hugging Face `config.json` (a path, its folder, or the dict); else ValueError."""
        source = "config"
        if not isinstance(config, Mapping):
            source, config = str(config), _read_config(Path(config))
        if name is None:
            name = str(config.get("_name_or_path") or source)
        kind = config.get("model_type")
        if kind not in _READERS:
            raise ValueError(f"model_type {kind!r} is not known: choose from {', '.join(_READERS)}")
        try:
            return cls(name=name, family=kind, **_READERS[kind](config))
        except KeyError as missing:
            raise ValueError(f"{source} of model_type {kind!r} lacks {missing.args[0]!r}") from None
        except (TypeError, AttributeError, ZeroDivisionError):
            raise ValueError(f"{source} of model_type {kind!r} has a value that is no whole number") from None


def _tensor(name: str, part: str, *shape: int) -> TensorShape:
    return TensorShape(name=name, part=part, shape=shape)


def _linear(name: str, part: str, d_in: int, d_out: int, bias: bool) -> list[TensorShape]:
    tensors = [_tensor(f"{name}.weight", part, d_out, d_in)]
    return tensors + [_tensor(f"{name}.bias", part, d_out)] if bias else tensors


def _norm(name: str, model: Transformer) -> list[TensorShape]:
    tensors = [_tensor(f"{name}.weight", "norm", model.hidden)]
    return tensors + [_tensor(f"{name}.bias", "norm", model.hidden)] if model.norm == "layernorm" else tensors


def _blocks(first: list[TensorShape], *layers: tuple[int, list[TensorShape]], last: list[TensorShape]):
    middle = tuple(Block(repeat=repeat, tensors=tuple(tensors)) for repeat, tensors in layers)
    blocks = (Block(repeat=1, tensors=tuple(first)), *middle, Block(repeat=1, tensors=tuple(last)))
    return tuple(block for block in blocks if block.tensors and block.repeat)


def _llama_blocks(m: Transformer) -> tuple[Block, ...]:
    layer, q, kv = "model.layers.{}", m.heads * m.head_size, m.kv_heads * m.head_size
    tensors = _norm(f"{layer}.input_layernorm", m)
    for name, width in (("q", q), ("k", kv), ("v", kv)):
        tensors += _linear(f"{layer}.self_attn.{name}_proj", "attention", m.hidden, width, m.attention_bias)
    tensors += _linear(f"{layer}.self_attn.o_proj", "attention", q, m.hidden, m.output_bias)
    tensors += _norm(f"{layer}.post_attention_layernorm", m)
    for name in ("gate", "up") if m.gated else ("up",):
        tensors += _linear(f"{layer}.mlp.{name}_proj", "mlp", m.hidden, m.ffn, m.mlp_bias)
    tensors += _linear(f"{layer}.mlp.down_proj", "mlp", m.ffn, m.hidden, m.mlp_bias)
    first = [_tensor("model.embed_tokens.weight", "embedding", m.vocabulary, m.hidden)]
    head = [] if m.tied else [_tensor("lm_head.weight", "head", m.vocabulary, m.hidden)]
    return _blocks(first, (m.layers, tensors), last=_norm("model.norm", m) + head)


def _gpt2_blocks(m: Transformer) -> tuple[Block, ...]:
    layer, width = "transformer.h.{}", m.heads * m.head_size

    def conv(name: str, part: str, d_in: int, d_out: int, bias: bool) -> list[TensorShape]:
        tensors = [_tensor(f"{layer}.{name}.weight", part, d_in, d_out)]
        return tensors + [_tensor(f"{layer}.{name}.bias", part, d_out)] if bias else tensors

    tensors = (
        _norm(f"{layer}.ln_1", m)
        + conv("attn.c_attn", "attention", m.hidden, 3 * width, m.attention_bias)
        + conv("attn.c_proj", "attention", width, m.hidden, m.output_bias)
        + _norm(f"{layer}.ln_2", m)
        + conv("mlp.c_fc", "mlp", m.hidden, m.ffn, m.mlp_bias)
        + conv("mlp.c_proj", "mlp", m.ffn, m.hidden, m.mlp_bias)
    )
    first = [
        _tensor("transformer.wte.weight", "embedding", m.vocabulary, m.hidden),
        _tensor("transformer.wpe.weight", "embedding", m.context, m.hidden),
    ]
    head = [] if m.tied else [_tensor("lm_head.weight", "head", m.vocabulary, m.hidden)]
    return _blocks(first, (m.layers, tensors), last=_norm("transformer.ln_f", m) + head)


def _bert_blocks(m: Transformer) -> tuple[Block, ...]:
    layer, embeddings, width = "encoder.layer.{}", "embeddings", m.heads * m.head_size
    tensors: list[TensorShape] = []
    for name in ("query", "key", "value"):
        part = f"{layer}.attention.self.{name}"
        tensors += _linear(part, "attention", m.hidden, width, m.attention_bias)
    tensors += _linear(f"{layer}.attention.output.dense", "attention", width, m.hidden, m.output_bias)
    tensors += _norm(f"{layer}.attention.output.LayerNorm", m)
    tensors += _linear(f"{layer}.intermediate.dense", "mlp", m.hidden, m.ffn, m.mlp_bias)
    tensors += _linear(f"{layer}.output.dense", "mlp", m.ffn, m.hidden, m.mlp_bias)
    tensors += _norm(f"{layer}.output.LayerNorm", m)
    first = [
        _tensor(f"{embeddings}.word_embeddings.weight", "embedding", m.vocabulary, m.hidden),
        _tensor(f"{embeddings}.position_embeddings.weight", "embedding", m.context, m.hidden),
        _tensor(f"{embeddings}.token_type_embeddings.weight", "embedding", m.token_types, m.hidden),
        *_norm(f"{embeddings}.LayerNorm", m),
    ]
    last = _linear("pooler.dense", "pooler", m.hidden, m.hidden, True) if m.pooler else []
    return _blocks(first, (m.layers, tensors), last=last)


def _t5_attention(prefix: str, m: Transformer) -> list[TensorShape]:
    width = m.heads * m.head_size
    tensors = []
    for name in "qkv":
        tensors += _linear(f"{prefix}.{name}", "attention", m.hidden, width, False)
    return tensors + _linear(f"{prefix}.o", "attention", width, m.hidden, False)


def _t5_mlp(prefix: str, m: Transformer) -> list[TensorShape]:
    tensors = []
    for name in ("wi_0", "wi_1") if m.gated else ("wi",):
        tensors += _linear(f"{prefix}.{name}", "mlp", m.hidden, m.ffn, False)
    return tensors + _linear(f"{prefix}.wo", "mlp", m.ffn, m.hidden, False)


def _t5_blocks(m: Transformer) -> tuple[Block, ...]:
    bias = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    encoder, decoder = "encoder.block.{}.layer", "decoder.block.{}.layer"
    encoder_layer = (
        _norm(f"{encoder}.0.layer_norm", m)
        + _t5_attention(f"{encoder}.0.SelfAttention", m)
        + _norm(f"{encoder}.1.layer_norm", m)
        + _t5_mlp(f"{encoder}.1.DenseReluDense", m)
    )
    decoder_layer = (
        _norm(f"{decoder}.0.layer_norm", m)
        + _t5_attention(f"{decoder}.0.SelfAttention", m)
        + _norm(f"{decoder}.1.layer_norm", m)
        + _t5_attention(f"{decoder}.1.EncDecAttention", m)
        + _norm(f"{decoder}.2.layer_norm", m)
        + _t5_mlp(f"{decoder}.2.DenseReluDense", m)
    )
    first = [
        _tensor("shared.weight", "embedding", m.vocabulary, m.hidden),
        _tensor(f"encoder.{bias}", "embedding", m.relative_buckets, m.heads),
        _tensor(f"decoder.{bias}", "embedding", m.relative_buckets, m.heads),
    ]
    last = _norm("encoder.final_layer_norm", m) + _norm("decoder.final_layer_norm", m)
    head = [] if m.tied else [_tensor("lm_head.weight", "head", m.vocabulary, m.hidden)]
    return _blocks(first, (m.layers, encoder_layer), (m.decoder_layers, decoder_layer), last=last + head)


_BLOCKS = {
    "gpt2": _gpt2_blocks, "llama": _llama_blocks, "qwen2": _llama_blocks, "mistral": _llama_blocks,
    "bert": _bert_blocks, "roberta": _bert_blocks, "t5": _t5_blocks,
}  # fmt: skip


def _read_config(path: Path) -> Mapping[str, Any]:
    """The dict in a config.json; ValueError in one line for whatever is wrong with the file."""
    if path.is_dir():
        path = path / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError(f"{path} is not JSON: a Hugging Face config.json is expected") from None
    if not isinstance(config, Mapping):
        raise ValueError(f"{path} holds no JSON object: a Hugging Face config.json is expected")
    return config


def _llama_fields(config: Mapping[str, Any], bias: bool = False) -> dict[str, Any]:
    heads = int(config["num_attention_heads"])
    hidden = int(config["hidden_size"])
    bias = bool(config.get("attention_bias", bias))
    return dict(
        vocabulary=int(config["vocab_size"]),
        hidden=hidden,
        layers=int(config["num_hidden_layers"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_size=int(config.get("head_dim") or hidden // heads),
        ffn=int(config["intermediate_size"]),
        gated=True,
        tied=bool(config.get("tie_word_embeddings", False)),
        norm="rmsnorm",
        attention_bias=bias,
        output_bias=bias,
        mlp_bias=bool(config.get("mlp_bias", False)),
        dropout=float(config.get("attention_dropout") or 0.0),
    )


def _qwen2_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    fields = _llama_fields(config)
    return fields | dict(attention_bias=True, output_bias=False, mlp_bias=False)


def _mistral_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    return _llama_fields(config) | dict(attention_bias=False, output_bias=False, mlp_bias=False)


def _gpt2_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    hidden, heads = int(config["n_embd"]), int(config["n_head"])
    return dict(
        vocabulary=int(config["vocab_size"]),
        hidden=hidden,
        layers=int(config["n_layer"]),
        heads=heads,
        kv_heads=heads,
        head_size=hidden // heads,
        ffn=int(config.get("n_inner") or 4 * hidden),
        context=int(config["n_positions"]),
        tied=bool(config.get("tie_word_embeddings", True)),
        attention_bias=True,
        output_bias=True,
        mlp_bias=True,
        dropout=float(config.get("resid_pdrop", 0.1)),
    )


def _bert_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    return dict(
        vocabulary=int(config["vocab_size"]),
        hidden=hidden,
        layers=int(config["num_hidden_layers"]),
        heads=heads,
        kv_heads=heads,
        head_size=hidden // heads,
        ffn=int(config["intermediate_size"]),
        context=int(config["max_position_embeddings"]),
        attention_bias=True,
        output_bias=True,
        mlp_bias=True,
        dropout=float(config.get("hidden_dropout_prob", 0.1)),
        token_types=int(config["type_vocab_size"]),
        pooler=True,
    )


def _t5_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    heads, layers = int(config["num_heads"]), int(config["num_layers"])
    gated = "gated" in str(config.get("feed_forward_proj", "relu"))
    return dict(
        vocabulary=int(config["vocab_size"]),
        hidden=int(config["d_model"]),
        layers=layers,
        heads=heads,
        kv_heads=heads,
        head_size=int(config["d_kv"]),
        ffn=int(config["d_ff"]),
        gated=gated,
        tied=bool(config.get("tie_word_embeddings", True)),
        norm="rmsnorm",
        dropout=float(config.get("dropout_rate", 0.1)),
        decoder_layers=int(config.get("num_decoder_layers") or layers),
        relative_buckets=int(config.get("relative_attention_num_buckets", 32)),
    )


_READERS = {
    "llama": _llama_fields, "qwen2": _qwen2_fields, "mistral": _mistral_fields, "gpt2": _gpt2_fields,
    "bert": _bert_fields, "roberta": _bert_fields, "t5": _t5_fields,
}  # fmt: skip


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
        name=name, vocabulary=vocabulary, hidden=hidden, layers=layers, heads=heads, kv_heads=kv_heads, ffn=ffn,
        gated=True, norm="rmsnorm", **fields,
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
