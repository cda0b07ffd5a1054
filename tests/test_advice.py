"""What would make a set-up fit."""

from __future__ import annotations

import pytest

from memory_budget import Setup, advice, predict
from memory_budget.units import GB

SETUPS = [
    Setup(parameters="7B"),
    Setup(parameters="70B", recipe="fp32", implementation="foreach"),
    Setup(model="llama-3-8b", batch=8, sequence=2048),
    Setup(model="llama-3-8b", lora_rank=16, batch=4, sequence=4096),
    Setup(parameters="7B", optimizer_in_backward=True, recipe="fp32"),
]


@pytest.mark.parametrize("setup", SETUPS, ids=range(len(SETUPS)))
def test_every_way_fits_and_is_what_the_model_predicts(setup: Setup) -> None:
    device = predict(setup).peak_bytes * 6 // 10
    ways = advice.ways_to_fit(setup, device)
    assert ways
    for way in ways:
        assert way.peak_bytes == predict(way.setup).peak_bytes <= device


def test_nothing_is_advised_where_it_fits() -> None:
    assert advice.ways_to_fit(Setup(parameters="1B"), 80 * GB) == []


def test_7b_on_80_gb_can_be_sharded_quantised_or_adapted() -> None:
    words = "\n".join(advice.advice_lines(Setup(parameters="7B"), 80 * GB))
    assert "8-bit AdamW: 70.22 GB" in words
    assert "ZeRO-3 over 2 such GPUs: 56 GB" in words
    assert "a device of 141 GB (H200)" in words


def test_what_no_change_makes_fit_is_said() -> None:
    assert advice.advice_lines(Setup(parameters=10**15), GB) == ["nothing on the list: take a smaller model"]
