"""Which values can be drawn, and how are they written beside an axis?"""

import math
from typing import Any

from memory_budget.units import number_text


def finite(value: Any) -> bool:
    """Whether a value is a plain number that can be drawn."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def plain(value: float) -> str:
    """A small number as people write it: 0.03, 1e-4."""
    return number_text(value) if value >= 0.001 else f"{value:.0e}".replace("e-0", "e-")
