"""check(): one card for each call, no raw traceback of ours, and nothing that runs for ever."""

import dataclasses
import os
import subprocess
import sys
import threading
import time

import nbformat
import pytest
from nbclient import NotebookClient

import autograder
from autograder import checking, progress, questions, stopwatch, stumbles

SIZE = "weights_7b_gb"


@pytest.fixture(autouse=True)
def _outside_nbgrader(monkeypatch):
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)


def call(source: str, name: object = SIZE) -> None:
    """Run a learner's cell and then check(), as a plain script does."""
    names: dict = {"check": autograder.check, "name": name}
    exec(compile(source + "\ncheck(name)", "<cell>", "exec"), names)


def test_a_right_answer_is_called_right(capsys):
    call(f"{SIZE} = 7e9 * 2 / 1e9")
    assert capsys.readouterr().out.startswith(f"Right · {SIZE} (1 of 1 point)")


def test_an_unanswered_check_does_not_stop_the_notebook(capsys):
    call(f"{SIZE} = None")
    assert "Not answered yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("weights_7b", "Did you mean `weights_7b_gb`"),
        ("WEIGHTS_7B_GB", "There is no question"),
        ("zzz", "Compare it with the lesson"),
        (14, "in quotes"),
        (None, "in quotes"),
        (["weights_7b_gb"], "in quotes"),
    ],
)
def test_a_misspelt_question_gets_one_line(capsys, name, says):
    call(f"{SIZE} = 14", name)
    out = capsys.readouterr().out
    assert says in out
    assert out.count("\n") == 1


@pytest.mark.parametrize("source", [f"{SIZE} = None", f"{SIZE} = 28", f"{SIZE} = '14 GB'", ""])
def test_under_nbgrader_what_is_not_right_is_a_failure_in_few_words(monkeypatch, source):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    with pytest.raises(autograder.CheckFailed) as failure:
        call(source)
    lines = failure.value._render_traceback_()
    assert lines == [str(failure.value)]
    assert "Traceback" not in lines[0]
    assert max(map(len, lines[0].splitlines())) <= 76
    assert failure.value.__suppress_context__


