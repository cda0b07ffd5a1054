"""Which of a lesson's own cells are run for a submission: never fewer than its answers and pictures need."""

from __future__ import annotations

import lesson_six
import pytest

from autograder.grading.slicing import Step, may_change, names_of, plan, without_displays

SETUP = "import torch\nfrom memory_budget import bars, measure"


def given(source: str) -> Step:
    return Step(source=source, given=True)


def own(source: str) -> Step:
    return Step(source=source, given=False)


def test_numbers_need_none_of_the_lessons_cells():
    made = plan([given(SETUP), given("model = measure.small_gpt()"), own("weights_gb = 14")])
    assert made.sources == ("", "", "weights_gb = 14")
    assert made.shared == (True, True, False)


def test_an_import_is_cut_down_to_what_is_used():
    made = plan([given(SETUP), own("def f(w):\n    return torch.tensor(w)")])
    assert made.sources[0] == "import torch"


def test_a_picture_of_an_answer_is_drawn_for_each_learner():
    made = plan([given(SETUP), own("table = {'weights': 4}"), given("bars.sixteen_bytes(table)")])
    assert made.shared[2] is False
    assert made.sources[0] == "from memory_budget import bars"


def test_what_an_answer_needs_is_run_without_its_picture():
    cell = "full = measure.training_step()\nbars.show(full)"
    made = plan([given(SETUP), given(cell), own("ratio = full.peak_bytes / 2")])
    assert made.sources[1] == "full = measure.training_step()"
    assert made.shared[1] is True


def test_a_value_that_the_class_has_already_is_not_made_again():
    steps = [given(SETUP), given("full = measure.training_step()"), own("ratio = full.peak_bytes / 2")]
    made = plan(steps, [frozenset(), frozenset({"full"}), frozenset()])
    assert made.sources[:2] == ("", "")
    assert made.values[1] == {"full"}


def test_cells_that_may_have_changed_a_value_are_run_too():
    steps = [
        given(SETUP),
        given("m = measure.small_gpt()"),
        given("measure.freeze(m)"),
        own("n = m.parameters"),
    ]
    assert plan(steps).sources[1:3] == ("m = measure.small_gpt()", "measure.freeze(m)")


@pytest.mark.parametrize(
    "cell",
    [
        "torch.manual_seed(3)",
        "plt.rcParams['font.size'] = 40",
        "measure.small_gpt().train()",
        "bars.SIZE = 3",
    ],
)
def test_after_an_effect_the_lessons_cells_are_run(cell):
    made = plan([given(SETUP), given("1 + 1"), own(cell), given("torch.rand(2)")])
    assert made.shared == (True, True, False, False)


@pytest.mark.parametrize(
    "cell", ["%matplotlib inline", "globals()['x'] = 1", "exec('y = 2')", "from os import *", "x = ("]
)
def test_what_cannot_be_read_runs_everything(cell):
    made = plan([given(SETUP), given("1 + 1"), own(cell)])
    assert made.sources[:2] == (SETUP, "1 + 1")
    assert not any(made.shared)


def test_a_seed_of_the_lessons_own_is_set_where_its_module_is_used():
    made = plan([given("import torch"), given("torch.manual_seed(0)"), own("x = torch.rand(3)")])
    assert made.sources[1] == "torch.manual_seed(0)"


def test_names_inside_a_function_are_its_own():
    read = names_of("def f(weight):\n    step = weight\n    return step + size")
    assert read.binds == {"f"}
    assert read.uses == {"size"}


def test_a_display_is_an_expression_that_changes_nothing():
    assert without_displays("x = 1\nx") == "x = 1"
    assert without_displays("bars.peak()") == ""
    assert without_displays("model.backward()") == "model.backward()"


@pytest.mark.slow
@pytest.mark.sandbox
def test_sharing_gives_the_same_outputs_and_verdicts_as_running_all_of_lesson_six():
    from autograder.grading import grader, sandbox

    if why := sandbox.why_no_sandbox():
        pytest.skip(why)
    text = lesson_six.released_text()
    notebook = lesson_six.submission(lesson_six.solutions(), text)
    limits = {"cell_s": 120.0, "total_s": 900.0}
    job = lesson_six.job(notebook, text=text, limits=limits, reference=None)
    shared = lesson_six.job(notebook, text=text, limits=limits, reference=grader.reference_run(job))
    full, quick = grader.grade_submission(job), grader.grade_submission(shared)
    assert full["verdicts"] == quick["verdicts"]
    for one, other in zip(full["cells"], quick["cells"], strict=True):
        # a learner's copy is cleaned, the class's is ours: what is shown as text is the same
        texts = [
            [o.get("data", o).get("text/plain", o.get("text")) for o in c["outputs"]] for c in (one, other)
        ]
        assert len(texts[0]) == len(texts[1]), one["source"]


@pytest.mark.parametrize(
    ("below", "changes"),
    [
        ("total = round(7e9 * 2 / 1e9, 1)", False),
        ("import math\nprint(math.pi)", False),
        ("total = gb(7)", True),
        ("set_factor(3)", True),
        ("Config.sizes.insert(0, 9)", True),
        ("torch.set_default_dtype(torch.float16)", True),
        ("from decimal import getcontext\ngetcontext().prec = 2", True),
        ("import math as m\nm.floor = None", True),
        ("import sys\nsys.setrecursionlimit(120)", True),
        ("gb = 14", True),
        ("del factor", True),
        ("factor = 3", True),
        ("table['a'] = 2", True),
        ("helper = table.pop", True),
        ("sum = 3", True),
        ("%reset -f", True),
        ("exec('gb = 1')", True),
        ("unrelated = 5", False),
        ("inner = None", True),
        ("from math import pi\nprint(pi)", False),
        ("import cmath as math", True),
        ("math.pi = 3", True),
        ("gb.factor = 3", True),
        ("alias['a'] = 5", True),
        ("def once():\n    global factor\n    factor = 9", True),
        ("try:\n    pass\nexcept ValueError as factor:\n    pass", True),
        ("if True:\n    def inner(n): return 0", True),
    ],
)
def test_cells_that_may_change_a_function_are_known(below, changes):
    above = [
        "import math\nfactor = 2\ntable = {'a': 1}\nunrelated = 1",
        "def inner(n):\n    return factor * n + table['a']",
        "alias = table",
        "def gb(n):\n    return inner(n) + math.pi",
    ]
    names = [names_of(source) for source in above]
    assert may_change("gb", names, [names_of(below)]) is changes


def test_a_cell_of_the_lessons_below_that_binds_a_needed_name_counts():
    above = [names_of("sizes = [2, 4]"), names_of("def gb(n):\n    return sum(sizes) * n")]
    assert may_change("gb", above, [], [names_of("sizes = measure.gradient_rms()")])
    assert not may_change("gb", above, [], [names_of("other = measure.gradient_rms()\nshow(other)")])
    assert not may_change("gb", above, [])
