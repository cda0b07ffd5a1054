"""Shows how far a long count is: a bar under the notebook's cell, or tqdm's in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(total: int, shown: bool = True) -> Iterator[Callable[[], None]]:
    """Open a bar of `total` ticks and give the function that ticks; it is gone when the count is done.

    In a terminal nothing is shown without tqdm. A notebook's bar is not tqdm's: that writes to stderr, which
    JupyterLab leaves behind as a red strip.
    """
    bar = _notebook_bar if _in_notebook() else _terminal_bar
    with bar(total) if shown else _no_bar() as tick:
        yield tick


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")


@contextmanager
def _no_bar() -> Iterator[Callable[[], None]]:
    yield lambda: None


@contextmanager
def _terminal_bar(total: int) -> Iterator[Callable[[], None]]:
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda: None
        return
    with tqdm(total=total, desc="dry run", unit="layer", leave=False) as bar:
        yield lambda: bar.update(1) and None


@contextmanager
def _notebook_bar(total: int) -> Iterator[Callable[[], None]]:
    from IPython.display import display

    done = 0
    gone = {
        "text/html": "",
        "text/plain": "",
    }  # first and last, so that a replay without updates sees the same
    shown = display(gone, raw=True, display_id=True)

    def tick() -> None:
        nonlocal done
        done += 1
        shown.update(_bar_html(done, total), raw=True)

    try:
        yield tick
    finally:
        shown.update(gone, raw=True)


def _bar_html(done: int, total: int) -> dict[str, str]:
    words = f"dry run: {done} of {total} layer passes"
    bar = f'<progress max="{total}" value="{done}" aria-label="{words}"></progress>'
    return {"text/html": f"<div>{bar} {words}</div>", "text/plain": words}
