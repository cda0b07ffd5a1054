"""Bytes and counts in words, and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_budget import units


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (112e9, "112 GB"), (14.064e9, "14.06 GB"), (1120e9, "1,120 GB"), (12e12, "12 TB"), (64e6, "64 MB"),
        (32_760, "32.76 KB"), (512, "512 B"), (0, "0 B"), (999_999_999, "1 GB"),
    ],
)  # fmt: skip
def test_bytes_are_written_in_decimal_units(n: float, text: str) -> None:
    assert units.bytes_text(n) == text


def test_a_size_can_be_shown_in_gb_and_gib_and_neither_word_lies() -> None:
    assert units.both_text(14e9) == "14.0 GB (13.04 GiB)"
    assert units.both_text(2**30) == "1.07 GB (1.00 GiB)"
    assert units.both_text(64e6) == "64.0 MB (61.04 MiB)"


@pytest.mark.parametrize(
    ("n", "text"), [(7e9, "7B"), (124_439_808, "124.4M"), (65_536, "65.54K"), (12, "12"), (1e12, "1T")]
)
def test_counts_are_written_as_people_say_them(n: float, text: str) -> None:
    assert units.count_text(n) == text


@pytest.mark.parametrize(
    "text", ["7B", "7b", "7e9", "7 B", "7_000_000_000", "7,000M", "7 billion", 7e9, 7 * 10**9]
)
def test_a_count_is_read_as_people_write_it(text: str | float) -> None:
    assert units.parse_count(text) == 7_000_000_000


@pytest.mark.parametrize(
    ("text", "size"),
    [("80GB", 80 * 10**9), ("80GiB", 80 * 2**30), ("80 g", 80 * 10**9), ("1.5TiB", 3 * 2**39), ("512b", 512)],
)
def test_a_size_in_bytes_is_read_with_its_unit(text: str, size: int) -> None:
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize(
    "wrong", ["", "many", "-7B", "7 B B", "nan", "inf", "1e999", "7e99999999999", "0x10", float("nan"),
              float("inf"), -1, True, None]
)  # fmt: skip
def test_what_is_no_count_is_refused_in_one_line(wrong: object) -> None:
    with pytest.raises(ValueError, match="a number of parameters must") as refusal:
        units.parse_count(wrong)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


def test_a_size_without_its_unit_is_refused_because_gb_and_gib_differ() -> None:
    with pytest.raises(ValueError, match="80GB or 80GiB"):
        units.parse_bytes("80")


@settings(deadline=None)  # a busy machine is no failure
@given(st.integers(min_value=0, max_value=10**16))
def test_a_count_in_words_is_right_to_four_digits(n: int) -> None:
    text = units.count_text(n).replace(",", "")
    assert units.parse_count(text) == pytest.approx(n, rel=5.1e-4, abs=0.5)


@settings(deadline=None)  # a busy machine is no failure
@given(st.integers(min_value=0, max_value=10**16))
def test_a_size_in_words_is_right_to_four_digits(n: int) -> None:
    text = units.bytes_text(n).replace(",", "")
    assert units.parse_bytes(text) == pytest.approx(n, rel=5.1e-4, abs=0.5)
