"""The wire format: plain values cross it, lies do not, and nothing makes it fail."""

import ast
import collections
import decimal
import fractions
import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder import wire

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner), max_leaves=4)
PLAIN = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.frozensets(HASHABLE, max_size=4)
    ),
    max_leaves=12,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["t", "v", "what", "name", "ok", "error"]) | st.text(max_size=4), inner
        )
    ),
    max_leaves=20,
)
TAGGED = st.fixed_dictionaries(
    {"t": st.sampled_from([*wire._TAGS, "int ", "node"]), "v": JSON}, optional={"what": JSON, "name": JSON}
)


def through_json(value):
    return wire.decode(json.loads(json.dumps(wire.encode(value))))


class Liar:
    """Equal to everything, and a number of any size when asked."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        raise AssertionError("the hash of a student's object was asked for")

    def __float__(self):
        raise AssertionError("the value of a student's object was asked for")

    __int__ = __index__ = __bool__ = __len__ = __iter__ = __float__


class LyingInt(int):
    def __eq__(self, other):
        raise AssertionError("a subclass was compared")

    __hash__ = int.__hash__


class LyingType(type):
    def __eq__(cls, other):
        return True

    def __hash__(cls):
        raise AssertionError("the hash of a student's class was asked for")

    @property
    def __name__(cls):
        return "int"


class Disguised(metaclass=LyingType):
    """Its class claims to be equal to int."""


@given(PLAIN)
@settings(deadline=None)
def test_plain_values_survive_the_wire(value):
    assert same(through_json(value), value)


def same(one, other):
    """Equal, with 1, 1.0 and True told apart and lone surrogates of a text replaced."""
    if isinstance(other, str):
        return one == other.encode("utf-8", "replace").decode("utf-8")
    if isinstance(other, frozenset):
        return isinstance(one, frozenset) and len(one) <= len(other)
    if isinstance(other, dict):
        return isinstance(one, dict) and len(one) <= len(other)
    if isinstance(other, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@given(JSON | TAGGED)
@settings(max_examples=150, deadline=None)
def test_decoding_anything_gives_a_value_or_a_refusal(node):
    wire.decode(node)


@given(JSON)
@settings(max_examples=60, deadline=None)
def test_a_cleaned_reply_holds_known_keys_only(reply):
    clean = wire.clean_reply(reply)
    known = {"ok", "value", "missing", "stub", "timeout", "died", "arguments", "error", "refused"}
    assert clean.keys() & known
    assert clean.keys() <= known | {"line", "code", "printed", "changed"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_has_no_word_for_survive(value):
    json.loads(json.dumps(wire.encode(value)), parse_constant=pytest.fail)
    back = through_json(value)
    assert math.isnan(back) if math.isnan(value) else back == value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float64(14), 14.0),
        (np.float32(0.5), 0.5),
        (np.int64(14), 14),
        (np.uint8(3), 3),
        (np.array(14.0), 14.0),
        (np.array([14]), 14),
        (np.array([1.0, 2.0]), [1.0, 2.0]),
        (np.bool_(True), True),
        (np.str_("b"), "b"),
        (torch.tensor(14), 14),
        (torch.tensor(2.0**-7, dtype=torch.bfloat16), 2.0**-7),
        (torch.tensor([1.0, 2.0], requires_grad=True), [1.0, 2.0]),
        (torch.nn.Parameter(torch.tensor(1.5)), 1.5),
        (fractions.Fraction(14), 14),
        (fractions.Fraction(1, 4), 0.25),
        (decimal.Decimal("14.5"), 14.5),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (range(3), [0, 1, 2]),
        ({"a": 1}.keys(), ["a"]),
        ({"b", "d"}, frozenset("bd")),
    ],
)
def test_what_people_really_compute_with_becomes_plain(value, plain):
    back = through_json(value)
    assert back == plain
    assert type(back) is type(plain)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Liar(), "object"),
        (LyingInt(14), "subclass"),
        (Disguised(), "object"),
        (Disguised, "class"),
        (len, "function"),
        (lambda: 14, "function"),
        (math, "module"),
        (..., "ellipsis"),
        ((n for n in ()), "generator"),
        (1j, "complex number"),
    ],
)
def test_what_is_not_plain_is_named_and_never_asked(value, what):
    assert through_json(value).what == what


def test_a_class_that_claims_another_name_is_known_by_its_own():
    assert through_json(Disguised()) == wire.Other("object", "Disguised")


def test_true_and_one_are_told_apart():
    assert through_json(True) is True
    assert type(through_json(1)) is int


def cycle():
    loop = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    "value", [list(range(30_000)), "x" * 200_000, cycle(), 10**4000, np.zeros(10**6), [[0] * 200] * 200]
)
def test_what_is_too_large_or_deep_is_refused(value):
    assert isinstance(through_json(value), wire.Refused)


def test_a_set_is_written_in_the_same_order_whatever_the_hash_seed():
    program = "from autograder import wire; print(wire.encode({'a', 'b', 'c', 'd', 1, 2.5}))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(printed) == 1


def test_the_wire_imports_nothing_but_the_standard_library():
    source = Path(wire.__file__).read_text("utf-8")
    names = {
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names | {"__future__"}


def test_the_wire_works_as_a_lone_file(tmp_path):
    alone = tmp_path / "wire.py"
    alone.write_bytes(Path(wire.__file__).read_bytes())
    spec = importlib.util.spec_from_file_location("lone_wire", alone)
    module = importlib.util.module_from_spec(spec)
    sys.modules["lone_wire"] = module
    try:
        spec.loader.exec_module(module)
        assert module.reply_to({"ask": "value", "name": "x"}, {"x": 14}) == {"ok": {"t": "int", "v": 14}}
    finally:
        del sys.modules["lone_wire"]


# ---------------------------------------------------------------- replies


def reply(source, name="f", args=(), around=""):
    space = {}
    exec(compile(source, "<cell>", "exec"), space)
    return wire.reply_to(wire.Call(name=name, args=args, around=around).to_json(), space)


def test_a_function_is_called_with_the_arguments_sent():
    assert wire.decode(reply("def f(a, b): return [a, b]", args=(1, (2.5, "x")))["ok"]) == [1, (2.5, "x")]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = 1", {"missing": True}),
        ('def f(a):\n    """Say what it returns."""\n', {"stub": True}),
        ("def f(a): pass", {"stub": True}),
        ("def f(a): ...", {"stub": True}),
        ("def f(): return 1", {"arguments": True}),
        ("def f(a, b): return 1", {"arguments": True}),
        ("f = 14", {"value": {"t": "int", "v": 14}}),
        ("def f(a): print('x'); return 1", {"ok": {"t": "int", "v": 1}, "printed": True}),
        (
            "def f(a):\n    b = 1\n    return b / 0",
            {"error": "ZeroDivisionError: division by zero", "line": 3},
        ),
        ("import sys\ndef f(a): sys.exit(3)", {"error": "SystemExit: 3", "line": 2}),
        ("def f(a): return g(a)\ndef g(a): raise KeyError('k')", {"error": "KeyError: 'k'", "line": 2}),
        (
            "def f(a):\n    class E(Exception):\n        def __str__(self): 1/0\n    raise E",
            {"error": "E", "line": 4},
        ),
    ],
)
def test_each_way_a_function_can_fail_has_its_reply(source, expected):
    assert reply(source, args=(1,)) == expected


def test_a_constant_is_an_answer_and_no_stub():
    assert wire.decode(reply("def f(a): return 1", args=(1,))["ok"]) == 1


def test_an_altered_argument_is_reported():
    assert reply("def f(a): a.append(1); return 0", args=([1],))["changed"] is True
    assert "changed" not in reply("def f(a): return sum(a)", args=([1],))


def test_what_stands_around_a_call_makes_its_arguments_and_reads_its_result():
    around = "def arguments(n): return (list(range(n)),)\n"
    around += "def reply(arguments, result): return [arguments[0], result]\n"
    got = reply("def f(a): a.append(9)", args=(2,), around=around)
    assert wire.decode(got["ok"]) == [[0, 1, 9], None]


def test_an_error_message_is_one_line_of_a_bounded_length():
    got = reply("def f(): raise ValueError('a\\nb' * 5000)")
    assert "\n" not in got["error"]
    assert len(got["error"]) <= wire.MAX_LINE


# ---------------------------------------------------------------- a look at several names


def test_a_look_reads_what_became_of_the_notebook_s_names():
    look = wire.Look(name="a", around="def look(names):\n    return names['a'] + names.get('b', 0)")
    assert wire.reply_to(look.to_json(), {"a": 1, "b": 2}) == {"ok": {"t": "int", "v": 3}}


def test_a_look_that_finds_no_such_name_is_an_error_and_no_crash():
    look = wire.Look(name="a", around="def look(names):\n    return names['a']")
    assert wire.reply_to(look.to_json(), {})["error"].startswith("KeyError")
