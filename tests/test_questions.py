"""Every question of every bank: right in many styles, a message for each slip, and no answer given away.

The tests read the banks, so a new lesson is covered without a change here.
"""

import dataclasses
import decimal
import fractions
import functools
import json
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder import questions
from autograder.checking import decide
from autograder.kinds import (
    Choice,
    Function,
    Idea,
    Match,
    Number,
    Order,
    Question,
    Relation,
    Set,
    Table,
    Text,
)
from autograder.kinds.base import close
from autograder.kinds.number import UNIT_BYTES, UNIT_WORDS
from autograder.questions import lesson_01, lesson_06

ALL = [question for lesson in questions.lessons() for question in questions.bank(lesson).values()]
SEEDS = (1, 2, 3)
NUMBER_STYLES = {
    "int or float": lambda number: number,
    "float": float,
    "expression": lambda number: number * 2e9 / 1e9 / 2,
    "numpy": np.float64,
    "torch": lambda number: torch.tensor(number, dtype=torch.float64),
    "fraction": fractions.Fraction,
    "decimal": lambda number: decimal.Decimal(str(number)),
    "rounded": lambda number: round(number, 2),
}


def by_kind(*kinds: type) -> list[Question]:
    return [question for question in ALL if isinstance(question, kinds)]


def each(question_list: list[Question], of) -> list:
    """A parameter for each (question, item of the question); an item goes by its name or its number."""
    return [
        pytest.param(question, item, id=f"{question.name}-{name_of(item, number)}")
        for question in question_list
        for number, item in enumerate(of(question))
    ]


def name_of(item, number: int) -> str:
    return item[0] if isinstance(item, tuple) and isinstance(item[0], str) and len(item) == 2 else str(number)


def answered(question: Question, answer) -> dict:
    """The notebook's names after the learner typed `answer`: a value or the text of a function."""
    if isinstance(question, Function) and isinstance(answer, str):
        names: dict = {}
        exec(compile(answer, "<answer>", "exec"), names)
        return names
    return {**made_by(getattr(question, "scene", "")), question.name: answer}


@functools.cache
def made_by(scene: str) -> dict:
    """The names that a lesson's cells have made where a question looks at them too."""
    names: dict = {}
    exec(compile(scene, "<scene>", "exec"), names)
    return names


def verdict_on(question: Question, answer, seed: int = 1):
    return decide(question, answered(question, answer), random.Random(seed))


def said(verdict) -> str:
    return "\n".join([verdict.message, *verdict.details])


# ---------------------------------------------------------------- right answers


@pytest.mark.parametrize(
    ("question", "answer"), each([q for q in ALL if not isinstance(q, Text)], lambda q: q.right_answers())
)
def test_every_right_answer_earns_full_marks(question, answer):
    for seed in SEEDS:
        verdict = verdict_on(question, answer, seed)
        assert (verdict.status, verdict.fraction, verdict.slip) == ("right", 1, None), said(verdict)
        assert verdict.message == question.praise or isinstance(question, Relation)


@pytest.mark.parametrize("question", [q for q in ALL if not isinstance(q, Number)], ids=lambda q: q.name)
def test_every_question_has_at_least_three_right_styles(question):
    assert len(question.right_answers()) >= 3


@pytest.mark.parametrize("style", NUMBER_STYLES.values(), ids=NUMBER_STYLES.keys())
@pytest.mark.parametrize("question", by_kind(Number), ids=lambda q: q.name)
def test_a_number_may_be_written_in_any_style(question, style):
    for right in (question.right, *question.also_right):
        assert verdict_on(question, style(right)).status == "right"


@pytest.mark.parametrize("style", NUMBER_STYLES.values(), ids=NUMBER_STYLES.keys())
@pytest.mark.parametrize("question", by_kind(Table), ids=lambda q: q.name)
def test_the_numbers_of_a_table_may_be_written_in_any_style(question, style):
    assert (
        verdict_on(question, {key: style(amount) for key, amount in question.rows.items()}).status == "right"
    )


