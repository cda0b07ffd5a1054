"""What is asked of a notebook's names and what comes back, as plain JSON: the road between code and judge.

This file stands alone (standard library only, nothing of the course), because the process that runs student
code gets it and nothing else. A request names a value or a call; `reply_to` answers it beside the student's
code; `encode` turns a value into JSON by its exact type, so that no subclass with its own `__eq__`,
`__float__` or `__hash__` is asked what it equals; `decode` rebuilds it on the trusted side and believes
nothing.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import inspect
import io
import json
import linecache
import math
import sys
import types
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 8
MAX_NODES = 20_000
MAX_TEXT = 100_000
MAX_INT_BITS = 2_000
MAX_LINE = 300
SCALAR_TAGS = ("none", "bool", "int", "float", "str")


# ---------------------------------------------------------------- requests


@dataclass(frozen=True, kw_only=True)
class Value:
    """The value that the notebook holds under a name."""

    name: str

    def to_json(self) -> dict:
        return {"ask": "value", "name": self.name}


@dataclass(frozen=True, kw_only=True)
class Call:
    """The result of calling the notebook's function `name` with plain arguments.

    `around` is source text of ours that runs beside the student's code: `arguments(*args)` makes what the
    function is really called with (a model, an optimizer), `reply(arguments, result)` turns what came of it
    into plain data. It must hold nothing that a student may not read.
    """

    name: str
    args: tuple = ()
    timeout_s: float = 5.0
    around: str = ""

    def to_json(self) -> dict:
        return {
            "ask": "call",
            "name": self.name,
            "args": [encode(argument) for argument in self.args],
            "timeout_s": self.timeout_s,
            "around": self.around,
        }


@dataclass(frozen=True, kw_only=True)
class Look:
    """What became of several of the notebook's names: `around` defines `look(names)`, which gives plain data.

    Like a call's, `around` runs beside the student's code and must hold nothing that a student may not read.
    """

    name: str
    around: str
    timeout_s: float = 5.0

    def to_json(self) -> dict:
        return {
            "ask": "look",
            "name": self.name,
            "args": [],
            "timeout_s": self.timeout_s,
            "around": self.around,
        }


Request = Value | Call | Look


# ---------------------------------------------------------------- what decode gives back


@dataclass(frozen=True)
class Refused:
    """A reply that is no plain value: too large, malformed, or not to be trusted."""

    reason: str


@dataclass(frozen=True)
class Other:
    """Something that is not plain data: what it is ("function", "object", ...) and its type's name."""

    what: str
    name: str = ""


class _TooMuch(Exception):
    """A cap was reached."""


# ---------------------------------------------------------------- encode


def encode(value: Any) -> dict:
    """Return `value` as plain JSON; never raises and never trusts a subclass."""
    try:
        return _Encoder().node(value, 0)
    except _TooMuch as cap:
        return {"t": "refused", "v": str(cap)}
    except RecursionError:
        return {"t": "refused", "v": "nested too deeply"}
    except Exception:
        return {"t": "refused", "v": "could not be read"}


class _Encoder:
    def __init__(self) -> None:
        self.nodes = 0
        self.text = 0

    def node(self, value: Any, depth: int) -> dict:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _TooMuch("too many items")
        if depth > MAX_DEPTH:
            raise _TooMuch("nested too deeply")
        kind = type(value)
        if value is None:
            return {"t": "none"}
        if kind is bool:
            return {"t": "bool", "v": value}
        if kind is int:
            return self.integer(value)
        if kind is float:
            return _float_node(value)
        if kind is complex:
            return {"t": "complex"}
        if kind is str:
            return self.string(value)
        if kind is list or kind is tuple:
            return {
                "t": "list" if kind is list else "tuple",
                "v": [self.node(item, depth + 1) for item in value],
            }
        if kind is set or kind is frozenset:
            return self.unordered(value, depth)
        if kind is dict or _is_a(kind, "collections", "OrderedDict", "defaultdict", "Counter"):
            return self.mapping(value, depth)
        if kind is range or kind is type({}.keys()) or kind is type({}.values()):
            return {"t": "list", "v": [self.node(item, depth + 1) for item in _capped(value)]}
        plain = _plain_number(value, kind)
        if plain is not None:
            return self.node(plain[0], depth)
        return _other_node(value, kind)

    def integer(self, value: int) -> dict:
        if value.bit_length() > MAX_INT_BITS:
            raise _TooMuch("a number with too many digits")
        return {"t": "int", "v": value}

    def string(self, value: str) -> dict:
        self.text += len(value)
        if self.text > MAX_TEXT:
            raise _TooMuch("too long a text")
        return {"t": "str", "v": value.encode("utf-8", "replace").decode("utf-8")}

    def unordered(self, value: set | frozenset, depth: int) -> dict:
        items = [self.node(item, depth + 1) for item in value]
        return {"t": "set", "v": sorted(items, key=json.dumps)}

    def mapping(self, value: dict, depth: int) -> dict:
        pairs = [[self.node(key, depth + 1), self.node(item, depth + 1)] for key, item in dict.items(value)]
        return {"t": "dict", "v": pairs}


