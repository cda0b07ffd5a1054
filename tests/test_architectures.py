"""Parameter counts to the last one, and Hugging Face configs from disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_budget.architectures import ARCHITECTURES, TotalOnly, Transformer, architecture

# the models' own counts, as their safetensors and model cards give them
COUNTS = {
    "gpt2": 124_439_808, "gpt2-medium": 354_823_168, "gpt2-large": 774_030_080, "gpt2-xl": 1_557_611_200,
    "llama-33b": 32_528_943_616, "llama-65b": 65_285_660_672,
    "llama-2-7b": 6_738_415_616, "llama-2-13b": 13_015_864_320, "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248, "llama-3-70b": 70_553_706_496, "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400, "llama-3.2-3b": 3_212_749_824,
    "qwen2.5-0.5b": 494_032_768, "qwen2.5-1.5b": 1_543_714_304, "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512, "qwen2.5-14b": 14_770_033_664, "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648, "mistral-7b": 7_241_732_096,
    "roberta-base": 124_645_632, "roberta-large": 355_359_744, "bert-base-cased": 108_310_272,
    "bert-large": 335_141_888, "t5-small": 60_506_624, "t5-base": 222_903_552, "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336, "resnet-50": 25_557_032,
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_named_models_are_exact_to_the_parameter(name: str) -> None:
    assert architecture(name).parameters == COUNTS[name]


@pytest.mark.parametrize("name", [n for n, m in ARCHITECTURES.items() if isinstance(m, Transformer)])
def test_the_tensors_one_by_one_add_up_to_the_count_and_have_names_of_their_own(name: str) -> None:
    model = architecture(name)
    assert isinstance(model, Transformer)
    tensors = model.tensors()
    assert sum(tensor.elements for tensor in tensors) == model.parameters
    assert len({tensor.name for tensor in tensors}) == len(tensors)


def test_the_course_measures_a_model_of_3_and_a_half_million_parameters() -> None:
    assert 3e6 < architecture("small-gpt").parameters < 5e6


def test_tensors_have_their_hugging_face_names_and_shapes() -> None:
    shapes = {tensor.name: tensor.shape for tensor in ARCHITECTURES["llama-3-8b"].tensors()}
    assert shapes["model.layers.31.self_attn.k_proj.weight"] == (1024, 4096)
    assert shapes["model.layers.0.mlp.down_proj.weight"] == (4096, 14336)
    assert shapes["lm_head.weight"] == (128256, 4096)
    assert "lm_head.weight" not in {t.name for t in ARCHITECTURES["llama-3.2-1b"].tensors()}
    gpt2 = {tensor.name: tensor.shape for tensor in ARCHITECTURES["gpt2"].tensors()}
    assert gpt2["transformer.h.11.attn.c_attn.weight"] == (768, 2304)


CONFIGS = {
    "gpt2": {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
             "n_ctx": 1024, "vocab_size": 50257, "resid_pdrop": 0.1},
    "llama-2-7b": {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
                   "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000},
    "llama-3.2-1b": {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "head_dim": 64,
                     "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 16,
                     "vocab_size": 128256, "tie_word_embeddings": True, "attention_bias": False},
    "qwen2.5-7b": {"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
                   "num_attention_heads": 28, "num_key_value_heads": 4, "num_hidden_layers": 28,
                   "vocab_size": 152064, "tie_word_embeddings": False},
    "mistral-7b": {"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
                   "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
                   "vocab_size": 32000, "tie_word_embeddings": False, "head_dim": None},
    "roberta-base": {"model_type": "roberta", "hidden_size": 768, "intermediate_size": 3072,
                     "num_attention_heads": 12, "num_hidden_layers": 12, "vocab_size": 50265,
                     "max_position_embeddings": 514, "type_vocab_size": 1},
    "bert-large": {"model_type": "bert", "hidden_size": 1024, "intermediate_size": 4096,
                   "num_attention_heads": 16, "num_hidden_layers": 24, "vocab_size": 30522,
                   "max_position_embeddings": 512, "type_vocab_size": 2},
    "t5-3b": {"model_type": "t5", "d_model": 1024, "d_kv": 128, "d_ff": 16384, "num_heads": 32,
              "num_layers": 24, "vocab_size": 32128, "relative_attention_num_buckets": 32},
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_from_disk_gives_the_same_model(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[name]), encoding="utf-8")
    for path in (tmp_path, tmp_path / "config.json", str(tmp_path / "config.json")):
        assert Transformer.from_config(path).parameters == COUNTS[name]
    assert Transformer.from_config(CONFIGS[name], name="mine").name == "mine"


def test_a_gated_t5_has_three_matrices_and_its_own_head() -> None:
    # google/t5-v1_1-base: 247,577,856 parameters
    config = {"model_type": "t5", "d_model": 768, "d_kv": 64, "d_ff": 2048, "num_heads": 12, "num_layers": 12,
              "num_decoder_layers": 12, "vocab_size": 32128, "relative_attention_num_buckets": 32,
              "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}  # fmt: skip
    assert Transformer.from_config(config).parameters == 247_577_856


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "no JSON object"),
        ('{"model_type": "mamba"}', "model_type 'mamba': known are llama, qwen2"),
        ("{}", "model_type None"),
        ('{"model_type": "gpt2", "n_embd": 768}', "lacks 'n_head'"),
        ('{"model_type": "gpt2", "n_embd": "wide", "n_head": 12}', "no whole number"),
        (
            '{"model_type": "gpt2", "n_embd": 768, "n_head": 0, "vocab_size": 9, "n_layer": 1}',
            "no whole number",
        ),
    ],
)
def test_a_bad_config_is_refused_in_one_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=words) as refusal:
        Transformer.from_config(path)
    assert "\n" not in str(refusal.value)


def test_a_config_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot read"):
        Transformer.from_config(tmp_path / "none.json")


def test_an_unknown_model_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="unknown model 'gpt-5': choose from small-gpt, gpt2"):
        architecture("gpt-5")


def test_names_are_read_in_any_case_and_a_model_is_itself() -> None:
    assert architecture(" Llama-3-8B ") is ARCHITECTURES["llama-3-8b"]
    assert architecture(ARCHITECTURES["gpt2"]) is ARCHITECTURES["gpt2"]
    assert isinstance(architecture("resnet-50"), TotalOnly)


def test_heads_that_cannot_share_keys_are_refused() -> None:
    shape = dict(name="odd", family="llama", vocabulary=10, hidden=12, layers=1, ffn=12, head_size=4)
    with pytest.raises(ValueError, match="kv_heads must divide 3 heads"):
        Transformer(**shape, heads=3, kv_heads=2)
    with pytest.raises(ValueError, match="hidden must be 1 or more"):
        Transformer(**(shape | {"hidden": 0}), heads=3, kv_heads=3)


@settings(deadline=None)  # a busy machine is no failure
@given(st.integers(1, 40), st.integers(1, 40))
def test_layers_add_alike_parameters(few: int, more: int) -> None:
    def count(layers: int) -> int:
        config = CONFIGS["llama-2-7b"] | {"num_hidden_layers": layers}
        return Transformer.from_config(config).parameters

    assert count(few + more) - count(few) == more * (count(2) - count(1))