def numeric_functions() -> list[Function]:
    plain = [q for q in by_kind(Function) if not q.around]
    return [q for q in plain if isinstance(q.reference(*q.requests(random.Random(0))[0].args), int | float)]


@pytest.mark.parametrize("style", list(NUMBER_STYLES.values())[1:7], ids=list(NUMBER_STYLES)[1:7])
@pytest.mark.parametrize("question", numeric_functions(), ids=lambda q: q.name)
def test_a_function_may_return_any_style_of_number(question, style):
    assert verdict_on(question, lambda *args: style(question.reference(*args))).status == "right"


# ---------------------------------------------------------------- slips


def slip_message(question: Question, name: str) -> str:
    """The words that a slip of this name must be answered with."""
    for slip in question.slips:
        if slip.name == name:
            return slip.message
    if name == "missing":
        return question.missing
    return UNIT_WORDS[name.removeprefix("in ")]


@pytest.mark.parametrize(("question", "wrong"), each(ALL, lambda q: q.wrong_answers()))
def test_every_slip_is_refused_with_its_own_message(question, wrong):
    name, answer = wrong
    for seed in SEEDS:
        verdict = verdict_on(question, answer, seed)
        assert verdict.status in ("not yet", "partly"), name
        assert verdict.slip == name
        assert slip_message(question, name) in said(verdict)


@pytest.mark.parametrize("question", ALL, ids=lambda q: q.name)
def test_every_slip_of_a_question_has_its_own_name_and_words(question):
    names = [slip.name for slip in question.slips]
    assert len(set(names)) == len(names)
    rows = isinstance(question, Table | Match)
    messages = [(slip.value[0] if rows else "", slip.message) for slip in question.slips]
    assert len(set(messages)) == len(messages)


@pytest.mark.parametrize("question", by_kind(Number), ids=lambda q: q.name)
def test_no_two_slips_of_a_number_give_the_same_value(question):
    known = question.known_slips()
    for i, (value, name, _) in enumerate(known):
        for other_value, other_name, _ in known[:i]:
            assert name == other_name or not close(value, other_value, 1e-3), (name, other_name)
        for right in (question.right, *question.also_right):
            assert not close(value, right, question.tolerance), name


@pytest.mark.parametrize("question", by_kind(Table), ids=lambda q: q.name)
def test_no_two_slips_of_a_row_give_the_same_value(question):
    for key, right in question.rows.items():
        values = [slip.value[1] for slip in question.slips if slip.value[0] in (key, "*")]
        assert len(set(values)) == len(values)
        own = [slip.value[1] for slip in question.slips if slip.value[0] == key]
        assert right not in own


@pytest.mark.parametrize("question", by_kind(Choice, Set), ids=lambda q: q.name)
def test_every_wrong_option_has_a_slip_of_its_own(question):
    right = {question.right} if isinstance(question, Choice) else question.right
    assert sorted(slip.value for slip in question.slips) == sorted(set(question.options) - right)


# ---------------------------------------------------------------- what a learner may read before the answer


def messages_of(question: Question) -> list[str]:
    """All words a learner can see before the answer is right."""
    shown = [question.prompt, *(slip.message for slip in question.slips)]
    shown += [getattr(question, field) for field in ("hint", "missing") if hasattr(question, field)]
    shown += list(getattr(question, "hints", {}).values())
    return shown + [idea.name for idea in getattr(question, "ideas", ())]


WORDS = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven"),
    *("eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen"),
]


def numbers_in(text: str) -> list[float]:
    """Numbers as digits or words; not those of a name (bf16, 7B, 8-bit) nor the powers that define a unit."""
    text = re.sub(r"\b(10|2)\^\d+|\b\d+[- ]bits?\b", "", text)
    digits = [float(found) for found in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w]|\.\d)", text)]
    return digits + [
        float(WORDS.index(word)) for word in re.findall(r"[a-z]+", text.lower()) if word in WORDS
    ]


