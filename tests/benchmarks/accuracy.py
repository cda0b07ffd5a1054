"""How far is the prediction from a real step? Measures steps on the CPU and writes the README's table.

python tests/benchmarks/accuracy.py            every case, a table on the terminal and in the README
python tests/benchmarks/accuracy.py --apart    each case in a process of its own
python tests/benchmarks/accuracy.py --check    the README's table is compared, not written
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from memory_budget.architectures import Transformer
from memory_budget.measure import Case, Measurement
from memory_budget.palette import STATE_KEYS
from memory_budget.units import bytes_text

README = Path(__file__).parents[2] / "memory_budget" / "README.md"
BEGIN, END = "<!-- accuracy table: begin -->", "<!-- accuracy table: end -->"
HEADS = (
    "model", "trained", "recipe", "optimizer", "recomputed", "batch x sequence", "predicted peak",
    "measured peak", "difference", "states", "when",
)  # fmt: skip


def gpt(name: str, vocabulary: int, hidden: int, layers: int, heads: int) -> Transformer:
    """A GPT-2 of other dimensions."""
    return Transformer(
        name=name, family="gpt2", vocabulary=vocabulary, hidden=hidden, layers=layers, heads=heads,
        kv_heads=heads, head_size=hidden // heads, ffn=4 * hidden, context=512, attention_bias=True,
        output_bias=True, mlp_bias=True,
    )  # fmt: skip


def llama(
    name: str, vocabulary: int, hidden: int, layers: int, heads: int, kv: int, **more: Any
) -> Transformer:
    """A Llama of other dimensions."""
    fields = {"family": "llama", "tied": False, **more}
    return Transformer(
        name=name, vocabulary=vocabulary, hidden=hidden, layers=layers, heads=heads, kv_heads=kv,
        head_size=hidden // heads, ffn=hidden * 11 // 4, gated=True, norm="rmsnorm", **fields,
    )  # fmt: skip


SMALL = "small-gpt"
DEEP = gpt("deep-gpt (16 layers)", 2048, 128, 16, 4)
WORDY = gpt("wordy-gpt (50k words)", 50257, 128, 2, 4)
LLAMA = llama("small-llama", 4096, 256, 6, 8, 2)
TIED = llama("tied-llama (32k words)", 32000, 192, 4, 6, 3, tied=True)
QWEN = llama("small-qwen", 8192, 256, 4, 4, 2, family="qwen2", tied=True, attention_bias=True)


def case(model: str | Transformer, batch: int, sequence: int, recipe: str = "fp32", **more: Any) -> Case:
    """A case, with what is not the model's own taken as a setting of the step."""
    own = {name: more.pop(name) for name in list(more) if name in ("attention", "checkpointing", "lora_rank")}
    own |= {"lora_targets": more.pop("targets")} if "targets" in more else {}
    settings = {"batch": batch, "sequence": sequence, "recipe": recipe, **more}
    return Case(model=model, settings=settings, **own)


CASES = (
    case(SMALL, 1, 8),
    case(SMALL, 4, 64),
    case(SMALL, 8, 256),
    case(SMALL, 1, 8, "mixed"),
    case(SMALL, 4, 128, "mixed"),
    case(SMALL, 1, 8, "no-master"),
    case(SMALL, 4, 128, "pure-bf16"),
    case(SMALL, 1, 8, "autocast"),
    case(SMALL, 4, 128, "autocast"),
    case(SMALL, 1, 8, "autocast-accumulate"),
    case(SMALL, 2, 64, micro_batches=4),
    case(SMALL, 2, 64, "pure-bf16", set_to_none=False),
    case(SMALL, 1, 16, optimizer="sgd"),
    case(SMALL, 1, 16, optimizer="momentum"),
    case(SMALL, 1, 16, optimizer="amsgrad"),
    case(SMALL, 1, 16, optimizer="adafactor"),
    case(SMALL, 1, 16, optimizer="lion"),
    case(SMALL, 1, 16, optimizer="muon"),
    case(SMALL, 1, 16, implementation="foreach"),
    case(SMALL, 1, 16, implementation="fused"),
    case(SMALL, 4, 256, attention="scores"),
    case(SMALL, 4, 256, attention="scores", checkpointing="selective"),
    case(SMALL, 4, 256, checkpointing="full"),
    case(SMALL, 4, 64, lora_rank=8),
    case(SMALL, 4, 64, "mixed", lora_rank=8, targets="all-linear"),
    case(SMALL, 4, 64, "autocast", lora_rank=4, targets="all-linear"),
    case(SMALL, 8, 128, lora_rank=8, checkpointing="full"),
    case(DEEP, 4, 128),
    case(DEEP, 4, 128, checkpointing="full"),
    case(DEEP, 4, 128, "autocast", checkpointing="full"),
    case(WORDY, 2, 64),
    case(WORDY, 2, 64, "autocast"),
    case(WORDY, 2, 64, "pure-bf16", optimizer="momentum"),
    case(LLAMA, 2, 128),
    case(LLAMA, 2, 128, "pure-bf16"),
    case(LLAMA, 2, 128, "mixed", checkpointing="full"),
    case(LLAMA, 2, 128, "autocast", attention="scores"),
    case(LLAMA, 2, 128, "pure-bf16", attention="scores", checkpointing="selective"),
    case(LLAMA, 2, 128, "mixed", lora_rank=16, targets="all-linear"),
    case(LLAMA, 2, 128, "autocast", lora_rank=16, targets="attention"),
    case(TIED, 2, 64),
    case(TIED, 2, 64, "autocast-accumulate"),
    case(QWEN, 2, 128, "no-master"),
    case(QWEN, 2, 128, optimizer="adafactor", checkpointing="full"),
    case("gpt2", 1, 128),
    case("gpt2", 2, 256, "pure-bf16", lora_rank=16, targets="all-linear"),
)  # fmt: skip


