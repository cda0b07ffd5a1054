"""How many bytes is that, in words? GB is 10^9 bytes, GiB is 2^30, and a text never mixes the two."""

from __future__ import annotations

import re

KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12
KiB, MiB, GiB, TiB = 2**10, 2**20, 2**30, 2**40

_BYTE_UNITS = {
    "b": 1, "byte": 1, "bytes": 1,
    "k": KB, "kb": KB, "m": MB, "mb": MB, "g": GB, "gb": GB, "t": TB, "tb": TB,
    "kib": KiB, "mib": MiB, "gib": GiB, "tib": TiB,
}  # fmt: skip
_COUNT_UNITS = {
    "": 1, "k": 10**3, "thousand": 10**3, "m": 10**6, "million": 10**6,
    "b": 10**9, "g": 10**9, "billion": 10**9, "t": 10**12, "trillion": 10**12,
}  # fmt: skip
_SIZE = re.compile(r"([0-9][0-9_,]*(?:\.[0-9]+)?|\.[0-9]+)(e[+-]?[0-9]+)?\s*([a-z]*)", re.IGNORECASE)


def number_text(value: float, digits: int = 4) -> str:
    """`value` with at most `digits` significant digits, thousands separated and no trailing zeros."""
    if value == 0:
        return "0"
    places = max(0, digits - len(str(int(abs(value)))) if abs(value) >= 1 else digits - 1)
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def bytes_text(n: float) -> str:
    """`n` bytes in decimal units, as in `112 GB` or `64 MB`; a thousand GB is still written in GB."""
    size = abs(n)
    for unit, scale, smallest in (("TB", TB, 10 * TB), ("GB", GB, GB), ("MB", MB, MB), ("KB", KB, KB)):
        if size >= smallest * 0.99995:
            return f"{number_text(n / scale)} {unit}"
    return f"{number_text(n)} B"


def both_text(n: float) -> str:
    """`n` bytes in GB and in GiB, as in `14.0 GB (13.04 GiB)`: for what a device or a tool reports."""
    unit, scale, binary_scale = ("G", GB, GiB) if abs(n) >= GB else ("M", MB, MiB)
    decimal = f"{n / scale:,.2f}".removesuffix("0")
    return f"{decimal} {unit}B ({n / binary_scale:,.2f} {unit}iB)"


def count_text(n: float) -> str:
    """A number of parameters as people say it: `7B`, `124.4M`, `65.5K`."""
    for unit, scale in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if abs(n) >= scale * 0.99995:
            return f"{number_text(n / scale)}{unit}"
    return number_text(n)


def _parse(size: str | float, units: dict[str, int], what: str, examples: str) -> int:
    """The whole number written in `size`; refuses what is not a finite number of 0 or more."""
    from decimal import Decimal  # exact where 1.1e9 is not; here, so that the package is imported quickly

    if isinstance(size, bool):
        raise ValueError(f"{what} must be a number such as {examples}, not {size!r}")
    if isinstance(size, int | float):
        if size != size or size < 0 or size == float("inf"):
            raise ValueError(f"{what} must be a finite number of 0 or more, not {size!r}")
        return int(size)
    match = _SIZE.fullmatch(str(size).strip())
    if match is None or match[3].lower() not in units:
        raise ValueError(f"{what} must look like {examples}, not {size!r}")
    digits = match[1].replace("_", "").replace(",", "")
    if match[2] and abs(int(match[2][1:])) > 30:
        raise ValueError(f"{what} must look like {examples}, not {size!r}")
    return int(Decimal(digits + (match[2] or "")) * units[match[3].lower()])


def parse_count(size: str | float) -> int:
    """How many parameters `size` means: `7B`, `7e9`, `124M`, `1_500_000` or a number; else ValueError."""
    return _parse(size, _COUNT_UNITS, "a number of parameters", "7B, 7e9 or 124M")


def parse_bytes(size: str | float) -> int:
    """How many bytes `size` means: `80GB`, `80 GiB`, or a number of bytes; text needs its unit."""
    return _parse(size, _BYTE_UNITS, "a size in bytes", "80GB or 80GiB")