@pytest.mark.parametrize("question", by_kind(Number), ids=lambda q: q.name)
def test_no_message_of_a_number_holds_the_right_value(question):
    for message in messages_of(question):
        for number in numbers_in(message):
            for right in (question.right, *question.also_right):
                assert not close(number, right, 1e-2), message


@pytest.mark.parametrize("question", by_kind(Table), ids=lambda q: q.name)
def test_no_message_of_a_row_holds_its_right_value(question):
    for slip in question.slips:
        text = re.sub(r"\b\d+[- ]bits?\b", "", slip.message)
        for key in question.rows if slip.value[0] == "*" else [slip.value[0]]:
            digits = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", text)
            assert question.rows[key] not in map(float, digits), slip.message


@pytest.mark.parametrize("question", by_kind(Choice, Set), ids=lambda q: q.name)
def test_no_message_names_the_right_option(question):
    right = {question.right} if isinstance(question, Choice) else question.right
    for message in messages_of(question):
        for letter in right:
            assert question.options[letter].lower() not in message.lower(), message
            assert not re.search(rf"['\"`]{letter}['\"`]|option {letter}\b", message), message


@pytest.mark.parametrize("question", by_kind(Function), ids=lambda q: q.name)
def test_no_message_of_a_function_holds_the_worked_result(question):
    results = [question.reference(*request.args) for request in question.requests(random.Random(0))]
    rights = [
        result for result in results if isinstance(result, int | float) and not isinstance(result, bool)
    ]
    for message in messages_of(question):
        for number in numbers_in(message):
            assert number < 3 or not any(close(number, right, 1e-3) for right in rights), message


@pytest.mark.parametrize("question", ALL, ids=lambda q: q.name)
def test_messages_are_short_and_lead_on(question):
    for slip in question.slips:
        assert len(slip.message) <= 250
        assert not re.search(r"\b(just|simply|obviously)\b", slip.message, re.IGNORECASE)
        assert "?" in slip.message or isinstance(question, Relation), slip.message


@pytest.mark.parametrize("question", ALL, ids=lambda q: q.name)
def test_a_question_says_what_it_asks_and_what_it_is_worth(question):
    assert question.name.isidentifier()
    assert question.prompt
    assert "\n" not in question.prompt
    assert question.points >= 1
    assert question.manual == isinstance(question, Text)


