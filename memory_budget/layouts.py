"""Which tensors, by name and shape, make up a transformer of each family?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_budget.tensors import Block, TensorShape

if TYPE_CHECKING:
    from memory_budget.architectures import Transformer


def _tensor(name: str, part: str, *shape: int) -> TensorShape:
    return TensorShape(name=name, part=part, shape=shape)


def _linear(name: str, part: str, d_in: int, d_out: int, bias: bool) -> list[TensorShape]:
    tensors = [_tensor(f"{name}.weight", part, d_out, d_in)]
    return [*tensors, _tensor(f"{name}.bias", part, d_out)] if bias else tensors


def _norm(name: str, model: Transformer) -> list[TensorShape]:
    weight, bias = (_tensor(f"{name}.{end}", "norm", model.hidden) for end in ("weight", "bias"))
    return [weight, bias] if model.norm == "layernorm" else [weight]


def _blocks(
    first: list[TensorShape], *layers: tuple[int, list[TensorShape]], last: list[TensorShape]
) -> tuple[Block, ...]:
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
        return [*tensors, _tensor(f"{layer}.{name}.bias", part, d_out)] if bias else tensors

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


BLOCKS_OF = {
    "gpt2": _gpt2_blocks, "llama": _llama_blocks, "qwen2": _llama_blocks, "mistral": _llama_blocks,
    "bert": _bert_blocks, "roberta": _bert_blocks, "t5": _t5_blocks,
}  # fmt: skip
