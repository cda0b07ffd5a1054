"""What one parameter keeps in each regime."""

from __future__ import annotations

import pytest

from memory_budget.recipes import RECIPES, recipe_named

BYTES = {
    "fp32": 16, "mixed": 16, "autocast": 16, "autocast-accumulate": 18, "bf16-fp32-gradients": 18,
    "fp16-both-gradients": 20, "no-master": 12, "pure-bf16": 8,
}  # fmt: skip


@pytest.mark.parametrize("name", BYTES)
def test_each_regime_has_its_published_bytes_per_parameter(name: str) -> None:
    assert RECIPES[name].bytes_per_parameter() == BYTES[name]
    assert sum(RECIPES[name].terms().values()) == BYTES[name]


def test_every_regime_says_why_and_who() -> None:
    assert set(RECIPES) == set(BYTES)
    assert all(recipe.why.endswith(".") and recipe.who and recipe.peak for recipe in RECIPES.values())


def test_mixed_precision_puts_back_what_it_halves() -> None:
    fp32, mixed = RECIPES["fp32"].terms(), RECIPES["mixed"].terms()
    halved = fp32["weights"] + fp32["gradients"] - mixed["weights"] - mixed["gradients"]
    assert halved == mixed["master_copy"] == 4
    assert [fp32[key] for key in ("first_moment", "second_moment")] == [4, 4]
    assert [mixed[key] for key in ("first_moment", "second_moment")] == [4, 4]


@pytest.mark.parametrize(
    ("optimizer", "total"),
    [("sgd", 8), ("momentum", 12), ("adamw-8bit", 10.03125), ("adafactor", 8), ("amsgrad", 20), ("lion", 12)],
)
def test_other_optimizers_scale_the_sixteen_bytes(optimizer: str, total: float) -> None:
    assert RECIPES["mixed"].bytes_per_parameter(optimizer) == total


def test_an_unknown_recipe_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="'fp8': choose from fp32, mixed"):
        recipe_named("fp8")
