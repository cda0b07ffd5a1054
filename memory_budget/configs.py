"""Which dimensions does a Hugging Face config.json give?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def read_config(path: Path) -> Mapping[str, Any]:
    """The dict in a config.json; ValueError in one line for whatever is wrong with the file."""
    import json  # here, so that the package is imported quickly

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


READERS = {
    "llama": _llama_fields, "qwen2": _qwen2_fields, "mistral": _mistral_fields, "gpt2": _gpt2_fields,
    "bert": _bert_fields, "roberta": _bert_fields, "t5": _t5_fields,
}  # fmt: skip


def fields_of(config: Mapping[str, Any], source: str = "config") -> dict[str, Any]:
    """The dimensions in a config, as fields of `Transformer`; ValueError in one line if one is missing."""
    kind = config.get("model_type")
    if kind not in READERS:
        raise ValueError(f"{source} has model_type {kind!r}: known are {', '.join(READERS)}")
    try:
        return READERS[kind](config)
    except KeyError as missing:
        raise ValueError(f"{source} of model_type {kind!r} lacks {missing.args[0]!r}") from None
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(f"{source} of model_type {kind!r} has a size that is no whole number") from None
