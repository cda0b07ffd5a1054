"""Runs one piece of student code for a limited time, in a notebook's own process, on every system."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

STACK_BYTES = 64 * 1024 * 1024
NUDGE_S = 0.05
GIVE_UP_S = 1.0


class OutOfTime(BaseException):
    """Raised inside code that ran too long; no `except Exception` takes it for its own."""


def run(work: Callable[[], Any], seconds: float) -> tuple[bool, Any]:
    """Return (finished, result) of `work()`, stopped after `seconds`.

    It runs in a thread, since signals reach only the main thread and do not exist on Windows. A thread busy
    in Python is stopped by an exception; one that sleeps in C code, or catches everything, is left behind (it
    cannot keep the interpreter alive). An interrupt by the learner stops it as well.
    """
    box: dict[str, Any] = {}
    thread = _thread(lambda: box.update(_caught(work)))
    try:
        thread.join(seconds)
    finally:
        if thread.is_alive():
            _stop(thread)
    if "error" in box:
        raise box["error"]
    return "result" in box, box.get("result")


def _caught(work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": work()}
    except OutOfTime:
        return {}
    except BaseException as error:  # handed over to the thread that asked
        return {"error": error}


def _thread(target: Callable[[], Any]) -> threading.Thread:
    """Start a daemon thread with room for deep recursion (other threads of macOS have 0.5 MB)."""
    before = threading.stack_size()
    try:
        threading.stack_size(STACK_BYTES)
    except (ValueError, RuntimeError):
        before = None
    thread = threading.Thread(target=target, daemon=True)
    try:
        thread.start()
    finally:
        if before is not None:
            threading.stack_size(before)
    return thread


def _stop(thread: threading.Thread) -> None:
    """Raise OutOfTime in the thread until it ends, for at most a second."""
    end = time.monotonic() + GIVE_UP_S
    while thread.is_alive() and time.monotonic() < end:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(OutOfTime))
        thread.join(NUDGE_S)
