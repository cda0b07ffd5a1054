"""What happens, number by number, in one training step of a model of four parameters?

The model is a frozen body, hidden = v x input + c, and a trainable head, output = w x hidden + b; the loss is
the squared gap. Everything is computed here in plain Python; the tests compare it with torch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from memory_budget import budget
from memory_budget.palette import TENSOR_CLASSES
from memory_budget.units import bytes_text, number_text

VALUE_BYTES = 4  # fp32
OPTIMIZERS = ("sgd", "momentum", "adam")
EPSILON = 1e-8  # Adam's, as in torch


@dataclass(frozen=True, kw_only=True)
class Model:
    """The small model, one example, and a learning rate."""

    v: float = 0.5
    c: float = 1.0
    w: float = 2.0
    b: float = 1.0
    x: float = 2.0
    expected: float = 7.0
    learning_rate: float = 0.05


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One moment of the step: who is at work, whose tensors are alive, what they show, bytes by class."""

    name: str
    says: str
    lit: frozenset[str]
    alive: frozenset[str]
    shows: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)

    @property
    def held_bytes(self) -> int:
        """All bytes held at this moment."""
        return sum(self.held.values())

    @property
    def words(self) -> str:
        """The stage as a sentence, memory included."""
        parts = ", ".join(
            f"{TENSOR_CLASSES[key].label} {bytes_text(size)}" for key, size in self.held.items()
        )
        return f"{self.says} In memory: {parts}; together {bytes_text(self.held_bytes)}."


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Everything that one step computes; `moments` are the optimizer's states of w and b after the step."""

    hidden: float
    output: float
    gap: float
    loss: float
    signal: float
    gradients: tuple[float, float]
    moments: tuple[tuple[float, float], ...]
    changes: tuple[float, float]
    after: tuple[float, float]


def compute(model: Model, optimizer: str = "adam") -> Numbers:
    """Forward pass, loss, gradients of w and b, and the first step of the optimizer."""
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, not {optimizer!r}")
    hidden = model.v * model.x + model.c
    output = model.w * hidden + model.b
    gap = output - model.expected
    signal = 2 * gap
    gradients = (signal * hidden, signal)
    moments, changes = _first_step(gradients, optimizer, model.learning_rate)
    return Numbers(
        hidden=hidden, output=output, gap=gap, loss=gap * gap, signal=signal, gradients=gradients,
        moments=moments, changes=changes, after=(model.w + changes[0], model.b + changes[1]),
    )  # fmt: skip


def _first_step(
    gradients: tuple[float, float], optimizer: str, learning_rate: float
) -> tuple[tuple[tuple[float, float], ...], tuple[float, float]]:
    """The states after the first step, and how far w and b move (arXiv 1412.6980, algorithm 1, for Adam)."""
    first, second = gradients
    if optimizer == "sgd":
        return (), (-learning_rate * first, -learning_rate * second)
    if optimizer == "momentum":
        return ((first, second),), (-learning_rate * first, -learning_rate * second)
    means = (0.1 * first, 0.1 * second)
    squares = (0.001 * first**2, 0.001 * second**2)
    moves = tuple(-learning_rate * g / (math.sqrt(g * g) + EPSILON) for g in gradients)
    return (means, squares), moves


def _text(value: float) -> str:
    return ("-" if value < 0 else "") + number_text(abs(value))


ALWAYS = frozenset({"body", "head"})  # parameters, frozen or not, are held at every moment
ACTIVATIONS, TEMPORARIES = ("input", "hidden", "output"), ("expected", "loss")


def _held(optimizer: str, alive: frozenset[str]) -> dict[str, int]:
    """Bytes by class of what is alive: the parameters, and one value for each of the other tensors."""
    kept = budget.terms(2, 2, "fp32", optimizer)
    asked = {"weights": "head", "frozen_weights": "body", "gradients": "gradients"}
    asked |= {"first_moment": "optimizer", "second_moment": "optimizer"}
    held = {key: kept[key] for key, actor in asked.items() if actor in alive}
    held |= {"activations": VALUE_BYTES * sum(name in alive for name in ACTIVATIONS)}
    held |= {"temporaries": VALUE_BYTES * sum(name in alive for name in TEMPORARIES)}
    return {key: held[key] for key in TENSOR_CLASSES if held.get(key)}


def _stage(name: str, says: str, lit: str, alive: str, shows: Mapping[str, str], optimizer: str) -> Stage:
    living = frozenset(alive.split()) | ALWAYS
    shown = {key: value for key, value in shows.items() if key != "hidden" or "hidden" in living}
    return Stage(
        name=name, says=says, lit=frozenset(lit.split()), alive=living, shows=shown,
        held=_held(optimizer, living),
    )  # fmt: skip


