"""Each kind of question on small questions made for the purpose."""

import dataclasses
import random

import pytest

from autograder import wire
from autograder.checking import decide
from autograder.kinds import Choice, Function, Idea, Match, Number, Order, Set, Slip, Table, Text
from autograder.kinds.order import scrambled
from autograder.kinds.text import Said, denied, either, windows

NUMBER = Number(
    name="size_gb",
    points=2,
    prompt="A size",
    right=20,
    also_right=(20.5,),
    slips=(Slip(name="half", value=10, message="Is that all of it?"),),
)
TABLE = Table(name="table", points=2, prompt="Rows", rows={"weights": 2, "master_copy": 0, "gradients": 5})
ORDER = Order(
    name="order",
    points=1,
    prompt="In order",
    right=("one", "two", "three"),
    start=("three", "one", "two"),
    slips=(Slip(name="late start", value=("two", "one"), message="What comes first?"),),
)
MATCH = Match(
    name="match", points=1, prompt="Pairs", right={"ice": "cold", "fire": "hot"}, choices=("cold", "hot")
)
CHOICE = Choice(
    name="choice",
    points=1,
    prompt="One",
    options={"a": "this", "b": "that"},
    right="b",
    slips=(Slip(name="this", value="a", message="Which other?"),),
)
SET = Set(
    name="both",
    points=1,
    prompt="Some",
    options={"a": "this", "b": "that", "c": "other"},
    right=frozenset("ab"),
    missing="Is there another?",
    slips=(Slip(name="other", value="c", message="Does c belong?"),),
)
FUNCTION = Function(
    name="total",
    points=3,
    prompt="Add up",
    signature="total(sizes)",
    reference=sum,
    inputs=lambda rng: [([rng.randrange(1, 9), rng.randrange(10, 99)],) for _ in range(3)],
    example=([1, 2, 3],),
    timeout_s=0.3,
    slips=(Slip(name="largest", value=max, message="What about the others?"),),
)
TEXT = Text(
    name="text",
    points=1,
    prompt="Why",
    ideas=(Idea(name="a cause", all_of=(r"because|since",)), Idea(name="a thing", all_of=(r"\bheat",))),
    mark_scheme="One point for both.",
)


def verdict_on(question, value):
    return decide(question, {question.name: value}, random.Random(1))


def run(question, source):
    space = {}
    exec(compile(source, "<cell>", "exec"), space)
    return decide(question, space, random.Random(1))


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("value", "slip"),
    [
        ("20", "text for a number"),
        ("20 GB", "text for a number"),
        (float("nan"), "nan"),
        (float("inf"), "infinity"),
        (10**400, "infinity"),
        (-20, "negative"),
        (True, "truth value"),
        (20j, "complex"),
        ([20], "not a number"),
        ({"a": 20}, "not a number"),
        (len, "not a number"),
        (type("Half", (int,), {})(20), "not plain"),
        (10, "half"),
        (10e9, "half, in bytes"),
        (20e9, "in bytes"),
        (20_000, "in MB"),
        (0.02, "in TB"),
        (20e9 / 2**30, "in GiB"),
        (20e9 / 2**20, "in MiB"),
        (33.3, None),
        (0, None),
    ],
)
def test_a_number_that_is_not_right_is_told_why(value, slip):
    verdict = verdict_on(NUMBER, value)
    assert (verdict.status, verdict.slip) == ("not yet", slip)
    assert "\n" not in verdict.message


@pytest.mark.parametrize("value", [20, 20.0, 20.01, 20.5])
def test_a_number_within_the_tolerance_is_right(value):
    assert verdict_on(NUMBER, value).fraction == 1


@pytest.mark.parametrize("value", [None, ..., "", "  "])
def test_a_stub_is_unanswered(value):
    assert verdict_on(NUMBER, value).status == "unanswered"


def test_a_missing_name_is_unanswered_and_says_which():
    verdict = decide(NUMBER, {})
    assert verdict.status == "unanswered"
    assert "`size_gb`" in verdict.message


# ---------------------------------------------------------------- tables and matches


def test_a_table_gives_credit_for_each_row():
    verdict = verdict_on(TABLE, {"weights": 2, "master_copy": 0, "gradients": 1})
    assert verdict.status == "partly"
    assert verdict.fraction == pytest.approx(2 / 3)
    assert verdict.details[0] == "weights: right."


