"""What an optimizer keeps, against what torch's optimizers do keep."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_budget.optimizers import OPTIMIZERS, optimizer_named

SHAPES = [(64, 48), (100,), (7, 5), (1,), (3, 8, 9)]


def kept_by(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]) -> int:
    """Bytes of state that a real optimizer holds after a step."""
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    tensors = [value for state in optimizer.state.values() for value in state.values()]
    return sum(t.untyped_storage().nbytes() for t in tensors if isinstance(t, torch.Tensor))


TORCH = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p),
    "adamw": lambda p: torch.optim.AdamW(p),
    "amsgrad": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "adafactor": lambda p: torch.optim.Adafactor(p),
}


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_state_is_what_torch_keeps_to_the_byte(name: str, dtype: torch.dtype) -> None:
    parameters = [torch.nn.Parameter(torch.ones(shape, dtype=dtype)) for shape in SHAPES]
    expected = kept_by(TORCH[name](parameters), parameters)
    sizes = [OPTIMIZERS[name].state_bytes(shape, dtype.itemsize) for shape in SHAPES]
    assert sum(sum(size.values()) for size in sizes) == expected


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon came with torch 2.9")
def test_muon_keeps_one_buffer_for_a_matrix() -> None:
    parameters = [torch.nn.Parameter(torch.ones(64, 48))]
    assert kept_by(torch.optim.Muon(parameters), parameters) == 64 * 48 * 4
    assert OPTIMIZERS["muon"].state_bytes((64, 48)) == {"first_moment": 64 * 48 * 4, "second_moment": 0}


def test_muon_leaves_embeddings_and_vectors_to_adamw() -> None:
    for shape, is_hidden in (((64, 48), False), ((64,), True)):
        kept = OPTIMIZERS["muon"].state_bytes(shape, hidden_matrix=is_hidden)
        assert kept == OPTIMIZERS["adamw"].state_bytes(shape)


@pytest.mark.parametrize(
    ("elements", "state"), [(4095, 8 * 4095), (4096, 2 * (4096 + 64)), (4097, 2 * (4097 + 4 * 17))]
)
def test_8_bit_adam_keeps_small_tensors_in_fp32_and_a_constant_a_block(elements: int, state: int) -> None:
    assert sum(OPTIMIZERS["adamw-8bit"].state_bytes((elements,)).values()) == state


def test_4_bit_adam_keeps_half_a_byte_and_a_constant_for_128() -> None:
    assert OPTIMIZERS["adamw-4bit"].bytes_per_parameter() == 1.0625


@pytest.mark.parametrize(
    ("name", "each"),
    [("sgd", 0), ("momentum", 4), ("adam", 8), ("adamw", 8), ("amsgrad", 12), ("adafactor", 0),
     ("adafactor-momentum", 4), ("adamw-8bit", 2.03125), ("lion", 4), ("muon", 4)],
)  # fmt: skip
def test_bytes_of_state_for_each_parameter_of_a_large_matrix(name: str, each: float) -> None:
    assert OPTIMIZERS[name].bytes_per_parameter() == each


def test_moments_are_as_wide_as_the_weights_they_are_made_like() -> None:
    assert OPTIMIZERS["adamw"].bytes_per_parameter(moment_bytes=2) == 4
    assert OPTIMIZERS["adamw-8bit"].bytes_per_parameter(moment_bytes=2) == 2.03125


@settings(deadline=None)  # a busy machine is no failure
@given(st.sampled_from(sorted(OPTIMIZERS)), st.integers(64, 3000), st.integers(64, 3000))
def test_a_large_matrix_costs_about_what_its_parameters_cost_without_shapes(
    name: str, rows: int, columns: int
) -> None:
    optimizer = OPTIMIZERS[name]
    shaped = sum(optimizer.state_bytes((rows, columns)).values())
    unshaped = sum(optimizer.unshaped_bytes(rows * columns).values())
    factors = 4 * (rows + columns) if optimizer.second == "factored" else 0
    small = optimizer.second == "blocks" and rows * columns < 4096
    assert isinstance(shaped, int)
    assert small or shaped - unshaped == factors + (4 if optimizer.step_counter else 0)


def test_an_unknown_optimizer_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="'rmsprop': choose from sgd, momentum"):
        optimizer_named("rmsprop")
