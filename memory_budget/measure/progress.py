"""Shows how far a long count is, where tqdm is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(total: int, shown: bool = True) -> Iterator[Callable[[], None]]:
    """Open a bar of `total` ticks and give the function that ticks; nothing is shown without tqdm."""
    if not shown:
        yield lambda: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda: None
        return
    with tqdm(total=total, desc="dry run", unit="layer", leave=False) as bar:
        yield lambda: bar.update(1) and None