def test_a_row_that_keeps_nothing_may_hold_a_dash():
    assert verdict_on(TABLE, {"weights": 2, "master_copy": "-", "gradients": 5}).status == "right"


def test_a_row_left_as_it_was_earns_nothing():
    assert verdict_on(TABLE, {"weights": 2, "master_copy": None, "gradients": 5}).fraction == pytest.approx(
        2 / 3
    )
    assert verdict_on(TABLE, {"weights": None, "master_copy": None, "gradients": None}).status == "unanswered"


@pytest.mark.parametrize("key", ["wieghts", "Weights", "weight", "master copy", "gradient"])
def test_a_misspelt_key_names_the_nearest(key):
    verdict = verdict_on(TABLE, {key: 2})
    assert verdict.slip == "unknown key"
    assert "did you mean" in verdict.message


def test_a_key_unlike_any_other_lists_them():
    assert "weights, master_copy, gradients" in verdict_on(TABLE, {"zzz": 2}).message
    assert verdict_on(TABLE, {7: 2}).slip == "unknown key"


def test_a_misspelt_key_costs_its_own_row_only():
    verdict = verdict_on(TABLE, {"weights": 2, "master_copy": 0, "gradeints": 5})
    assert (verdict.status, verdict.slip) == ("partly", "unknown key")
    assert verdict.fraction == pytest.approx(2 / 3)
    assert "did you mean 'gradients'" in verdict.message
    assert verdict_on(TABLE, {"weights": 2, "master_copy": 0, "gradients": 5, "total": 7}).status == "right"
    assert verdict_on(MATCH, {"ice": "cold", "fier": "hot"}).fraction == 0.5


def test_a_table_that_is_no_dict_says_so():
    assert verdict_on(TABLE, [2, 0, 5]).slip == "not a dict"


def test_a_match_gives_credit_for_each_pair():
    verdict = verdict_on(MATCH, {"ice": "Cold ", "fire": "cold"})
    assert (verdict.status, verdict.fraction) == ("partly", 0.5)
    assert verdict_on(MATCH, {"ice": "lukewarm", "fire": None}).slip == "not a choice"
    assert verdict_on(MATCH, {"ice": None, "fire": None}).status == "unanswered"


# ---------------------------------------------------------------- letters and orders


@pytest.mark.parametrize("value", ["b", "B", " b ", "b)", "(b)"])
def test_a_letter_may_be_written_in_several_ways(value):
    assert verdict_on(CHOICE, value).status == "right"


@pytest.mark.parametrize("value", ["that", "z", 2, ["b"], {"b"}, True])
def test_a_choice_that_is_no_letter_says_which_there_are(value):
    verdict = verdict_on(CHOICE, value)
    assert verdict.slip == "not a letter"
    assert "a, b" in verdict.message


@pytest.mark.parametrize(
    ("value", "slip"),
    [
        (["a", "b"], "list for a set"),
        ("ab", "not a set"),
        ({"a": "b"}, "not a set"),
        ({"a", "z"}, "unknown letter"),
        ({"a"}, "missing"),
        ({"a", "b", "c"}, "other"),
    ],
)
def test_a_set_that_is_not_right_is_told_why(value, slip):
    assert verdict_on(SET, value).slip == slip


def test_an_order_left_scrambled_is_unanswered():
    assert verdict_on(ORDER, list(ORDER.start)).status == "unanswered"


@pytest.mark.parametrize(
    ("value", "slip"),
    [
        (["two", "one", "three"], "late start"),
        (["one", "three", "two"], None),
        (["one", "two"], "other lines"),
        (["one", "two", "two"], "other lines"),
        (["one", "two", 3], "other lines"),
        ("one two three", "not a list"),
    ],
)
def test_an_order_that_is_not_right_is_told_why(value, slip):
    verdict = verdict_on(ORDER, value)
    assert (verdict.status, verdict.slip) == ("not yet", slip)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (["one", "two", "two"], "more than once: two"),
        (["one", "two"], "missing: three"),
        (["one", "two", "thre"], "none of the lines: thre"),
        ([1, 2, 3], "the lines themselves"),
    ],
)
def test_an_order_with_other_lines_says_which(value, says):
    assert says in verdict_on(ORDER, value).message