def source_cells(lesson: str) -> str:
    """All code of a lesson's source notebook."""
    (file,) = (Path(__file__).parent.parent / "source" / lesson).glob("*.ipynb")
    cells = json.loads(file.read_text("utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


@pytest.mark.parametrize("lesson", questions.lessons())
def test_the_lesson_defines_each_function_with_the_arguments_a_card_names(lesson):
    code = source_cells(lesson)
    for question in questions.bank(lesson).values():
        if isinstance(question, Function):
            (arguments,) = re.findall(rf"^def {question.name}\((.*?)\)", code, re.MULTILINE | re.DOTALL)
            names = [argument.split(":")[0].strip() for argument in arguments.split(",") if argument.strip()]
            assert question.signature == f"{question.name}({', '.join(names)})"


@pytest.mark.parametrize("lesson", questions.lessons())
def test_the_scrambled_lines_of_an_order_are_those_of_the_lesson(lesson):
    code = source_cells(lesson)
    for question in questions.bank(lesson).values():
        if isinstance(question, Order):
            places = [code.index(f'"{line}"') for line in question.start]
            assert places == sorted(places)


def test_names_are_unique_in_the_course():
    assert len(set(questions.names())) == len(questions.names())


# ---------------------------------------------------------------- bad input, for every question


class Liar:
    """Equal to everything."""

    def __eq__(self, other):
        return True

    __hash__ = object.__hash__

    def __float__(self):
        return 1.0


BAD_VALUES = {
    "None": None,
    "dots": ...,
    "nan": math.nan,
    "infinity": math.inf,
    "negative": -1.0,
    "true": True,
    "complex": 14j,
    "14 GB": "14 GB",
    "object": object(),
    "liar": Liar(),
    "function": print,
    "class": int,
    "empty list": [],
    "list": [1, 2, 3],
    "misspelt keys": {"wieghts": 1},
    "nested": {"weights": {"weights": [1]}},
    "array": np.zeros(3),
    "huge": 10**5000,
    "bytes": b"14",
}


@pytest.mark.parametrize("bad", BAD_VALUES.values(), ids=BAD_VALUES.keys())
@pytest.mark.parametrize("question", ALL, ids=lambda q: q.name)
def test_nonsense_gets_one_clear_line_and_no_points(question, bad):
    if isinstance(question, Text) and isinstance(bad, str):
        pytest.skip("any text is an answer that a person marks")
    verdict = decide(question, {question.name: bad}, random.Random(1))
    assert verdict.status in ("not yet", "unanswered")
    assert verdict.fraction == 0
    assert 10 < len(verdict.message) < 300
    assert "\n" not in verdict.message
    assert "Traceback" not in said(verdict)


FAILING = {
    "raises": "def {name}(*args):\n    return 1 / 0\n",
    "returns None": "def {name}(*args):\n    args[0]\n",
    "returns a text": "def {name}(*args):\n    return 'x'\n",
    "returns a lie": "class Y:\n    __eq__ = lambda a, b: True\n{name} = lambda *args: Y()\n",
    "returns itself": "def {name}(*args):\n    return {name}\n",
    "unknown name": "def {name}(*args):\n    return undefined_name\n",
}


@pytest.mark.parametrize("source", FAILING.values(), ids=FAILING.keys())
@pytest.mark.parametrize("question", by_kind(Function), ids=lambda q: q.name)
def test_a_function_that_fails_gets_one_clear_line_and_no_points(question, source):
    verdict = verdict_on(question, source.format(name=question.name))
    assert verdict.fraction == 0
    assert verdict.status == "not yet"
    assert "\n" not in verdict.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["t", "v", "ok", "error", "line"]), inner)
    ),
    max_leaves=8,
)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_no_reply_whatever_makes_a_question_fail(data):
    question = data.draw(st.sampled_from(ALL))
    requests = question.requests(random.Random(0))
    question.judge([data.draw(JSON) for _ in requests], requests)


# ---------------------------------------------------------------- texts


@pytest.mark.parametrize(("question", "answer"), each(by_kind(Text), lambda q: q.examples))
def test_every_good_text_has_every_key_idea(question, answer):
    verdict = verdict_on(question, answer)
    assert verdict.status == "by hand"
    assert len(verdict.details) == len(question.ideas), verdict.details


@pytest.mark.parametrize("question", by_kind(Text), ids=lambda q: q.name)
def test_a_text_about_something_else_has_no_key_idea(question):
    assert verdict_on(question, "I like this lesson a lot and the colours are nice.").details == ()


