"""Other people's rules give what their documentation prints."""

from __future__ import annotations

import pytest

from memory_budget import published
from memory_budget.units import GiB, MiB


@pytest.mark.parametrize(
    ("choices", "gpu_gib", "host_gib"),
    [
        (dict(offload_parameters=True), 0.12, 71.69),
        (dict(offload_parameters=True, zero_init=False), 0.12, 127.45),
        (dict(offload_optimizer=True), 0.78, 63.72),
        (dict(offload_optimizer=True, zero_init=False), 0.78, 127.45),
        (dict(), 6.09, 1.43),
        (dict(zero_init=False), 6.09, 127.45),
    ],
)
def test_deepspeeds_zero_3_table_for_t5_3b(choices: dict[str, bool], gpu_gib: float, host_gib: float) -> None:
    estimate = published.deepspeed_zero3(2851e6, 32e6, 8, **choices)
    assert estimate.gpu_bytes / GiB == pytest.approx(gpu_gib, abs=0.006)
    assert estimate.host_bytes / GiB == pytest.approx(host_gib, abs=0.006)


def test_deepspeeds_zero_2_table_for_t5_3b() -> None:
    offload = published.deepspeed_zero2(2851e6, 8, offload=True)
    assert offload.gpu_bytes / GiB == pytest.approx(5.31, abs=0.006)
    assert offload.host_bytes / GiB == pytest.approx(127.45, abs=0.006)
    assert published.deepspeed_zero2(2851e6, 8, before_2024=True).gpu_bytes / GiB == pytest.approx(
        15.93, abs=0.006
    )


def test_deepspeeds_ram_grows_with_the_gpus_that_load_at_once() -> None:
    assert published.deepspeed_zero2(1e9, 2, offload=True).host_bytes == 24e9
    assert published.deepspeed_zero2(1e9, 4, 2, offload=True).host_bytes == 48e9


def test_deepspeeds_three_cases_for_t5_large() -> None:
    cases = (dict(), dict(offload_parameters=True), dict(offload_optimizer=True))
    printed = [published.deepspeed_zero3(737.67e6, 32.90e6, 4, **case).gpu_bytes // MiB for case in cases]
    assert printed == [3291, 125, 477]


def test_accelerates_fp32_row_is_a_sum_and_its_16_bit_row_is_not() -> None:
    whole, half = published.accelerate_training(1e9), published.accelerate_training(1e9, half=True)
    assert whole.printed == whole.alive_together == 16e9
    assert (half.printed, half.alive_together) == (8e9, 18e9)


def test_tensor_and_sequence_parallelism_divide_a_layers_activations() -> None:
    # arXiv 2205.05198, table 2, with s=2048, b=1, h=12288, a=96 and t=8: 34 + 80, 10 + 24/8 + 80/8, 114/8
    size = dict(batch=1, sequence=2048, hidden=12288, heads=96)
    unit = 2048 * 12288
    assert published.layer_activation_bytes(**size) == 114 * unit
    assert published.layer_activation_bytes(**size, tensor_parallel=8) == 23 * unit
    both = published.layer_activation_bytes(**size, tensor_parallel=8, sequence_parallel=True)
    assert both == 114 / 8 * unit
    assert published.layer_activation_bytes(**size, scores=False) == 34 * unit