def test_an_order_does_not_mind_capitals_and_full_stops():
    assert verdict_on(ORDER, ["One.", " two", "THREE"]).status == "right"


def test_a_set_with_two_letters_in_one_text_says_so():
    assert "quotes of its own" in verdict_on(SET, {"a, b"}).message


def test_another_word_for_a_choice_counts():
    match = dataclasses.replace(MATCH, also={"icy": "cold"})
    assert verdict_on(match, {"ice": "icy", "fire": "hot"}).status == "right"


def test_a_caret_for_a_power_is_named():
    assert verdict_on(NUMBER, 20e9 / (10 ^ 9)).slip == "caret"
    function = dataclasses.replace(FUNCTION, unit="GB", reference=lambda sizes: sum(sizes) / 10**9)
    assert run(function, "def total(sizes): return sum(sizes) / (10 ^ 9)").slip == "caret"


def test_scrambling_never_gives_the_right_order_and_loses_nothing():
    for seed in range(40):
        mixed = scrambled(("a", "b"), seed)
        assert mixed == ("b", "a")


# ---------------------------------------------------------------- functions


@pytest.mark.parametrize(
    ("body", "slip", "says"),
    [
        ("return sum(sizes) / 0", "raises", "ZeroDivisionError"),
        ("return sum(size)", "unknown name", "not defined"),
        ("raise NotImplementedError", "stub raises", "Delete it"),
        ("print(sum(sizes))", "prints", "prints"),
        ("sum(sizes)", "returns None", "return"),
        ("return str(sum(sizes))", "text for a number", "quotes"),
        ("return [sum(sizes)]", "not a number", "a list"),
        ("return sum(sizes) > 3", "truth value", "truth value"),
        ("return float('nan')", "nan", "nan"),
        ("return -sum(sizes)", "negative", "zero"),
        ("return max(sizes)", "largest", "others"),
        ("return 6", "always the same", "every input"),
        ("return 6 if len(sizes) == 3 else sizes[0]", "only the example", "worked example"),
        ("sizes.append(0); return sum(sizes)", "changes its input", "copy"),
        ("while True: pass", "too slow", "stopped"),
        ("raise KeyboardInterrupt", "raises", "KeyboardInterrupt"),
        ("import sys; sys.exit()", "raises", "SystemExit"),
        ("return total(sizes)", "raises", "RecursionError"),
        (
            "return type('I', (int,), {'__eq__': lambda a, b: True, '__hash__': int.__hash__})(0)",
            "not plain",
            "plain",
        ),
        ("return type('Y', (), {'__eq__': lambda a, b: True})()", "not a number", "object of type Y"),
    ],
)
def test_a_function_that_is_not_right_is_told_why(body, slip, says):
    verdict = run(FUNCTION, f"def total(sizes):\n    {body}\n")
    assert (verdict.status, verdict.slip) == ("not yet", slip)
    assert says in verdict.message
    assert "\n" not in verdict.message


def test_a_function_that_takes_other_arguments_is_told_so():
    verdict = run(FUNCTION, "def total(): return 1")
    assert verdict.slip == "other arguments"
    assert "def total(sizes):" in verdict.message
    assert run(FUNCTION, "def total(a, b): return a + b").slip == "other arguments"


def test_a_value_in_place_of_a_function_is_told_so():
    assert run(FUNCTION, "total = 6").slip == "not a function"
    assert run(FUNCTION, "total = None").status == "unanswered"


def test_an_untouched_function_is_unanswered():
    assert (
        run(FUNCTION, 'def total(sizes):\n    """Add the sizes up."""\n    # your answer here\n').status
        == "unanswered"
    )


@pytest.mark.parametrize(
    "source", ["total = sum", "total = lambda sizes: float(sum(sizes))", "def total(*a): return sum(*a)"]
)
def test_a_right_function_in_any_form_is_right(source):
    assert run(FUNCTION, source).status == "right"


def test_the_line_that_raised_is_named():
    assert "line 3" in run(FUNCTION, "def total(sizes):\n    half = 0\n    return 1 / half\n").message