def training(model: Model, optimizer: str = "adam") -> tuple[Stage, ...]:
    """The eight stages of one training step."""
    n = compute(model, optimizer)
    x, h, out, want, loss = map(_text, (model.x, n.hidden, n.output, model.expected, n.loss))
    grad_w, grad_b = map(_text, n.gradients)
    w, b, new_w, new_b = map(_text, (model.w, model.b, *n.after))
    fixed = {"body": f"v = {_text(model.v)}, c = {_text(model.c)}", "head": f"w = {w}, b = {b}"}
    one = fixed | {"input": x}
    two = one | {"hidden": f"h = {h}", "output": out}
    three = two | {"expected": want}
    four = three | {"loss": loss}
    six = four | {"gradients": f"w: {grad_w}, b: {grad_b}"}
    seven = six | {"optimizer": _states(n.moments), "changed": f"w {_change(n, 0)}, b {_change(n, 1)}"}
    return (
        _stage("input", f"The input {x} enters the model.", "input", "input", one, optimizer),
        _stage(
            "forward pass",
            f"The frozen body makes {_text(model.v)} x {x} + {_text(model.c)} = {h}; the head makes "
            f"{w} x {h} + {b} = {out}. The {h} is kept: the gradient of w will need it.",
            "input body head output", "input hidden output", two, optimizer,
        ),
        _stage(
            "output against expected output",
            f"The output is {out}, expected was {want}: a gap of {_text(n.gap)}.",
            "output expected", "input hidden output expected", three, optimizer,
        ),
        _stage(
            "loss", f"The loss is the gap squared: {loss}.",
            "output expected loss", "input hidden output expected loss", four, optimizer,
        ),
        _stage(
            "backward pass",
            "A signal goes back: for each 1 that the output grows, the loss changes by "
            f"2 x {_text(n.gap)} = {_text(n.signal)}. It stops at the head: the body behind it is frozen.",
            "loss backward head", "input hidden loss", four, optimizer,
        ),
        _stage(
            "gradients",
            f"Each trainable parameter gets its gradient: w {_text(n.signal)} x {h} = {grad_w}, b {grad_b}. "
            "The frozen v and c get none. What the forward pass kept is let go.",
            "backward gradients head", "gradients", six, optimizer,
        ),
        _stage(
            "optimizer",
            f"{_optimizer_says(optimizer)} It turns the gradients into changes: w {_change(n, 0)}, "
            f"b {_change(n, 1)}.",
            "gradients optimizer changed", "gradients optimizer", seven, optimizer,
        ),
        _stage(
            "changed parameters",
            f"w goes from {w} to {new_w}, b from {b} to {new_b}. v and c are what they were. The gradients "
            f"are cleared{', the optimizer keeps its state' if n.moments else ''}.",
            "changed head", "optimizer", seven | {"head": f"w = {new_w}, b = {new_b}"}, optimizer,
        ),
    )  # fmt: skip


def inference(model: Model) -> tuple[Stage, ...]:
    """The three stages of running the model: the forward pass, and nothing after it."""
    run = training(model, "sgd")
    n = compute(model, "sgd")
    says = run[1].says.rsplit(" The ", 1)[0]
    return (
        _stage("input", run[0].says, "input", "input", run[0].shows, "sgd"),
        _stage(
            "forward pass", f"{says} The {_text(n.hidden)} is let go at once: no gradient will need it.",
            "input body head output", "input output", run[1].shows | {"hidden": ""}, "sgd",
        ),
        _stage(
            "output",
            f"The output is {_text(n.output)}. Nothing else happens: no loss, no gradient, no optimizer; all "
            "four parameters stay.",
            "output", "output", run[1].shows, "sgd",
        ),
    )  # fmt: skip


def _change(n: Numbers, i: int) -> str:
    return f"{'+' if n.changes[i] >= 0 else '-'}{number_text(abs(n.changes[i]))}"


def _states(moments: tuple[tuple[float, float], ...]) -> str:
    return {0: "keeps nothing", 1: "1 value each", 2: "2 values each"}[len(moments)]


def _optimizer_says(optimizer: str) -> str:
    return {
        "sgd": "SGD keeps nothing.",
        "momentum": "SGD with momentum makes its state: a running mean for each trainable parameter.",
        "adam": "Adam makes its state: two moments for each trainable parameter.",
    }[optimizer]
