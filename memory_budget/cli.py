"""The memory budget in a terminal: `python -m memory_budget --params 7e9 --gpu 80GB`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

from memory_budget import adapters, advice, terminal
from memory_budget.architectures import ARCHITECTURES, Transformer, architecture
from memory_budget.budget import Budget, Setup, predict
from memory_budget.optimizers import OPTIMIZERS
from memory_budget.recipes import RECIPES
from memory_budget.units import bytes_text, count_text, parse_bytes, parse_count

EXAMPLES = """examples:
  python -m memory_budget --params 7e9 --recipe mixed --optimizer adamw --gpu 80GB
  python -m memory_budget --model llama-3-8b --lora-rank 16 --base nf4 --batch 1 --sequence 2048 --gpu 24GB
  python -m memory_budget --model llama-3-70b --zero 3 --gpus 64 --batch 1 --checkpointing full --json
GB is 10^9 bytes, GiB is 2^30. Without --batch, activations are not counted."""


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, with exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and stop."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def parser() -> argparse.ArgumentParser:
    """The command line's options; every choice of `Setup` has one."""
    made = OneLineParser(
        prog="python -m memory_budget",
        description="How many bytes does a training set-up take, when is the peak, and does it fit?",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_model(made.add_argument_group("the model"))
    _add_training(made.add_argument_group("how it is trained"))
    _add_step(made.add_argument_group("what a step does"))
    _add_output(made.add_argument_group("where it runs and what is printed"))
    return made


def _add_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--params", metavar="N", help="number of parameters: 7B, 7e9, 124M")
    group.add_argument("--model", metavar="NAME", help=f"one of {', '.join(ARCHITECTURES)}")
    group.add_argument("--config", metavar="PATH", help="a Hugging Face config.json on disk")


def _add_training(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--recipe", default="mixed", metavar="NAME", help=f"one of {', '.join(RECIPES)}")
    group.add_argument("--optimizer", default="adamw", metavar="NAME",
                       help=f"one of {', '.join(OPTIMIZERS)}")  # fmt: skip
    group.add_argument("--trainable", default="all", metavar="PART",
                       help="all, a share (1%%) or a count (4M)")  # fmt: skip
    group.add_argument("--last-layers", type=int, metavar="N", help="train the last N layers only")
    group.add_argument("--lora-rank", type=int, metavar="R", help="train a LoRA adapter of this rank")
    group.add_argument("--lora-targets", metavar="NAMES", default=",".join(adapters.DEFAULT_TARGETS),
                       help="its matrices: q_proj,v_proj or attention, mlp, all-linear")  # fmt: skip
    group.add_argument("--adapter-precision", default="fp32", metavar="P",
                       help="fp32, as PEFT keeps it, or recipe")  # fmt: skip
    group.add_argument("--base", metavar="P", help=f"frozen weights: one of {', '.join(adapters.BASES)}")
    group.add_argument("--optimizer-in-backward", action="store_true",
                       help="update each tensor as soon as its gradient is there")  # fmt: skip
    group.add_argument("--implementation", metavar="HOW", help="Adam's step: foreach, for-loop or fused")


def _add_step(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--batch", type=int, default=0, metavar="N",
                       help="sequences in one micro-batch on one GPU")  # fmt: skip
    group.add_argument("--sequence", type=int, metavar="N", help="tokens in a sequence (512)")
    group.add_argument("--accumulation", type=int, default=1, metavar="N", help="micro-batches a step")
    group.add_argument("--keep-gradients", action="store_true", help="zero_grad(set_to_none=False)")
    group.add_argument("--attention", default="sdpa", metavar="A", help="sdpa, or scores (kept)")
    group.add_argument("--checkpointing", default="none", metavar="C", help="none, selective or full")
    group.add_argument("--first-step", action="store_true",
                       help="the first step, before optimizer state exists")  # fmt: skip


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--gpu", metavar="SIZE", help="memory of the device: 80GB or 80GiB")
    group.add_argument("--gpus", type=int, default=1, metavar="N", help="how many GPUs share the work")
    group.add_argument("--zero", type=int, default=0, metavar="STAGE", help="ZeRO stage 0 to 3")
    group.add_argument("--offload", default="", metavar="PARTS",
                       help="moved to RAM: optimizer,gradients,weights")  # fmt: skip
    group.add_argument("--device", default="cuda", metavar="KIND", help="cuda, mps or cpu")
    group.add_argument("--json", action="store_true", help="print one JSON object")
    group.add_argument("--dry-run", action="store_true", help="run one step with fake tensors and count it")


def _trainable(text: str) -> str | float | int:
    """`all`, a share such as 1% or 0.01 (below 1), or a count such as 4M."""
    if text == "all":
        return text
    try:
        if text.endswith("%"):
            return float(text[:-1]) / 100
        if "." in text and 0 <= float(text) <= 1:
            return float(text)
    except ValueError:
        pass
    return parse_count(text)


def _model(options: argparse.Namespace) -> Transformer | Any | None:
    given = [name for name in ("params", "model", "config") if getattr(options, name) is not None]
    if len(given) != 1:
        raise ValueError("give one of --params 7B, --model llama-2-7b or --config path/to/config.json")
    if options.config is not None:
        return Transformer.from_config(options.config)
    return None if options.model is None else architecture(options.model)


def setup_from(options: argparse.Namespace) -> Setup:
    """The set-up that the options describe; ValueError for the first thing that is wrong."""
    same = ("recipe", "optimizer", "last_layers", "lora_rank", "lora_targets", "adapter_precision", "base",
            "optimizer_in_backward", "implementation", "batch", "accumulation", "attention", "checkpointing",
            "first_step", "gpus", "zero", "offload", "device")  # fmt: skip
    return Setup(
        model=_model(options),
        parameters=None if options.params is None else parse_count(options.params),
        trainable=_trainable(options.trainable),
        sequence=512 if options.sequence is None else options.sequence,
        set_to_none=not options.keep_gradients,
        **{name: getattr(options, name) for name in same},
    )


def as_json(result: Budget, device_bytes: int | None = None) -> dict[str, Any]:
    """The result as plain data: every number of the terminal's text, sizes in bytes."""
    answer: dict[str, Any] = {
        "bytes": result.bytes,
        "moments": result.moments,
        "total_bytes": result.total_bytes,
        "peak_bytes": result.peak_bytes,
        "peak_moment": result.peak_moment,
        "peak_holders": result.peak_holders,
        "bytes_per_trainable": result.bytes_per_trainable,
        "trainable": result.trainable,
        "frozen": result.frozen,
        "host_bytes": result.host_bytes,
    }
    if device_bytes is not None:
        answer["device_bytes"] = device_bytes
        answer["fits"] = result.fits(device_bytes)
        answer["short_by_bytes"] = result.short_by_bytes(device_bytes)
        answer["sentence"] = result.sentence(device_bytes)
        ways = advice.ways_to_fit(result.setup, device_bytes)
        answer["ways_to_fit"] = [{"change": way.words, "peak_bytes": way.peak_bytes} for way in ways]
    return answer


def _headline(result: Budget) -> str:
    setup = result.setup
    what = f"{setup.parameters and count_text(setup.parameters)} parameters"
    if setup.model is not None:
        what = architecture(setup.model).name
    recipe, optimizer = RECIPES[setup.recipe].label, OPTIMIZERS[setup.optimizer].label
    trained = "all" if not result.frozen else count_text(result.trainable)
    sharing = f", ZeRO-{setup.zero} over {setup.gpus} GPUs, each" if setup.zero else ""
    return f"{what}, {trained} trained: {recipe}, {optimizer}{sharing}"


def as_text(result: Budget, device_bytes: int | None, *, width: int, colour: bool) -> str:
    """The answer for a reader: the sum, a bar a moment, what holds the peak, and what would make it fit."""
    alive = result.moments[result.peak_moment]
    lines = [_headline(result), ""]
    lines += terminal.moment_bars(result.moments, width=width, device_bytes=device_bytes, colour=colour)
    lines += ["", *terminal.legend(alive, width=width, colour=colour), ""]
    lines.append(result.sum_in_words if device_bytes is None else result.sentence(device_bytes))
    lines.append(f"peak: {bytes_text(result.peak_bytes)}, {result.peak_moment}")
    if any(result.host_bytes.values()):
        lines.append(f"moved to RAM: {bytes_text(sum(result.host_bytes.values()))}")
    if device_bytes is not None and not result.fits(device_bytes):
        lines += ["what would make it fit:"]
        lines += [f"  {line}" for line in advice.advice_lines(result.setup, device_bytes)]
    if not result.setup.batch:
        lines.append("activations are not counted: give a model, --batch and --sequence")
    return "\n".join(lines)


DRY_RUN_CHOICES = (
    "recipe", "optimizer", "implementation", "batch", "sequence", "lora_rank", "lora_targets", "attention",
    "checkpointing",
)  # fmt: skip


def _dry_run(setup: Setup, out: TextIO, wants_json: bool) -> int:
    """Count a step with fake tensors; torch is loaded only here. ValueError for what cannot be run so."""
    if setup.shape is None:
        raise ValueError(
            "--dry-run needs the model's shapes: give --model llama-3-8b or --config config.json"
        )
    from memory_budget import measure

    choices = {name: getattr(setup, name) for name in DRY_RUN_CHOICES}
    choices |= {"batch": setup.batch or 1, "lora_targets": setup.targets}
    measured = measure.dry_run(setup.shape, **choices)
    if not wants_json:
        print(measured, file=out)
        return 0
    names = ("bytes", "moments", "peak_bytes", "peak_moment")
    print(json.dumps({name: getattr(measured, name) for name in names}), file=out)
    return 0


def wants_colour(out: TextIO) -> bool:
    """Whether the output is a terminal that shows colour; NO_COLOR and TERM=dumb turn it off."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return out.isatty()


def main(arguments: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Run the command line; 0 when it answered, 2 (by SystemExit) for an impossible set-up."""
    out = sys.stdout if out is None else out
    reader = parser()
    options = reader.parse_args(arguments)
    try:
        setup = setup_from(options)
        device_bytes = None if options.gpu is None else parse_bytes(options.gpu)
        if options.dry_run:
            return _dry_run(setup, out, options.json)
        result = predict(setup)
    except ValueError as error:
        reader.error(str(error))
    if options.json:
        print(json.dumps(as_json(result, device_bytes)), file=out)
    else:
        width = shutil.get_terminal_size().columns
        print(as_text(result, device_bytes, width=width, colour=wants_colour(out)), file=out)
    return 0