@pytest.mark.parametrize(
    ("body", "asks"),
    [
        ("return 1 / 0", "What can be zero there?"),
        ("return {}['total']", "Which keys does that dict have"),
        ("return sizes.totl", "after the dot"),
        ("return {}.numel()", "not a tensor"),
        ("return 1.5 ^ 2", "two stars"),
        ("return momentum", "needs quotes"),
        ("return None.numel()", "still None"),
        ("return sizes + 1", "not of the kind"),
        ("return int('x')", "What does that line need"),
    ],
)
def test_an_error_is_answered_with_a_question(body, asks):
    assert asks in run(FUNCTION, f"def total(sizes):\n    {body}\n").message


def test_fresh_inputs_follow_the_seed():
    def asked(seed):
        return [request.args for request in FUNCTION.requests(random.Random(seed))]

    assert asked(1) == asked(1) != asked(2)


# ---------------------------------------------------------------- texts


def test_a_text_is_marked_by_hand_and_its_ideas_are_counted():
    verdict = verdict_on(TEXT, "Because of the heat.")
    assert (verdict.status, verdict.fraction) == ("by hand", 0)
    assert verdict.details == ("found: a cause", "found: a thing")
    assert verdict_on(TEXT, "It is hot.").message.startswith("2 key ideas of 2")


@pytest.mark.parametrize("value", ["", " \n", "...", None])
def test_an_empty_text_is_unanswered(value):
    assert verdict_on(TEXT, value).status == "unanswered"


def test_a_text_that_is_no_text_is_told_so():
    assert verdict_on(TEXT, 14).slip == "not a text"


def test_sentences_and_their_neighbours_are_read_together():
    assert windows("It\u2019s 10.5 bytes. No more!") == [
        "it's 10_5 bytes",
        "no more",
        "it's 10_5 bytes. no more",
    ]


COPY = (Idea(name="copy", all_of=(Said(r"copy"),)), Idea(name="no copy", all_of=(denied(r"copy"),)))


@pytest.mark.parametrize(
    ("text", "stated", "negated"),
    [
        ("There is a copy.", True, False),
        ("There is no copy.", False, True),
        ("No gradient, moments or copy is kept.", False, True),
        ("It does not move, it has a copy.", True, False),
        ("It does not move and needs a copy.", True, False),
        ("A copy is not needed.", False, True),
        ("A copy is superfluous.", False, True),
        ("A copy cannot be dropped.", True, False),
        ("It avoids a copy.", False, True),
        ("It doesn't spare you a copy.", True, False),
        ("Not only the weight but a copy too.", True, False),
        ("fp16 needs a copy, bf16 does not.", True, True),
        ("It moves. Nothing else has a copy.", False, True),
        ("Nothing moves. It has a copy.", True, False),
    ],
)
def test_what_is_denied_is_told_from_what_is_stated(text, stated, negated):
    assert tuple(idea.found_in(text) for idea in COPY) == (stated, negated)


def test_one_of_several_ways_is_enough_and_a_tuple_belongs_together():
    idea = Idea(name="x", all_of=(either("apple", ("pear", denied("sour"))),))
    assert idea.found_in("An apple")
    assert idea.found_in("A pear is not sour")
    assert not idea.found_in("A pear is sour")


def test_an_idea_is_not_found_where_the_contrary_stands():
    idea = Idea(name="x", all_of=(r"moments?", r"same"), unless=(r"not the same",))
    assert idea.found_in("The moments stay the same.")
    assert not idea.found_in("The moments are not the same.")


# ---------------------------------------------------------------- replies that are no replies


@pytest.mark.parametrize(
    "question", [NUMBER, TABLE, ORDER, MATCH, CHOICE, SET, FUNCTION, TEXT], ids=lambda q: q.name
)
@pytest.mark.parametrize(
    "reply",
    [
        None,
        14,
        "right",
        [],
        {},
        {"ok": 14},
        {"ok": {"t": "int"}},
        {"ok": {"t": "list", "v": 3}},
        {"died": True},
        {"ok": True},
    ],
    ids=str,
)
def test_nonsense_on_the_wire_earns_nothing(question, reply):
    requests = question.requests(random.Random(0))
    verdict = question.judge([reply] * len(requests), requests)
    assert verdict.fraction == 0
    assert verdict.status in ("not yet", "unanswered")


def test_too_few_replies_earn_nothing():
    assert FUNCTION.judge([{"ok": wire.encode(6)}], FUNCTION.requests(random.Random(0))).fraction == 0
