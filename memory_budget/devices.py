"""What memory do real devices have, and does a job fit, in words?"""

from __future__ import annotations

from dataclasses import dataclass

from memory_budget.units import GB, bytes_text


@dataclass(frozen=True, kw_only=True)
class Device:
    """A size of memory that is sold, with examples; makers print GB and mostly mean GiB, we count GB."""

    label: str
    bytes: int
    examples: str


DEVICES: tuple[Device, ...] = (
    Device(label="8 GB", bytes=8 * GB, examples="laptop GPU, RTX 4060"),
    Device(label="16 GB", bytes=16 * GB, examples="T4, V100, RTX 4080"),
    Device(label="24 GB", bytes=24 * GB, examples="RTX 3090 and 4090, L4, A10"),
    Device(label="48 GB", bytes=48 * GB, examples="A40, L40S, RTX 6000 Ada"),
    Device(label="80 GB", bytes=80 * GB, examples="A100, H100"),
    Device(label="141 GB", bytes=141 * GB, examples="H200"),
    Device(label="192 GB", bytes=192 * GB, examples="B200, MI300X"),
)


def short_by_bytes(total_bytes: int, device_bytes: int) -> int:
    """How many bytes are missing on the device; 0 when the job fits."""
    return max(0, total_bytes - device_bytes)


def fit_words(total_bytes: int, device_bytes: int) -> str:
    """The verdict in words: `fits on 80 GB` or `short by 32 GB on 80 GB`."""
    short = short_by_bytes(total_bytes, device_bytes)
    on = f"on {bytes_text(device_bytes)}"
    return f"short by {bytes_text(short)} {on}" if short else f"fits {on}"


def smallest_that_holds(total_bytes: int) -> Device | None:
    """The smallest device of the list that holds `total_bytes`, or None."""
    return next((device for device in DEVICES if device.bytes >= total_bytes), None)