def _capped(values: Any) -> list:
    if len(values) > MAX_NODES:
        raise _TooMuch("too many items")
    return list(values)


def _float_node(value: float) -> dict:
    return {"t": "float", "v": value if math.isfinite(value) else repr(value)}


def _is_a(kind: type, module: str, *names: str) -> bool:
    """Is `kind` one of the named classes of a module that is already imported (compared by identity only)?"""
    home = sys.modules.get(module)
    if home is None:
        return False
    return any(kind is vars(home).get(name) for name in names)


def _plain_number(value: Any, kind: type) -> tuple[Any] | None:
    """A numpy, torch, fractions or decimal number (or small array) in a 1-tuple; else None."""
    if _is_a(kind, "fractions", "Fraction"):
        exact = value.numerator if value.denominator == 1 else value.numerator / value.denominator
        return (exact,)
    if _is_a(kind, "decimal", "Decimal"):
        return (float(value),)
    if _is_numpy_scalar(kind):
        return (value.item(),)
    if _is_a(kind, "numpy", "ndarray"):
        return (_array(value.size, value),)
    if _is_a(kind, "torch", "Tensor") or _is_a(kind, "torch.nn.parameter", "Parameter"):
        return (_array(value.numel(), value.detach()),)
    return None


def _is_numpy_scalar(kind: type) -> bool:
    names = ("float16", "float32", "float64", "longdouble", "bool_", "str_", "complex64", "complex128")
    whole = (
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "longlong",
        "ulonglong",
    )
    return _is_a(kind, "numpy", *names, *whole)


def _array(size: int, array: Any) -> Any:
    if size == 1:
        plain = array.item()
        return plain if type(plain) in (bool, int, float, complex, str) else float(plain)
    if size > MAX_NODES:
        raise _TooMuch("too many items")
    return array.tolist()


def _other_node(value: Any, kind: type) -> dict:
    """What a value that is no plain data is, without asking the value itself."""
    what = "object"
    if value is ...:
        what = "ellipsis"
    elif kind in _FUNCTIONS:
        what = "function"
    elif issubclass(kind, type):
        what = "class"
    elif kind is types.ModuleType:
        what = "module"
    elif kind is types.GeneratorType:
        what = "generator"
    elif any(
        kind is not base and issubclass(kind, base) for base in (int, float, str, list, dict, set, tuple)
    ):
        what = "subclass"
    return {"t": "other", "what": what, "name": _type_name(kind)}


class _Functions(tuple):
    """Membership by identity, because a metaclass may lie about `__eq__`."""

    def __contains__(self, kind: object) -> bool:
        return any(kind is known for known in self)


_FUNCTIONS = _Functions((types.FunctionType, types.BuiltinFunctionType, types.MethodType))


def _type_name(kind: type) -> str:
    try:
        return one_line(str(type.__dict__["__name__"].__get__(kind)), 60)
    except Exception:
        return "object"


# ---------------------------------------------------------------- decode


def decode(node: Any) -> Any:
    """Rebuild a value from JSON, or return `Refused(reason)`; believes nothing about its source."""
    try:
        return _Decoder().node(node, 0)
    except _TooMuch as cap:
        return Refused(str(cap))
    except Exception:
        return Refused("not a value this course can read")