def test_under_nbgrader_a_right_answer_passes(monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    call(f"{SIZE} = 14")
    assert "Right" in capsys.readouterr().out


def test_under_nbgrader_a_text_fails_only_when_it_is_empty(monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    call("one_sentence = 'I am not sure.'", "one_sentence")
    assert "Marked by hand" in capsys.readouterr().out
    with pytest.raises(autograder.CheckFailed):
        call("one_sentence = ' '", "one_sentence")


def test_under_nbgrader_a_misspelt_question_is_a_failure(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    with pytest.raises(autograder.CheckFailed, match="no question"):
        call("", "weights")


def test_progress_follows_the_checks(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MEMORY_BUDGET_PROGRESS", str(tmp_path / "progress.json"))
    call(f"{SIZE} = 28")
    assert progress.right_so_far("lesson-06")[0] == 0
    call(f"{SIZE} = 14")
    call("one_sentence = 'A frozen weight never moves: no gradient.'", "one_sentence")
    assert progress.right_so_far("lesson-06")[0] == 1
    call(f"one_sentence = {questions.find('one_sentence')[1].examples[0]!r}", "one_sentence")
    assert progress.right_so_far("lesson-06")[0] == 2


def test_the_check_of_the_package_stays_a_function():
    assert callable(autograder.check)
    assert autograder.check is checking.check
    with pytest.raises(AttributeError, match="no attribute"):
        _ = autograder.chekc


def test_importing_the_check_is_quick_and_needs_no_torch():
    heavy = {"torch", "numpy", "ipywidgets"}
    program = f"import sys; from autograder import check; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], env={**os.environ}).returncode == 0


# ---------------------------------------------------------------- code that runs too long


def test_work_that_ends_gives_its_result():
    assert stopwatch.run(lambda: 14, 5) == (True, 14)


def test_work_that_raises_raises_here():
    with pytest.raises(ZeroDivisionError):
        stopwatch.run(lambda: 1 / 0, 5)


def endless():
    while True:
        pass


def endless_and_deaf():
    while True:
        try:
            while True:
                pass
        except Exception:
            pass


@pytest.mark.parametrize("work", [endless, endless_and_deaf])
def test_an_endless_loop_is_stopped_and_its_thread_ends(work):
    threads, start = threading.active_count(), time.monotonic()
    assert stopwatch.run(work, 0.2) == (False, None)
    assert time.monotonic() - start < 3
    assert threading.active_count() == threads


def test_what_sleeps_outside_python_is_left_behind():
    start = time.monotonic()
    assert stopwatch.run(lambda: time.sleep(4), 0.1) == (False, None)
    assert time.monotonic() - start < 3


def test_prints_still_show_after_a_function_was_left_behind(capsys):
    question = dataclasses.replace(questions.find("training_gb")[1], timeout_s=0.1)
    verdict = checking.decide(question, {"training_gb": lambda trainable: time.sleep(4)})
    assert verdict.slip == "too slow"
    print("still here")
    assert "still here" in capsys.readouterr().out


def test_deep_recursion_is_an_error_and_no_crash():
    def down(n):
        return down(n + 1)

    with pytest.raises(RecursionError):
        stopwatch.run(lambda: down(0), 20)


def test_a_function_that_never_returns_is_tried_once():
    question = dataclasses.replace(questions.find("training_gb")[1], timeout_s=0.5)
    start = time.monotonic()
    verdict = checking.decide(question, {"training_gb": lambda trainable: endless()})
    assert verdict.slip == "too slow"
    assert time.monotonic() - start < 2 * question.timeout_s


# ---------------------------------------------------------------- in a real kernel


def run_in_kernel(sources: list[str], **environment: str) -> list[list]:
    """Run cells in a fresh kernel and return each cell's outputs."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = NotebookClient(notebook, timeout=60, kernel_name="python3", allow_errors=True)
    client.execute(env={**os.environ, "MEMORY_BUDGET_PROGRESS": "off", **environment})
    return [cell.outputs for cell in notebook.cells]


def test_in_a_kernel_each_check_leaves_one_card_with_html_and_text():
    outputs = run_in_kernel(
        [
            "from autograder import check",
            'check("weights_7b_gb")',
            'weights_7b_gb = 14\ncheck("weights_7b_gb")',
            'def training_gb(trainable):\n    while True: pass\ncheck("training_gb")',
            'def finetune_gb(frozen, trainable):\n    return frozen / 0\ncheck("finetune_gb")',
            'def sgd_step(w, b, dw, db, learning_rate):\n    print("x" * 10**6)\ncheck("sgd_step")',
            'check("weight_7b_gb")',
        ]
    )
    words = ["Not answered yet", "Right", "never ends", "line 2", "prints", "Did you mean"]
    for (output,), word in zip(outputs[1:], words, strict=True):
        assert output.output_type == "display_data"
        assert word in output.data["text/plain"]
        assert 'role="status"' in output.data["text/html"]


def test_in_a_kernel_no_check_judges_what_a_failed_cell_left_standing():
    outputs = run_in_kernel(
        [
            "from autograder import check",
            'why_bf16 = "c"',
            "why_bf16 = c",
            'check("why_bf16")',
            "why_bf16 = {b, c",
            'check("why_bf16")',
            "def training_gb(trainable):\nreturn 1",
            'check("training_gb")',
            "weights_7b_gb = 7e9 * 2 / 10^9",
            'check("weights_7b_gb")',
            'why_bf16 = "c"',
            'check("why_bf16")',
        ]
    )
    said = [" ".join(outputs[i][0].data["text/plain"].split()) for i in (3, 5, 7, 9, 11)]
    assert "NameError: name 'c' is not defined. Does that letter need quotes?" in said[0]
    assert "SyntaxError" in said[1]
    assert "IndentationError" in said[2]
    assert "two stars" in said[3]
    assert all(each.startswith("Not yet") for each in said[:4])
    assert said[4].startswith("Right")


def test_a_cell_that_is_no_python_still_tells_which_names_it_meant_to_set():
    assert stumbles.bound_names("a = (1,\nb: int = 2\ndef c(x:\n  d = 1") == {"a", "b", "c"}
    assert stumbles.bound_names("a, b = 1, 2\nx == 3\ndef c():\n    pass") == {"a", "b", "c"}


def test_in_a_kernel_under_nbgrader_a_failed_check_is_an_error_without_a_stack():
    outputs = run_in_kernel(
        ["from autograder import check", 'weights_7b_gb = 28\ncheck("weights_7b_gb")'],
        NBGRADER_EXECUTION="validate",
    )
    (error,) = outputs[1]
    assert (error.output_type, error.ename) == ("error", "CheckFailed")
    assert len(error.traceback) == 1
    assert "bits does a bf16 number have?" in " ".join(error.traceback[0].split())
    assert "File" not in error.traceback[0]


BLANK_TEXT = [
    ('one_sentence = """\n\n"""', True),
    ('one_sentence = "Nothing moves."', False),
    ('something_else = ""', False),
]


@pytest.mark.parametrize(("source", "told"), BLANK_TEXT)
def test_validate_is_told_of_a_text_left_blank_in_its_own_cell(source, told, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    cells = [nbformat.v4.new_code_cell("from autograder import check"), nbformat.v4.new_code_cell(source)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=60).execute()
    said = [output.text for output in notebook.cells[1].outputs if output.get("name") == "stderr"]
    assert any("Not answered yet" in text for text in said) is told
