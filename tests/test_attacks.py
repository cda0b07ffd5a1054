"""Each known way to cheat a notebook grader, on lesson 6: nothing gained, nothing left behind, the rest still graded."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import lesson_six
import nbformat
import psutil
import pytest

from autograder.course import course
from autograder.grading import sandbox

ATTACKS = json.loads((Path(__file__).parent / "data" / "attacks.json").read_text(encoding="utf-8"))
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(bool(sandbox.why_no_sandbox()), reason=sandbox.why_no_sandbox() or ""),
]


@pytest.fixture
def trap(tmp_path, monkeypatch) -> Path:
    """A course as the attacks expect it, three folders above the grader's own: none of it may change."""
    for name in ("gradebook.db", "source/lesson-06/gradients-and-optimizer-state.ipynb", "a/b/c/numpy.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("BEGIN SOLUTION\ntrainable * 16 / 1e9\nEND SOLUTION\n")
    monkeypatch.chdir(tmp_path / "a" / "b" / "c")
    monkeypatch.setenv("SECRET_OF_THE_GRADER", "s3cret-value")
    return tmp_path


def footprint(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def left_over() -> list[str]:
    """Processes of ours that still run."""
    return [p.name() for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("attack", ATTACKS, ids=[f"{a['id']} {a['title']}" for a in ATTACKS])
def test_attack_earns_nothing_and_leaves_nothing(attack, trap):
    before, running = footprint(trap), left_over()
    notebook = lesson_six.submission({**lesson_six.RIGHT, "training_gb": attack["cell"]})
    started = time.monotonic()

    result = lesson_six.grade(notebook)

    assert time.monotonic() - started < 60
    expected = {"weights_7b_gb": 1.0, "cards_needed": 1.0}
    if attack["earns"]:
        expected["training_gb"] = 1.0
    if attack["rest"]:
        assert lesson_six.earned(result) == expected
    else:  # it turned its own worker against itself, and may lose what that worker should have answered
        assert lesson_six.earned(result).items() <= expected.items()
    assert left_over() == running
    assert footprint(trap) == before
    if attack["flag"]:
        assert lesson_six.kinds(result) & set(attack["flag"]), result["incidents"]
    shown = json.dumps(result["cells"])
    # what a cell printed, not its source
    printed = json.dumps([cell["outputs"] for cell in result["cells"]])
    assert "s3cret-value" not in printed
    for sign in (
        "NET UP",
        "WRITTEN",
        "SHADOWED",
        "FOUND ['",
        "FOUND [<",
        "UNSHARE 0",
        "MOUNT 0",
        "CHROOT 0",
        "<script",
    ):
        assert sign not in printed
    assert len(shown) < 5_000_000


def test_every_attack_has_a_name_of_its_own():
    assert len({attack["id"] for attack in ATTACKS}) == len(ATTACKS)


def test_a_failed_attack_says_what_would_have_been_right_nowhere():
    """The attacker learns nothing: no reply, card or output holds a right value that was not asked about."""
    notebook = lesson_six.submission({"training_gb": "def training_gb(trainable):\n    return 0\n"})
    result = lesson_six.grade(notebook)
    assert "112" not in result["verdicts"]["training_gb"]["text"]


def test_the_detached_process_is_gone_before_it_wakes(tmp_path):
    marker = tmp_path / "woke"
    cell = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1); open({str(marker)!r}, \"w\")'],"
        " start_new_session=True)\ndef training_gb(trainable):\n    return 0\n"
    )
    lesson_six.grade(lesson_six.submission({"training_gb": cell}))
    time.sleep(1.5)
    assert not marker.exists()


def test_the_seed_decides_the_inputs_and_is_kept():
    notebook = lesson_six.submission({"training_gb": "def training_gb(trainable):\n    return 0\n"})
    asked = [lesson_six.grade(notebook, seed=seed)["asked"]["training_gb"] for seed in (1, 1, 2)]
    assert asked[0] == asked[1] != asked[2]


def test_another_student_gets_other_inputs_from_the_same_seed():
    notebook = lesson_six.submission({"training_gb": "def training_gb(trainable):\n    return 0\n"})
    first, second = (lesson_six.grade(notebook, student=name)["asked"]["training_gb"] for name in ("a", "b"))
    assert first != second


def test_the_worker_sees_no_path_of_this_machine():
    cell = "import sys, os\nprint(sys.path, sys.prefix, os.getcwd(), __import__('memory_budget').__file__)\n"
    result = lesson_six.grade(lesson_six.submission({"training_gb": cell}))
    printed = json.dumps([cell["outputs"] for cell in result["cells"]])
    assert "/library" in printed
    assert str(course().root) not in printed
    assert str(Path(os.path.expanduser("~"))) not in printed or Path.home() == Path("/root")


def with_cell(answers: dict[str, str], source: str, *, first: bool = False):
    """A submission with one more code cell, at the end or above all others."""
    notebook = lesson_six.submission(answers)
    notebook.cells.insert(0 if first else len(notebook.cells), nbformat.v4.new_code_cell(source))
    return notebook


BOTH = {"weights_7b_gb": 1.0, "cards_needed": 1.0}


@pytest.mark.parametrize(
    "later",
    [
        "weights_7b_gb = 0\nfor cards_needed in range(3): pass",
        "%reset -f",
        "del weights_7b_gb, cards_needed",
        "import os\nweights_7b_gb = 1\nos._exit(3)",
    ],
)
def test_a_later_cell_that_uses_a_name_anew_costs_nothing(later):
    assert lesson_six.earned(lesson_six.grade(with_cell(lesson_six.RIGHT, later))) == BOTH


def test_an_answer_given_below_its_check_counts_too():
    late = {"weights_7b_gb": "weights_7b_gb = 0", "cards_needed": lesson_six.RIGHT["cards_needed"]}
    assert lesson_six.earned(lesson_six.grade(with_cell(late, "weights_7b_gb = 14"))) == BOTH


def test_answers_in_one_cell_above_are_not_undone_by_the_empty_ones():
    notebook = with_cell({}, "\n".join(lesson_six.RIGHT.values()), first=True)
    result = lesson_six.grade(notebook)
    assert lesson_six.earned(result) == BOTH
    assert json.dumps(lesson_six.grade(notebook)["verdicts"]) == json.dumps(result["verdicts"])


def test_all_that_a_notebook_shows_has_a_budget():
    notebook = with_cell(lesson_six.RIGHT, "print('x' * 5_000)")
    notebook.cells.append(nbformat.v4.new_code_cell("print('y' * 100)"))
    result = lesson_six.grade(notebook, limits={"shown_bytes": 2_000})
    shown = json.dumps([cell["outputs"] for cell in result["cells"]])
    assert "left out" in shown
    assert "xxx" not in shown
    assert "yyy" in shown
    assert lesson_six.earned(result) == BOTH


def test_a_long_reply_is_not_kept():
    long = {**lesson_six.RIGHT, "training_gb": "def training_gb(trainable):\n    return [1.5] * 2_000"}
    result = lesson_six.grade(lesson_six.submission(long))
    assert "longer than" in json.dumps(result["asked"]["training_gb"])
    assert len(json.dumps(result["asked"])) < 100_000
