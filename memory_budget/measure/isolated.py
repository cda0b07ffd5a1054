"""Runs a measured step in a process of its own, where nothing that ran before can be counted with it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

Result = TypeVar("Result")


def in_own_process(function: Callable[..., Result], *arguments: Any, **settings: Any) -> Result:
    """Call a function of a module in a fresh process and give back what it returns.

    Needed on a GPU, where the allocator keeps what an earlier step took. The function and its arguments must
    be importable there (a module's function, not one typed in a notebook). What the function raises is raised
    here; RuntimeError when the process died, which running out of memory does to it."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(function, *arguments, **settings).result()
        except BrokenProcessPool:
            raise RuntimeError("the measuring process died: memory may have run out") from None
