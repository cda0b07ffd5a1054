"""Devices and the words for what fits."""

from __future__ import annotations

from memory_budget import devices
from memory_budget.units import GB


def test_the_words_say_by_how_much_it_is_short() -> None:
    assert devices.fit_words(112 * GB, 80 * GB) == "short by 32 GB on 80 GB"
    assert devices.fit_words(80 * GB, 80 * GB) == "fits on 80 GB"
    assert devices.fit_words(80 * GB + 1, 80 * GB) == "short by 1 B on 80 GB"


def test_the_devices_are_sorted_and_the_smallest_that_holds_is_found() -> None:
    sizes = [device.bytes for device in devices.DEVICES]
    assert sizes == sorted(sizes) == [n * GB for n in (8, 16, 24, 48, 80, 141, 192)]
    found = devices.smallest_that_holds(112 * GB)
    assert found is not None
    assert found.label == "141 GB"
    assert devices.smallest_that_holds(193 * GB) is None
