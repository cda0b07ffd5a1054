"""The terminal's answers."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memory_budget import Setup, Transformer, cli, predict
from memory_budget.palette import CLASS_KEYS

SEVEN = ["--params", "7e9", "--recipe", "mixed", "--optimizer", "adamw", "--gpu", "80GB"]


def answer(*arguments: str) -> str:
    out = io.StringIO()
    assert cli.main(arguments, out) == 0
    return out.getvalue()


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments, io.StringIO())
    assert stop.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_the_answer_has_bars_the_sum_the_peak_and_what_would_make_it_fit() -> None:
    text = answer(*SEVEN)
    assert "7B x 16 bytes = 112 GB, short by 32 GB on 80 GB" in text
    assert "WWW weights 14 GB" in text
    assert "peak: 112 GB, before step" in text
    assert "what would make it fit:" in text
    assert "ZeRO-3 over 2 such GPUs: 56 GB" in text
    assert "\x1b" not in text


def test_json_is_what_the_model_predicts() -> None:
    found = json.loads(answer(*SEVEN, "--json"))
    result = predict(Setup(parameters="7B"))
    assert found["bytes"] == result.bytes
    assert tuple(found["bytes"]) == CLASS_KEYS
    assert found["moments"] == result.moments
    assert (found["total_bytes"], found["peak_bytes"]) == (112_000_000_000, 112_000_000_000)
    assert found["bytes_per_trainable"] == 16.0
    assert (found["fits"], found["short_by_bytes"]) == (False, 32_000_000_000)
    assert found["ways_to_fit"][0]["peak_bytes"] <= 80_000_000_000


@pytest.mark.parametrize("size", ["7B", "7e9", "7_000_000_000", "7 billion"])
def test_sizes_are_read_as_people_write_them(size: str) -> None:
    assert json.loads(answer("--params", size, "--json"))["total_bytes"] == 112_000_000_000
    gib = json.loads(answer("--params", size, "--gpu", "80GiB", "--json"))
    assert gib["device_bytes"] == 80 * 2**30


def test_an_adapter_on_an_nf4_base_can_be_asked_for() -> None:
    arguments = ["--model", "llama-3-8b", "--lora-rank", "16", "--lora-targets", "attention,mlp",
                 "--base", "nf4", "--batch", "1", "--sequence", "2048", "--checkpointing", "full",
                 "--json"]  # fmt: skip
    found = json.loads(answer(*arguments))
    expected = predict(
        Setup(model="llama-3-8b", lora_rank=16, lora_targets="attention,mlp", base="nf4", batch=1,
              sequence=2048, checkpointing="full")
    )  # fmt: skip
    assert found["moments"] == expected.moments
    assert found["trainable"] == 41_943_040


def test_every_choice_of_a_setup_has_an_option() -> None:
    arguments = ["--model", "gpt2", "--recipe", "autocast", "--optimizer", "amsgrad", "--last-layers", "2",
                 "--base", "fp32", "--implementation", "fused", "--batch", "2", "--sequence", "128",
                 "--accumulation", "3", "--keep-gradients", "--attention", "scores",
                 "--checkpointing", "selective", "--first-step", "--zero", "1", "--gpus", "2",
                 "--offload", "optimizer", "--device", "cpu"]  # fmt: skip
    setup = cli.setup_from(cli.parser().parse_args(arguments))
    assert setup == Setup(
        model=setup.model, recipe="autocast", optimizer="amsgrad", last_layers=2, base="fp32",
        lora_targets="q_proj,v_proj", implementation="fused", batch=2, sequence=128, accumulation=3,
        set_to_none=False, attention="scores", checkpointing="selective", first_step=True, zero=1, gpus=2,
        offload="optimizer", device="cpu",
    )  # fmt: skip
    more = ["--params", "7B", "--trainable", "1%", "--adapter-precision", "recipe", "--optimizer-in-backward"]
    setup = cli.setup_from(cli.parser().parse_args(more))
    assert (setup.trainable, setup.adapter_precision, setup.optimizer_in_backward) == (0.01, "recipe", True)


@pytest.mark.parametrize(("text", "count"), [("1%", 70_000_000), ("0.01", 70_000_000), ("4M", 4_000_000)])
def test_the_trainable_part_is_a_share_or_a_count(text: str, count: int) -> None:
    assert json.loads(answer("--params", "7B", "--trainable", text, "--json"))["trainable"] == count


def test_a_config_from_disk_is_read(tmp_path: Path) -> None:
    config = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
              "vocab_size": 50257}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = json.loads(answer("--config", str(tmp_path), "--json"))
    assert found["trainable"] == 124_439_808


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--params", "7B", "--optimizer", "adamw-8bit", "--trainable", "0"], "no parameter to train"),
        (["--model", "llama-3-8b", "--lora-rank", "9999"], "choose 1 to 4096"),
        (["--params", "7B", "--zero", "3"], "2 or more GPUs: gpus is 1"),
        (["--model", "gpt-5"], "unknown model 'gpt-5': choose from small-gpt"),
        (["--params", "many"], "must look like 7B, 7e9 or 124M, not 'many'"),
        (["--params", "7B", "--gpu", "80"], "80GB or 80GiB"),
        (["--params", "7B", "--batch", "two"], "invalid int value: 'two'"),
        (["--params", "7B", "--gpus", "-1"], "gpus must be a whole number of 1 or more, not -1"),
        (["--params", "7B", "--colour"], "unrecognized arguments: --colour"),
        (["--config", "nowhere/config.json"], "cannot read nowhere"),
        ([], "give one of --params 7B"),
        (["--params", "7B", "--model", "gpt2"], "give one of --params 7B"),
    ],
)
def test_what_is_impossible_gets_one_line_and_status_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refusal(capsys, *arguments)


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colour_comes_in_a_terminal_only_and_no_color_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert cli.wants_colour(Terminal())
    assert not cli.wants_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not cli.wants_colour(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not cli.wants_colour(Terminal())


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_bars_keep_to_the_width_of_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    bars = [line for line in answer(*SEVEN).splitlines() if line.startswith(("after", "before", "inside"))]
    assert max(map(len, bars)) <= int(columns)


def test_it_runs_as_a_module_without_torch() -> None:
    code = "import sys; from memory_budget.cli import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code, "--model", "gpt2", "--batch", "1"],
        capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "80"},
    )  # fmt: skip
    assert run.stdout.splitlines()[-1] == "False"
    module = [sys.executable, "-m", "memory_budget", *SEVEN]
    assert "short by 32 GB" in subprocess.run(module, capture_output=True, text=True, check=True).stdout
    wrong = subprocess.run([*module[:3], "--params", "x"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)


def test_a_dry_run_asks_measure_for_the_setup_and_prints_what_it_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, Any] = {}

    def dry_run(model: Transformer, **choices: Any) -> SimpleNamespace:
        asked.update(choices, model=model.name)
        return SimpleNamespace(bytes={"weights": 1}, moments={}, peak_bytes=1, peak_moment="inside step")

    monkeypatch.setitem(sys.modules, "memory_budget.measure", SimpleNamespace(dry_run=dry_run))
    monkeypatch.setattr("memory_budget.measure", sys.modules["memory_budget.measure"], raising=False)
    found = json.loads(answer("--model", "llama-3-70b", "--lora-rank", "8", "--dry-run", "--json"))
    assert found == {"bytes": {"weights": 1}, "moments": {}, "peak_bytes": 1, "peak_moment": "inside step"}
    assert (asked["model"], asked["batch"], asked["lora_rank"]) == ("llama-3-70b", 1, 8)
    assert asked["lora_targets"] == ("q_proj", "v_proj")


def test_a_dry_run_needs_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--dry-run needs the model's shapes" in refusal(capsys, "--params", "7B", "--dry-run")