IDEA_CASES = [
    ("why_no_saving", "Weights and gradients become half as big, saving four bytes.", 1),
    ("why_no_saving", "You add an fp32 master copy.", 1),
    ("why_no_saving", "The optimizer state was never touched.", 1),
    (
        "why_no_saving",
        "bf16 weights and grads (gradients) take 2 bytes each rather than 4, but the full-precision copy "
        "eats that up, and Adam's moments are still 32-bit",
        3,
    ),
    ("why_no_saving", "There is no master copy.", 0),
    ("one_sentence", "Nothing moves, nothing to remember: no grads, no Adam averages, no 32-bit copy.", 4),
    ("one_sentence", "They are smaller.", 0),
    ("why_bf16_sentence", "It has more digits of precision.", 0),
    ("eight_bit_reply", "Yes, that works fine.", 0),
    # denied, doubly denied, turned into their contrary
    ("one_sentence", "Frozen parameters keep gradients, moments and a master copy.", 0),
    ("one_sentence", "Gradients, moments, master copy, update.", 0),
    (
        "one_sentence",
        "It is only read in the forward pass, so it needs no gradient, no moments and no master copy.",
        4,
    ),
    ("one_sentence", "They are never updated and so need no gradient, moments or master copy.", 4),
    (
        "one_sentence",
        "Trainable parameters need gradients, moments and a master copy, frozen ones only their weight.",
        3,
    ),
    (
        "one_sentence",
        "Gradients are not needed, moments are not kept and a master copy is superfluous because nothing changes.",
        4,
    ),
    ("one_sentence", "They are updated, so they need a gradient, moments and a master copy.", 0),
    ("why_bf16_sentence", "It does not spare you loss scaling.", 0),
    ("why_bf16_sentence", "You still need loss scaling.", 0),
    ("why_bf16_sentence", "No need to multiply the loss by a big factor.", 1),
    ("why_bf16_sentence", "It spares you loss scaling, because small gradients do not underflow.", 2),
    (
        "why_bf16_sentence",
        "Loss scaling is unnecessary since the range is that of fp32 and gradients never vanish.",
        3,
    ),
    (
        "why_bf16_sentence",
        "It has not the range of fp32, so gradients underflow and loss scaling cannot be dropped.",
        0,
    ),
    ("why_bf16_sentence", "fp16 gradients underflow, bf16 does not.", 1),
    ("why_no_saving", "Weights and gradients were not halved, and there is no master copy.", 0),
    (
        "why_no_saving",
        "Two tensors are halved, the duplicate of the weights in 32 bits takes it back, m and v unchanged.",
        3,
    ),
    ("why_no_saving", "W: 4->2, G: 4->2, master: +4, m and v unchanged.", 3),
    ("why_no_saving", "We save two bytes on the parameters and two on the gradients.", 1),
    ("why_no_saving", "The master copy is halved and the moments too, and the gradients vanish.", 0),
    ("why_no_saving", "The moments are not kept in fp32.", 0),
    ("why_no_saving", "The moments did not shrink.", 1),
    ("eight_bit_reply", "The moments are not what shrinks.", 0),
    ("eight_bit_reply", "The 8-bit optimizer takes everything to one byte.", 0),
    ("eight_bit_reply", "I would use no adapter and no quantisation.", 0),
    ("eight_bit_reply", "8-bit saves 6 of 16 bytes. The rest remains: 10 bytes.", 1),
    ("eight_bit_reply", "Train an adapter on a frozen base.", 1),
    ("eight_bit_reply", "Only the moments shrink.", 1),
]


@pytest.mark.parametrize(("name", "text", "found"), IDEA_CASES)
def test_key_ideas_are_found_in_other_words(name, text, found):
    assert len(verdict_on(questions.find(name)[1], text).details) == found


@pytest.mark.parametrize(
    "idea", [i for q in by_kind(Text) for i in q.ideas], ids=lambda i: i.name.replace(" ", "-")
)
def test_the_name_of_an_idea_does_not_hold_the_idea(idea: Idea):
    assert not idea.found_in(idea.name)


# ---------------------------------------------------------------- cards that learners met


