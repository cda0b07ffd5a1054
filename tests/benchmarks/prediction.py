"""How long does a prediction take, and how long the import? `python tests/benchmarks/prediction.py`

A slider calls the model on every move, so a prediction should take less than a millisecond. The first one
of a new kind of run (another recipe, adapter or checkpointing, with activations) runs a few layers on a tape
and is told apart. Importing is timed in fresh processes with compiled files. All times are CPU time."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from memory_budget import Setup, predict

SETUPS: dict[str, dict] = {
    "7B by number": dict(parameters="7B"),
    "7B by number, ZeRO-3": dict(parameters="7B", zero=3, gpus=8),
    "llama-3-70b, states": dict(model="llama-3-70b"),
    "llama-3-70b, LoRA on NF4, states": dict(model="llama-3-70b", lora_rank=16, base="nf4"),
    "gpt2, batch 8": dict(model="gpt2", batch=8, recipe="fp32"),
    "llama-3-8b, batch 1, checkpointing": dict(model="llama-3-8b", batch=1, checkpointing="full"),
    "llama-3-8b, LoRA on NF4, batch 1": dict(model="llama-3-8b", lora_rank=16, base="nf4", batch=1),
}
TIMES = 300


def milliseconds(call: Callable[[], object]) -> float:
    """CPU time of one call."""
    start = time.process_time()
    call()
    return 1000 * (time.process_time() - start)


def moves(choices: dict) -> tuple[float, float]:
    """The first prediction, and the median of many, each with another length or size, as a slider asks."""

    def moved(index: int) -> Callable[[], object]:
        change = {"sequence": 64 + index} if "model" in choices else {"parameters": 7 * 10**9 + index}
        return lambda: predict(Setup(**(choices | change)))

    first = milliseconds(moved(0))
    return first, statistics.median(milliseconds(moved(index)) for index in range(1, TIMES))


def import_milliseconds(statement: str, cache: str) -> float:
    """Median CPU time of a statement in a fresh process that finds compiled files in `cache`."""
    code = (
        f"import time; start = time.process_time(); {statement}; print(1000 * (time.process_time() - start))"
    )
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-X", f"pycache_prefix={cache}", "-c", code]
    runs = [
        float(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout)
        for _ in range(8)
    ]
    return statistics.median(runs[1:])


def main() -> None:
    """Print both tables."""
    print(f"{'prediction':<36}{'first, ms':>12}{'then, ms':>12}")
    for name, choices in SETUPS.items():
        first, then = moves(choices)
        print(f"{name:<36}{first:>12.2f}{then:>12.3f}")
    with tempfile.TemporaryDirectory() as cache:
        print(f"\nimport memory_budget: {import_milliseconds('import memory_budget', cache):.1f} ms")
        print(f"of which dataclasses:  {import_milliseconds('import dataclasses', cache):.1f} ms")


if __name__ == "__main__":
    main()