class _Decoder:
    def __init__(self) -> None:
        self.nodes = 0
        self.text = 0

    def node(self, node: Any, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            raise _TooMuch("too large or nested too deeply")
        if type(node) is not dict or type(node.get("t")) is not str:
            raise _TooMuch("not a value this course can read")
        tag, body = node["t"], node.get("v")
        read = getattr(self, f"read_{tag}", None) if tag in _TAGS else None
        if read is None:
            raise _TooMuch("not a value this course can read")
        return read(node, body, depth)

    def read_none(self, node: dict, body: Any, depth: int) -> None:
        return None

    def read_bool(self, node: dict, body: Any, depth: int) -> bool:
        return _exactly(body, bool)

    def read_int(self, node: dict, body: Any, depth: int) -> int:
        if _exactly(body, int).bit_length() > MAX_INT_BITS:
            raise _TooMuch("a number with too many digits")
        return body

    def read_float(self, node: dict, body: Any, depth: int) -> float:
        if type(body) is str and body in ("nan", "inf", "-inf"):
            return float(body)
        return float(body) if type(body) is int and abs(body) < 2**1000 else _exactly(body, float)

    def read_complex(self, node: dict, body: Any, depth: int) -> Other:
        return Other("complex number", "complex")

    def read_str(self, node: dict, body: Any, depth: int) -> str:
        self.text += len(_exactly(body, str))
        if self.text > MAX_TEXT:
            raise _TooMuch("too long a text")
        return body.encode("utf-8", "replace").decode("utf-8")

    def read_list(self, node: dict, body: Any, depth: int) -> list:
        return [self.node(item, depth + 1) for item in _exactly(body, list)]

    def read_tuple(self, node: dict, body: Any, depth: int) -> tuple:
        return tuple(self.read_list(node, body, depth))

    def read_set(self, node: dict, body: Any, depth: int) -> frozenset:
        return frozenset(_hashable(item) for item in self.read_list(node, body, depth))

    def read_dict(self, node: dict, body: Any, depth: int) -> dict:
        made = {}
        for pair in _exactly(body, list):
            key, item = _exactly(pair, list)
            made[_hashable(self.node(key, depth + 1))] = self.node(item, depth + 1)
        return made

    def read_other(self, node: dict, body: Any, depth: int) -> Other:
        what = node.get("what")
        if type(what) is not str or what not in _OTHERS:
            raise _TooMuch("not a value this course can read")
        name = node.get("name")
        return Other(what, one_line(name, 60) if type(name) is str else "")

    def read_refused(self, node: dict, body: Any, depth: int) -> Any:
        raise _TooMuch(one_line(body, 80) if type(body) is str else "could not be read")


_TAGS = (*SCALAR_TAGS, "complex", "list", "tuple", "set", "dict", "other", "refused")
_OTHERS = ("object", "ellipsis", "function", "class", "module", "generator", "subclass")


def _exactly(body: Any, kind: type) -> Any:
    if type(body) is not kind:
        raise _TooMuch("not a value this course can read")
    return body


def _hashable(item: Any) -> Any:
    """Return a key or member that can be hashed; a list inside a set cannot come from Python."""
    hash(item)
    return item


# ---------------------------------------------------------------- replies


def reply_to(request: dict, namespace: dict) -> dict:
    """Answer one request from the names of a notebook; an error of the student's becomes part of the reply.

    Keys of a reply: `ok` (an encoded value), `missing`, `error` (with `line` and `code` where known),
    `arguments` (the function takes others), `value` (the name holds something that cannot be called), `stub`
    (an empty function), `printed`, `changed` (it altered what it was given). Whoever calls this stops it
    after the request's `timeout_s` and then writes `{"timeout": True}`; a process that ended is `{"died":
    True}`.
    """
    name = request["name"]
    if request["ask"] == "look":
        return _look(request, namespace)
    if name not in namespace:
        return {"missing": True}
    if request["ask"] == "value":
        return {"ok": encode(namespace[name])}
    return _call(namespace[name], request)


def _look(request: dict, namespace: dict) -> dict:
    try:
        return {"ok": encode(_surroundings(request["around"])["look"](namespace))}
    except Exception as error:
        return {"error": _said(error)}


def _call(function: Any, request: dict) -> dict:
    if not callable(function):
        return {"value": encode(function)}
    if _is_stub(function):
        return {"stub": True}
    around = _surroundings(request.get("around") or "")
    given = tuple(decode(argument) for argument in request["args"])
    arguments = tuple(around["arguments"](*given)) if "arguments" in around else given
    if not _takes(function, arguments):
        return {"arguments": True}
    printed = _Counter()
    try:
        with contextlib.redirect_stdout(printed):
            result = function(*arguments)
    except (Exception, SystemExit) as error:
        return _error(error, function)
    reply = _read_result(around, arguments, result)
    if printed.count:
        reply["printed"] = True
    if "arguments" not in around and [encode(argument) for argument in given] != request["args"]:
        reply["changed"] = True
    return reply


def _read_result(around: dict, arguments: tuple, result: Any) -> dict:
    if "reply" not in around:
        return {"ok": encode(result)}
    try:
        return {"ok": encode(around["reply"](arguments, result))}
    except Exception as error:
        return {"error": _said(error)}


def _surroundings(source: str) -> dict:
    if not source:
        return {}
    space: dict = {"__name__": "around"}
    exec(compile(source, "<question>", "exec"), space)
    return space


def _takes(function: Any, arguments: tuple) -> bool:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except Exception:
        return True
    return True


_EMPTY = {"RESUME", "NOP", "CACHE", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "POP_TOP", "EXTENDED_ARG"}


def _is_stub(function: Any) -> bool:
    """Is it a function that does nothing but return None (only a docstring, `pass` or `...`)?"""
    if type(function) is not types.FunctionType:
        return False
    steps = list(dis.get_instructions(function.__code__))
    if any(step.opname not in _EMPTY for step in steps):
        return False
    constants = [step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")]
    return all(constant is None or constant is ... for constant in constants)


class _Counter(io.TextIOBase):
    """Takes whatever is printed and keeps only how much it was."""

    count = 0

    def write(self, text: str) -> int:
        self.count += len(text)
        return len(text)


def _error(error: BaseException, function: Any) -> dict:
    """The error in one line, with the line of the student's own code that raised it."""
    reply: dict = {"error": _said(error)}
    home = getattr(getattr(function, "__code__", None), "co_filename", None)
    trace, found = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == home:
            found = trace
        trace = trace.tb_next
    if found is not None:
        reply["line"] = found.tb_lineno
        code = linecache.getline(home, found.tb_lineno)
        if code.strip():
            reply["code"] = one_line(code, 120)
    return reply


def _said(error: BaseException) -> str:
    try:
        return one_line(f"{type(error).__name__}: {error}").removesuffix(":")
    except Exception:
        return one_line(type(error).__name__, 60)


def one_line(text: str, length: int = MAX_LINE) -> str:
    """Return `text` as one printable line of at most `length` characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * length]).split())
    flat = flat.encode("utf-8", "replace").decode("utf-8")
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def clean_reply(reply: Any) -> dict:
    """Return a reply with only known keys of the right type; anything else becomes a refusal."""
    if type(reply) is not dict:
        return {"refused": "no readable reply"}
    for key in ("missing", "stub", "timeout", "died", "arguments"):
        if reply.get(key) is True:
            return {key: True}
    if type(reply.get("refused")) is str:
        return {"refused": one_line(reply["refused"], 120)}
    if type(reply.get("error")) is str:
        return _clean_error(reply)
    for key in ("value", "ok"):
        if type(reply.get(key)) is dict:
            flags = {flag: True for flag in ("printed", "changed") if reply.get(flag) is True}
            return {key: reply[key], **flags}
    return {"refused": "no readable reply"}


def _clean_error(reply: dict) -> dict:
    clean: dict = {"error": one_line(reply["error"])}
    if type(reply.get("line")) is builtins.int and 0 < reply["line"] < 1_000_000:
        clean["line"] = reply["line"]
    if type(reply.get("code")) is str:
        clean["code"] = one_line(reply["code"], 120)
    return clean