def states_percent(measured: Measurement) -> float:
    """Worst difference in per cent of weights, gradients and optimizer state, outside of the two passes."""
    worst = 0.0
    for moment in ("after loading", "before step", "inside step", "after step"):
        held, told = measured.moments[moment], measured.predicted.moments[moment]
        for key in STATE_KEYS:
            if held[key] or told[key]:
                worst = max(worst, abs(told[key] - held[key]) / max(held[key], 1) * 100, key=abs)
    return worst


def row(case: Case, measured: Measurement) -> tuple[str, ...]:
    """One line of the table."""
    settings = case.settings
    trained = "all" if case.lora_rank is None else f"LoRA {case.lora_rank}, {case.lora_targets or 'c_attn'}"
    optimizer = settings.get("optimizer", "adamw")
    more = [
        settings.get("implementation"),
        "gradients kept" if settings.get("set_to_none") is False else None,
    ]
    recomputed = case.checkpointing if case.attention == "sdpa" else f"{case.checkpointing}, scores kept"
    size = f"{settings['batch']} x {settings['sequence']}"
    size += f", {settings['micro_batches']} times" if "micro_batches" in settings else ""
    return (
        case.model if isinstance(case.model, str) else case.model.name,
        trained,
        settings["recipe"],
        ", ".join([optimizer, *filter(None, more)]),
        recomputed,
        size,
        bytes_text(measured.predicted.peak_bytes),
        bytes_text(measured.peak_bytes),
        percent(measured.difference_percent),
        percent(states_percent(measured)),
        measured.peak_moment,
    )


def percent(value: float) -> str:
    """Per cent with three decimals, and no sign before a zero."""
    return f"{round(value, 3) + 0:.3f}%"


def by_class(measured: Measurement) -> str:
    """Predicted, measured and difference of each class, in one line for the terminal."""
    told = measured.predicted.moments[measured.peak_moment]
    off = measured.differences_percent
    parts = (
        f"{name} {bytes_text(told[name])} / {bytes_text(held)} ({percent(off[name])})"
        for name, held in measured.bytes.items()
        if held
    )
    return "; ".join(parts)


def measure_all(cases: Sequence[Case], apart: bool) -> Iterator[tuple[Case, Measurement]]:
    """Measure one case after the other, saying how far it is."""
    for number, each in enumerate(cases, 1):
        measured = each.measure_apart() if apart else each.measure()
        print(f"[{number}/{len(cases)}] " + " | ".join(row(each, measured)))
        print("        " + by_class(measured), flush=True)
        yield each, measured


def table(results: Sequence[tuple[Case, Measurement]]) -> str:
    """The results as Markdown, with a sentence on the worst."""
    lines = [HEADS, ("---",) * len(HEADS), *(row(*result) for result in results)]
    worst = max(abs(measured.difference_percent) for _, measured in results)
    states = max(states_percent(measured) for _, measured in results)
    words = (
        f"{len(results)} steps of the course's own GPT and Llama on the CPU, counted by torch's MemTracker: "
        f"the predicted peak is at most {percent(worst)} off, states at most {percent(states)}. The tape in "
        "`tape.py` follows these two modules operation by operation. A model that is written otherwise "
        "(dropout, a GELU spelt out) keeps other activations; measure it or count it with a dry run."
    )
    return "\n".join([words, "", *("| " + " | ".join(line) + " |" for line in lines)])


def put(text: str, made: str) -> str:
    """The README with the table in its place."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}"


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--apart", action="store_true", help="a process of its own for each case")
    reader.add_argument("--check", action="store_true", help="compare the README's table with the new one")
    options = reader.parse_args()
    results = list(measure_all(CASES, options.apart))
    before = README.read_text(encoding="utf-8")
    after = put(before, table(results))
    print(table(results).splitlines()[0])
    if options.check:
        if before != after:
            print("the README's table is not what was measured: run without --check")
        return int(before != after)
    README.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