CARDS = [
    ("weights_7b_gb", 56, "as a byte has bits"),
    ("weights_7b_gb", 3.5, "half a byte"),
    ("weights_7b_gb", 5, "How many bytes has one bf16 number"),
    ("weights_alone_gb", 560, "as a byte has bits"),
    ("weights_alone_gb", 1.75, "number of cards"),
    ("full_finetune_3b_gb", 3 * 16 / 1e9, "in billions"),
    ("adapter_total_gb", (2 * 7 + 16 * 0.02) / 1e9, "in billions"),
    ("adapter_total_gb", 14.064, "adapter of the text"),
    ("measured_ratio", 4, "the prediction"),
    ("measured_ratio", 3, "hardly ever whole"),
    ("bytes_mixed", {**lesson_06.BYTES_MIXED.rows, "weights": 16}, "how many bits make a byte?"),
    ("bytes_mixed", {**lesson_06.BYTES_MIXED.rows, "first_moment": 32}, "looks like bits"),
    ("full_finetune_3b_terms", {**lesson_06.FULL_3B_TERMS.rows, "weights": 48}, "how many bits make a byte?"),
    ("bytes_fp32", {**lesson_06.BYTES_FP32.rows, "total": 16}, "Every row is right."),
    ("training_gb", lambda trainable: trainable * 16 // 1e9, "lose them?"),
    ("training_gb", lambda trainable: round(trainable * 16 / 1e9), "lose them?"),
    ("finetune_gb", lambda frozen, trainable: (2 * frozen + 16 * trainable) // 1e9, "lose them?"),
    ("smallest_surviving_step", lambda weight: doubled(1e-12, weight), "From which number do you double?"),
    ("smallest_surviving_step", lambda weight: doubled(1e-9, weight), "From which number do you double?"),
    ("smallest_surviving_step", lambda weight: 2.0**-60, "Does the loop run at all"),
    ("smallest_surviving_step", lambda weight: 1e-12, "Does the loop run at all"),
]


def doubled(step: float, weight: float) -> float:
    """The first of step, 2 step, 4 step, ... that moves a bf16 weight."""
    while lesson_06.bf16(weight + step) == weight:
        step *= 2
    return step


@pytest.mark.parametrize(("name", "answer", "says"), CARDS)
def test_a_card_speaks_of_the_slip_that_was_made(name, answer, says):
    for seed in SEEDS:
        assert says in said(verdict_on(questions.find(name)[1], answer, seed))


@pytest.mark.parametrize(
    ("measure", "value"),
    [("pure bf16", 10), ("pure bf16", 6), ("momentum", 10), ("checkpointing", 0), ("8-bit moments", 4),
     ("8-bit moments", 10), ("8-bit moments", 10.015625), ("sgd", 7.5)],
)  # fmt: skip
def test_no_measure_is_answered_with_a_bare_not_yet(measure, value):
    verdict = verdict_on(lesson_06.BYTES_WITH, lesson_06.table_of({measure: value}))
    (line,) = [line for line in verdict.details if not line.endswith(": right.")]
    assert line.startswith(f"{measure}: ")
    assert line.endswith("?")


# ---------------------------------------------------------------- the references, against something outside


@given(st.integers(128, 255), st.integers(-20, 20))
@settings(max_examples=60, deadline=None)
def test_the_bf16_reference_agrees_with_torch(mantissa, exponent):
    weight = mantissa / 128 * 2.0**exponent
    held = torch.tensor(weight, dtype=torch.bfloat16)
    step = lesson_06.surviving_step(weight)
    assert held + step != held
    assert held + step / 2 == held


@given(st.floats(2.0**-100, 2.0**100))
@settings(max_examples=100, deadline=None)
def test_rounding_to_bf16_agrees_with_torch(value):
    narrow = torch.tensor(value, dtype=torch.float32).bfloat16().item()
    assert lesson_06.bf16(value) == narrow


def test_the_slopes_of_lesson_1_agree_with_autograd():
    for seed in range(20):
        for w, b, x, y in lesson_01.fresh_points(random.Random(seed)):
            parameters = torch.tensor([w, b], dtype=torch.float64, requires_grad=True)
            gap = (parameters[0] * x + parameters[1] - y) ** 2
            gap.backward()
            assert gap.item() == pytest.approx(lesson_01.loss(w, b, x, y))
            assert parameters.grad.tolist() == pytest.approx(lesson_01.gradient(w, b, x, y))


def test_the_step_of_lesson_1_agrees_with_torch():
    for w, b, dw, db, rate in lesson_01.fresh_steps(random.Random(0)):
        parameters = torch.tensor([w, b], dtype=torch.float64, requires_grad=True)
        parameters.grad = torch.tensor([dw, db], dtype=torch.float64)
        torch.optim.SGD([parameters], lr=rate).step()
        assert parameters.tolist() == pytest.approx(lesson_01.sgd_step(w, b, dw, db, rate))


def test_the_predicted_ratio_is_the_memory_models():
    from memory_budget.budget import Setup, predict

    small = {"model": "small-gpt", "recipe": "fp32", "batch": 1, "sequence": 32, "device": "cpu"}
    full = predict(Setup(**small)).peak_bytes
    adapter = predict(Setup(**small, lora_rank=4)).peak_bytes
    assert full / adapter == pytest.approx(lesson_06.RATIO_PREDICTED, rel=0.15)


def test_the_figures_of_the_lessons_follow_from_the_memory_model():
    from memory_budget import budget

    bank = questions.bank("lesson-06")
    assert bank["full_finetune_3b_gb"].right * 10**9 == budget.training_bytes(3 * 10**9)
    assert bank["adapter_total_gb"].right * 1e9 == pytest.approx(budget.finetune_bytes(7 * 10**9, 20 * 10**6))
    assert bank["full_finetune_3b_gb"].right == sum(bank["full_finetune_3b_terms"].rows.values())
    assert sum(bank["bytes_fp32"].rows.values()) == sum(bank["bytes_mixed"].rows.values()) == 16
    assert bank["cards_needed"].right == math.ceil(bank["eight_bit_70b_gb"].right / 80)


def test_each_measure_is_what_the_memory_model_says():
    from memory_budget.recipes import RECIPES

    mixed = RECIPES["mixed"]
    for measure, optimizer in {"adamw": "adamw", "sgd": "sgd", "momentum": "momentum"}.items():
        assert lesson_06.MEASURES[measure] == mixed.bytes_per_parameter(optimizer)
    assert lesson_06.MEASURES["pure bf16"] == RECIPES["pure-bf16"].bytes_per_parameter("adamw")
    assert lesson_06.MEASURES["8-bit moments"] == pytest.approx(mixed.bytes_per_parameter("adamw-8bit"))


def test_what_is_sent_beside_student_code_holds_no_right_answer():
    for question in by_kind(Function):
        for word in ("reference", "tolerance", "elements(", "STATES", "slip"):
            assert word not in question.around


def test_a_bank_that_is_unknown_names_those_there_are():
    with pytest.raises(ValueError, match=r"lesson-99.*lesson-01, lesson-06"):
        questions.bank("lesson-99")
    with pytest.raises(KeyError):
        questions.find("no_such_question")


def test_every_unit_has_its_words():
    assert UNIT_BYTES.keys() == UNIT_WORDS.keys()
    assert all(dataclasses.is_dataclass(question) for question in ALL)
    assert by_kind(Order)


# ---------------------------------------------------------------- the rep of lesson 1: the step itself is looked at

REP_STEPS = {
    "no step": ("rep_optimizer.step()", ""),
    "other half": ("rep_model.first.p", "rep_model.second.p"),
    "first half moved": ("requires_grad = False", "requires_grad = True"),
    "not AdamW": ("AdamW(", "SGD("),
    "second half in part": ("rep_model.second.parameters()", "[rep_model.second.weight]"),
}


@pytest.mark.parametrize(("slip", "change"), REP_STEPS.items())
def test_the_rep_looks_at_the_step_and_not_only_at_the_numbers(slip, change):
    scene = lesson_01.REP_SCENE.replace(*change)
    if slip in ("other half", "first half moved"):
        scene = scene.replace("AdamW(rep_model.second.", "AdamW(rep_model.")
    question = lesson_01.HALF_FROZEN
    verdict = decide(question, {**made_by(scene), "half_frozen": dict(question.rows)}, random.Random(1))
    assert (verdict.status, verdict.fraction, verdict.slip) == ("partly", 0.5, slip)
    assert verdict.details[1].startswith("The step: ")


def test_the_rep_without_the_lesson_s_model_earns_half():
    question = lesson_01.HALF_FROZEN
    verdict = decide(question, {"half_frozen": dict(question.rows)}, random.Random(1))
    assert (verdict.fraction, verdict.slip) == (0.5, "no step")
