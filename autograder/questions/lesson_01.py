"""The questions of lesson 1: which parameters may change, and what a training step must keep."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder import verdict
from autograder.kinds import Choice, Function, Match, Number, Order, Relation, Rep, Set, Slip
from autograder.kinds.base import article, close, key_trouble, number_trouble
from autograder.kinds.order import scrambled
from autograder.verdict import Verdict

GB = 10**9

#: importing torch for the first time takes seconds on a busy machine
TORCH_TIMEOUT_S = 30.0
AROUND = Path(__file__).with_name("small_models.py").read_text("utf-8")
GROUPS = ("body", "head", "neck", "tail", "trunk", "lift")

# ---------------------------------------------------------------- small models, as specifications


def fresh_spec(rng: random.Random, optimizer: str = "adamw") -> dict[str, Any]:
    """Return a model of three linear groups with fresh names and sizes, the middle one frozen."""
    names = rng.sample(GROUPS, 3)
    sizes = [rng.randrange(3, 40) for _ in range(4)]
    biases = [True, rng.random() < 0.5, True]
    layers = {name: [sizes[i], sizes[i + 1], biases[i]] for i, name in enumerate(names)}
    return {"layers": layers, "frozen": [names[1]], "optimizer": optimizer}


def tensors(spec: dict[str, Any], trainable_only: bool = False) -> dict[str, int]:
    """Return {parameter name: elements} of the model a specification describes."""
    found = {}
    for group, (inputs, outputs, has_bias) in spec["layers"].items():
        if trainable_only and group in spec["frozen"]:
            continue
        found[f"{group}.weight"] = inputs * outputs
        if has_bias:
            found[f"{group}.bias"] = outputs
    return found


def shapes(spec: dict[str, Any], trainable_only: bool = False) -> list[tuple[int, ...]]:
    """Return the shapes of the model's tensors, in its order."""
    found: list[tuple[int, ...]] = []
    for name in tensors(spec, trainable_only):
        group, kind = name.split(".")
        inputs, outputs, _ = spec["layers"][group]
        found.append((outputs, inputs) if kind == "weight" else (outputs,))
    return found


def sizes_of(spec: dict[str, Any], trainable_only: bool = False) -> list[int]:
    """Return how many numbers each tensor holds, in the model's order."""
    return list(tensors(spec, trainable_only).values())


FIRST_ONLY = "Your result is the size of the first tensor. After how many rounds of the loop does it return?"
LAST_ONLY = "Your result is the size of the last tensor. Does each round add to the count, or begin it anew?"
ROWS_ONLY = "You count the rows of each tensor. What does `len` count, and what does `.numel()` count?"


def elements(spec: dict[str, Any], trainable_only: bool = False) -> int:
    """Return how many parameters the model has."""
    return sum(tensors(spec, trainable_only).values())


# ---------------------------------------------------------------- what changes when

COUNT_PARAMETERS = Function(
    name="count_parameters",
    points=1,
    prompt="How many parameters a model has",
    praise="Every element of every tensor is one parameter, whether it may change or not.",
    signature="count_parameters(model)",
    reference=lambda task, spec: elements(spec),
    inputs=lambda rng: [("plain", fresh_spec(rng)) for _ in range(3)],
    tolerance=0,
    around=AROUND,
    timeout_s=TORCH_TIMEOUT_S,
    hint="Add up the elements of every tensor that `model.parameters()` yields. Which of them are missing, "
    "or too many?",
    slips=(
        Slip(
            name="tensors",
            value=lambda task, spec: len(tensors(spec)),
            source="count_parameters = lambda model: len(list(model.parameters()))",
            message="You count tensors. How many numbers does one tensor hold?",
        ),
        Slip(
            name="no biases",
            value=lambda task, spec: sum(n for name, n in tensors(spec).items() if name.endswith("weight")),
            source="count_parameters = lambda model: sum(p.numel() for p in model.parameters() if p.dim() > "
            "1)",
            message="The matrices are counted. What is the b in y = wx + b?",
        ),
        Slip(
            name="trainable only",
            value=lambda task, spec: elements(spec, trainable_only=True),
            source="count_parameters = lambda model: sum(p.numel() for p in model.parameters() if "
            "p.requires_grad)",
            message="You count what may change. Does a parameter that stands still belong to the model?",
        ),
        Slip(
            name="bytes",
            value=lambda task, spec: 4 * elements(spec),
            source="count_parameters = lambda model: sum(p.numel() * p.element_size() for p in "
            "model.parameters())",
            message="This is the number of bytes. What does the function promise to count?",
        ),
        Slip(
            name="first tensor only",
            value=lambda task, spec: sizes_of(spec)[0],
            source="def count_parameters(model):\n    for p in model.parameters():\n        return p.numel()\n",
            message=FIRST_ONLY,
        ),
        Slip(
            name="last tensor only",
            value=lambda task, spec: sizes_of(spec)[-1],
            source="def count_parameters(model):\n    for p in model.parameters():\n        c = p.numel()\n    return c\n",
            message=LAST_ONLY,
        ),
        Slip(
            name="rows only",
            value=lambda task, spec: sum(shape[0] for shape in shapes(spec)),
            source="count_parameters = lambda model: sum(len(p) for p in model.parameters())",
            message=ROWS_ONLY,
        ),
    ),
    right_sources=(
        "def count_parameters(model):\n    return sum(p.numel() for p in model.parameters())\n",
        "def count_parameters(model):\n"
        "    count = 0\n"
        "    for name, tensor in model.named_parameters():\n"
        "        count += tensor.nelement()\n"
        "    return count\n",
        "import torch\ndef count_parameters(model):\n"
        "    return torch.tensor([p.numel() for p in model.parameters()]).sum()\n",
    ),
)

WHAT_CHANGES = Match(
    name="what_changes",
    points=1,
    prompt="Which parameters change in pre-training, inference and fine-tuning",
    praise="Fine-tuning leaves the choice to you, and that choice is what the rest of the lesson is about.",
    right={"pre-training": "all", "inference": "none of them", "fine-tuning": "some or all"},
    choices=("all", "none of them", "some or all"),
    also={"none": "none of them"},
    slips=(
        Slip(
            name="pre-training in part",
            value=("pre-training", "some or all"),
            message="Pre-training starts from random numbers. Which of them could stay as they are?",
        ),
        Slip(
            name="pre-training of nothing",
            value=("pre-training", "none of them"),
            message="Where would the model's knowledge come from?",
        ),
        Slip(
            name="inference that learns",
            value=("inference", "all"),
            message="Is the model different after it has answered your question?",
        ),
        Slip(
            name="inference that learns in part",
            value=("inference", "some or all"),
            message="Which numbers of the model would be others after it has answered your question?",
        ),
        Slip(
            name="fine-tuning of all",
            value=("fine-tuning", "all"),
            message="That is one way to do it. Must every parameter be trained again?",
        ),
        Slip(
            name="fine-tuning of nothing",
            value=("fine-tuning", "none of them"),
            message="How would the model come to behave otherwise than before?",
        ),
        Slip(
            name="fine-tuning of some",
            value=("fine-tuning", "some"),
            message="That is one way to do it. Is it forbidden to go further? Look at the choices again.",
        ),
    ),
)

# ---------------------------------------------------------------- one training step

EVENTS = (
    "the input goes into the model",
    "the forward pass computes an output",
    "the loss measures the gap to the expected output",
    "each trainable parameter gets its gradient",
    "the optimizer turns the gradients into changes",
    "the trainable parameters have new values",
)

ORDER_OF_EVENTS = Order(
    name="order_of_events",
    points=1,
    prompt="The events of one training step in order",
    praise="Each event makes what the next one needs.",
    right=EVENTS,
    start=scrambled(EVENTS, 3),
    slips=(
        Slip(
            name="output before input",
            value=(EVENTS[1], EVENTS[0]),
            message="What does the forward pass compute its output from?",
        ),
        Slip(
            name="loss before output",
            value=(EVENTS[2], EVENTS[1]),
            message="The loss compares two things. Which of the two is not there yet?",
        ),
        Slip(
            name="gradient before loss",
            value=(EVENTS[3], EVENTS[2]),
            message="A gradient says how a certain number would change. Which number must be known before?",
        ),
        Slip(
            name="optimizer before gradient",
            value=(EVENTS[4], EVENTS[3]),
            message="What does the optimizer read to decide on a change?",
        ),
        Slip(
            name="changed before the optimizer",
            value=(EVENTS[5], EVENTS[4]),
            message="Who decides by how much a parameter moves, and does it stand before or after the move?",
        ),
    ),
)

# ---------------------------------------------------------------- the backward pass in three stages


def loss(w: float, b: float, x: float, y: float) -> float:
    """Return the squared gap between w*x + b and y."""
    return (w * x + b - y) ** 2


def gradient(w: float, b: float, x: float, y: float) -> tuple[float, float]:
    """Return how the loss changes with w and with b."""
    gap = w * x + b - y
    return 2 * gap * x, 2 * gap


def nudged(w: float, b: float, x: float, y: float, nudge: float) -> tuple[float, float]:
    """Return how the loss changes with w and with b over a nudge of some size, for each 1 of it."""
    at = loss(w, b, x, y)
    return (loss(w + nudge, b, x, y) - at) / nudge, (loss(w, b + nudge, x, y) - at) / nudge


def sgd_step(w: float, b: float, dw: float, db: float, learning_rate: float) -> tuple[float, float]:
    """Return w and b after one step of plain SGD."""
    return w - learning_rate * dw, b - learning_rate * db


def fresh_points(rng: random.Random) -> list[tuple[float, float, float, float]]:
    """Return (w, b, x, y) with a gap well away from 0, 1 and 2, where slips would hide."""
    drawn = []
    for sign in (1, -1, 1):
        w, b, x = rng.randrange(5, 40) / 10, rng.randrange(5, 40) / 10, rng.randrange(25, 60) / 10
        gap = sign * rng.choice((rng.randrange(12, 18), rng.randrange(23, 40))) / 10
        drawn.append((w, b, x, round(w * x + b - gap, 6)))
    return drawn


def fresh_steps(rng: random.Random) -> list[tuple[float, float, float, float, float]]:
    """Return (w, b, dw, db, learning_rate)."""
    made = []
    for _ in range(3):
        w, b = rng.randrange(5, 40) / 10, rng.randrange(5, 40) / 10
        dw, db = (
            rng.choice((-1, 1)) * rng.randrange(11, 60) / 10,
            rng.choice((-1, 1)) * rng.randrange(61, 90) / 10,
        )
        made.append((w, b, dw, db, rng.randrange(2, 30) / 100))
    return made


LOSS = Function(
    name="loss",
    points=1,
    prompt="The squared gap between what the model computes and what is expected",
    praise="One number that says how far off the model is.",
    signature="loss(w, b, x, expected)",
    reference=loss,
    inputs=fresh_points,
    example=(3.0, 0.0, 2.0, 3.0),
    tolerance=1e-4,
    negative=True,
    slips=(
        Slip(
            name="not squared",
            value=lambda w, b, x, y: w * x + b - y,
            message="This is the gap itself, which can be negative. What does the task do with the gap?",
        ),
        Slip(
            name="gap turned round",
            value=lambda w, b, x, y: y - w * x - b,
            message="This is the gap itself, taken the other way round. What does the task do with the gap?",
        ),
        Slip(
            name="absolute",
            value=lambda w, b, x, y: abs(w * x + b - y),
            message="This is the size of the gap. Which power of it does the task ask for?",
        ),
        Slip(
            name="half",
            value=lambda w, b, x, y: loss(w, b, x, y) / 2,
            message="This is half of the square. Some books do that; does this task?",
        ),
        Slip(
            name="no b",
            value=lambda w, b, x, y: (w * x - y) ** 2,
            message="The model has two parameters. Where does the second one come in?",
        ),
        Slip(
            name="b subtracted",
            value=lambda w, b, x, y: (w * x - b - y) ** 2,
            message="Look at the sign of b: is it added to wx or taken away?",
        ),
        Slip(
            name="only the output",
            value=lambda w, b, x, y: w * x + b,
            message="This is what the model computes. What is it compared with?",
        ),
        Slip(
            name="doubled",
            value=lambda w, b, x, y: 2 * (w * x + b - y),
            message="This is the gap times two. What is a number squared multiplied by?",
        ),
        Slip(
            name="only expected squared",
            value=lambda w, b, x, y: w * x + b - y**2,
            message="Only the expected output is squared. Where do brackets belong?",
        ),
        Slip(
            name="each squared",
            value=lambda w, b, x, y: (w * x + b) ** 2 - y**2,
            message="Output and expected output are squared one by one. Which one number is to be squared?",
        ),
        Slip(
            name="w and x trade places with b",
            value=lambda w, b, x, y: (b * w + x - y) ** 2,
            message="Your output is b * w + x. In which order does `line` take its arguments?",
        ),
        Slip(
            name="w for b",
            value=lambda w, b, x, y: (b * x + w - y) ** 2,
            message="Your output is b * x + w. Which of the two multiplies the input?",
        ),
    ),
    right_sources=(
        "def loss(w, b, x, y):\n    return (w * x + b - y) ** 2\n",
        "def loss(w, b, x, y):\n    gap = y - (w * x + b)\n    return gap * gap\n",
        "import torch\ndef loss(w, b, x, y):\n"
        "    return torch.nn.functional.mse_loss(torch.tensor(w * x + b), torch.tensor(y))\n",
    ),
)

GRADIENT = Function(
    name="gradient",
    points=1,
    prompt="How the loss changes with w and with b",
    praise="torch's backward pass gives the same two numbers.",
    signature="gradient(w, b, x, expected)",
    reference=gradient,
    inputs=fresh_points,
    example=(3.0, 0.0, 2.0, 3.0),
    tolerance=1e-4,
    negative=True,
    hint="Nudge w a little and see how much the loss changes for each unit of the nudge; then b. Which "
    "number is off?",
    slips=(
        Slip(
            name="no 2",
            value=lambda w, b, x, y: (gradient(w, b, x, y)[0] / 2, gradient(w, b, x, y)[1] / 2),
            message="Both are too small by one factor. What does squaring leave in front when you take its "
            "slope?",
        ),
        Slip(
            name="no x",
            value=lambda w, b, x, y: (gradient(w, b, x, y)[1],) * 2,
            message="Both numbers are the same. If w grows by one, by how much does wx grow?",
        ),
        Slip(
            name="sign",
            value=lambda w, b, x, y: tuple(-each for each in gradient(w, b, x, y)),
            message="Both signs are turned round. When the output is too large and w grows, does the loss "
            "grow or fall?",
        ),
        Slip(
            name="swapped",
            value=lambda w, b, x, y: gradient(w, b, x, y)[::-1],
            message="Both numbers are there. In which order does the task want them?",
        ),
        Slip(
            name="x for both",
            value=lambda w, b, x, y: (gradient(w, b, x, y)[0],) * 2,
            message="Both numbers are the same. If b grows by one, does x play any part in it?",
        ),
        Slip(
            name="gap not used",
            value=lambda w, b, x, y: (2 * x, 2.0),
            message="Your slopes do not depend on how far off the output is. Where does the gap come in?",
        ),
        Slip(
            name="b for 1",
            value=lambda w, b, x, y: (gradient(w, b, x, y)[0], gradient(w, b, x, y)[1] * b),
            message="The first is right. If b grows by 1, does it matter for the output how large b was?",
        ),
        Slip(
            name="w for x",
            value=lambda w, b, x, y: (gradient(w, b, x, y)[1] * w, gradient(w, b, x, y)[1]),
            message="The second is right. If w grows by 1, does the output move by w, or by what w multiplies?",
        ),
        Slip(
            name="w and b for x and 1",
            value=lambda w, b, x, y: (gradient(w, b, x, y)[1] * w, gradient(w, b, x, y)[1] * b),
            message="Each is multiplied by the parameter itself. How far does the output move when that "
            "parameter grows by 1?",
        ),
        Slip(
            name="loss for gap",
            value=lambda w, b, x, y: (2 * loss(w, b, x, y) * x, 2 * loss(w, b, x, y)),
            message="The loss stands where the gap belongs. Which of the two has a sign?",
        ),
        Slip(
            name="nudge of a thousandth",
            value=lambda w, b, x, y: nudged(w, b, x, y, 1e-3),
            message="This is the nudge of a thousandth, and near. Which rule gives the slope itself, without a "
            "nudge?",
        ),
        Slip(
            name="nudge of a hundredth",
            value=lambda w, b, x, y: nudged(w, b, x, y, 1e-2),
            message="This is a nudge of a hundredth, too coarse. Which rule gives the slope itself, without a "
            "nudge?",
        ),
    ),
    right_sources=(
        "def gradient(w, b, x, y):\n    gap = w * x + b - y\n    return 2 * gap * x, 2 * gap\n",
        "def gradient(w, b, x, y):\n    return [2 * (w * x + b - y) * x, 2 * (w * x + b - y)]\n",
        "import torch\ndef gradient(w, b, x, y):\n"
        "    p = torch.tensor([w, b], requires_grad=True)\n"
        "    ((p[0] * x + p[1] - y) ** 2).backward()\n"
        "    return p.grad\n",
    ),
)

SGD_STEP = Function(
    name="sgd_step",
    points=1,
    prompt="The two parameters after one step of plain SGD",
    praise="Against the slope, by the learning rate: that is all plain SGD does, and it keeps nothing for "
    "the next step.",
    signature="sgd_step(w, b, gradient_w, gradient_b, learning_rate)",
    reference=sgd_step,
    inputs=fresh_steps,
    example=(3.0, 0.0, 4.0, 2.0, 0.5),
    tolerance=1e-4,
    negative=True,
    slips=(
        Slip(
            name="uphill",
            value=lambda w, b, dw, db, rate: (w + rate * dw, b + rate * db),
            message="Your step goes up the slope, so the loss grows. Which sign takes it down?",
        ),
        Slip(
            name="no learning rate",
            value=lambda w, b, dw, db, rate: (w - dw, b - db),
            message="Your step is the whole gradient. Which argument is not used?",
        ),
        Slip(
            name="the change alone",
            value=lambda w, b, dw, db, rate: (-rate * dw, -rate * db),
            message="These are the changes. What are the parameters after them?",
        ),
        Slip(
            name="the change alone, unsigned",
            value=lambda w, b, dw, db, rate: (rate * dw, rate * db),
            message="These are the changes before their sign. What are the parameters after the step?",
        ),
        Slip(
            name="learning rate fixed",
            value=lambda w, b, dw, db, rate: (w - 0.05 * dw, b - 0.05 * db),
            message="Your step is that of the lesson's learning rate, whatever the call says. Which argument is "
            "not used?",
        ),
        Slip(
            name="w for b",
            value=lambda w, b, dw, db, rate: (w - rate * dw, w - rate * db),
            message="The second number starts from w. Which parameter does it belong to?",
        ),
        Slip(
            name="one gradient for both",
            value=lambda w, b, dw, db, rate: (w - rate * dw, b - rate * dw),
            message="Both move by the gradient of w. Which gradient belongs to the second one?",
        ),
        Slip(
            name="b not moved",
            value=lambda w, b, dw, db, rate: (w - rate * dw, b),
            message="One parameter did not move. Which one has a gradient that is not used?",
        ),
        Slip(
            name="w not moved",
            value=lambda w, b, dw, db, rate: (w, b - rate * db),
            message="Only the second parameter moved. What was the gradient of the first one for?",
        ),
        Slip(
            name="crossed",
            value=lambda w, b, dw, db, rate: (w - rate * db, b - rate * dw),
            message="Each parameter moves by the gradient of the other. Which one belongs to which?",
        ),
        Slip(
            name="swapped",
            value=lambda w, b, dw, db, rate: (b - rate * db, w - rate * dw),
            message="Both numbers are there. In which order does the task want them?",
        ),
    ),
    right_sources=(
        "def sgd_step(w, b, dw, db, learning_rate):\n    return w - learning_rate * dw, b - learning_rate * "
        "db\n",
        "def sgd_step(w, b, dw, db, learning_rate):\n"
        "    w -= learning_rate * dw\n"
        "    b -= learning_rate * db\n"
        "    return [w, b]\n",
        "import numpy as np\ndef sgd_step(w, b, dw, db, learning_rate):\n"
        "    return np.array([w, b]) - learning_rate * np.array([dw, db])\n",
    ),
)

# ---------------------------------------------------------------- trainable and frozen


def named(spec: dict[str, Any], keep: Callable[[str], bool]) -> list[str]:
    """Return the parameter names of a specification that `keep` accepts, in the model's order."""
    return [name for name in tensors(spec) if keep(name)]


def after_freezing(
    spec: dict[str, Any],
    keep: Callable[[str], bool],
    attribute: bool = False,
    misspelt: bool = False,
    altered: bool = False,
) -> dict[str, Any]:
    """Return what the worker reads off a model whose trainable parameters are those that `keep` accepts."""
    return {
        "trainable": named(spec, keep),
        "attribute": attribute,
        "misspelt": misspelt,
        "altered": altered,
        "returned": False,
    }


def thawed_spec(rng: random.Random) -> dict[str, Any]:
    """Return a fresh specification with nothing frozen and a bias everywhere."""
    spec = fresh_spec(rng)
    layers = {name: [inputs, outputs, True] for name, (inputs, outputs, _) in spec["layers"].items()}
    return {"layers": layers, "frozen": [], "optimizer": "adamw"}


def fresh_groups(rng: random.Random) -> list[tuple[str, dict[str, Any], str]]:
    """Return ("plain", specification, group to freeze) with another group each time."""
    made = []
    for place in rng.sample(range(3), 3):
        spec = thawed_spec(rng)
        made.append(("plain", spec, list(spec["layers"])[place]))
    return made


def in_group(group: str) -> Callable[[str], bool]:
    """Return whether a parameter's name belongs to a group."""
    return lambda name: name.startswith(f"{group}.")


class Freeze(Function):
    """`freeze` returns nothing, so what is judged is the state it leaves; a returned model does no harm."""

    def _same(self, given: Any, expected: Any) -> bool:
        if isinstance(given, dict) and "returned" in given:
            given = {**given, "returned": False}
        return super()._same(given, expected)


FREEZE = Freeze(
    name="freeze",
    points=1,
    prompt="Freeze one group of a model's parameters",
    praise="The group still takes part in the forward pass; it only stopped moving.",
    signature="freeze(model, name)",
    reference=lambda task, spec, group: after_freezing(spec, lambda name: not in_group(group)(name)),
    inputs=fresh_groups,
    around=AROUND,
    timeout_s=TORCH_TIMEOUT_S,
    hint="Look at `requires_grad` of each parameter after your function has run. Which ones should have "
    "changed?",
    slips=(
        Slip(
            name="set on the module",
            value=lambda task, spec, group: after_freezing(spec, lambda name: True, attribute=True),
            source="def freeze(model, name):\n    model.get_submodule(name).requires_grad = False\n",
            message="The module has got a new attribute, and its parameters did not notice. Which objects "
            "does the backward "
            "pass ask whether they need a gradient?",
        ),
        Slip(
            name="nothing frozen",
            value=lambda task, spec, group: after_freezing(spec, lambda name: True),
            source="def freeze(model, name):\n    for p in model.parameters():\n        p.requires_grad\n",
            message="After your function every parameter of the model it was given may still change. Does it set "
            "the flag (one = sets, two compare), and on that model?",
        ),
        Slip(
            name="flag misspelt",
            value=lambda task, spec, group: after_freezing(spec, lambda name: True, misspelt=True),
            source="def freeze(model, name):\n    for p in getattr(model, name).parameters():\n"
            "        p.require_grad = False\n",
            message="The parameters have got a new attribute that torch does not know. How is the flag spelt in "
            "the lesson?",
        ),
        Slip(
            name="values changed too",
            value=lambda task, spec, group: after_freezing(spec, _not_in(group), altered=True),
            source="import torch\ndef freeze(model, name):\n    for p in getattr(model, name).parameters():\n"
            "        p.requires_grad = False\n        p.zero_()\n",
            message="The right parameters are frozen, but their values are not what they were. Which line changes "
            "more than the flag?",
        ),
        Slip(
            name="everything frozen",
            value=lambda task, spec, group: after_freezing(spec, lambda name: False),
            source="def freeze(model, name):\n    model.requires_grad_(False)\n",
            message="After your function nothing may change any more. Where does it use the name of the "
            "group?",
        ),
        Slip(
            name="the others frozen",
            value=lambda task, spec, group: after_freezing(spec, in_group(group)),
            source="def freeze(model, name):\n    for n, p in model.named_parameters():\n"
            "        p.requires_grad = n.startswith(name)\n",
            message="The named group is the only one that may still change. Which way round is the "
            "condition?",
        ),
        Slip(
            name="bias forgotten",
            value=lambda task, spec, group: after_freezing(spec, lambda name: name != f"{group}.weight"),
            source="def freeze(model, name):\n    model.get_submodule(name).weight.requires_grad = False\n",
            message="One tensor of the group may still change. What does a linear layer have beside its "
            "matrix?",
        ),
    ),
    right_sources=(
        "def freeze(model, name):\n    for p in model.get_submodule(name).parameters():\n        "
        "p.requires_grad = False\n",
        "def freeze(model, name):\n    getattr(model, name).requires_grad_(False)\n",
        "def freeze(model, name):\n"
        "    for n, p in model.named_parameters():\n"
        "        if n.startswith(name + '.'):\n"
        "            p.requires_grad_(False)\n"
        "    return model\n",
    ),
)


def built(spec: dict[str, Any], keep: Callable[[str], bool], held: Callable[[str], bool]) -> dict[str, Any]:
    """Return what is read off an optimizer that holds `held`; its weight decay moves all of it."""
    names = named(spec, held)
    return {"trainable": named(spec, keep), "kind": "AdamW", "decays": True, "held": names, "moved": names}


NOT_ADAMW = "Your function returns an optimizer of another kind. Which one does the task name?"


class BuildOptimizer(Function):
    """As Function, with its own lines for a function that returns no optimizer, or another one."""

    def _type_trouble(self, value: Any) -> tuple[str, str] | None:
        if isinstance(value, dict) and "held" in value:
            return None if value.get("kind") == "AdamW" else ("another optimizer", NOT_ADAMW)
        return "no optimizer", "Your function returns no torch optimizer. What does its last line hand back?"


def _not_in(group: str) -> Callable[[str], bool]:
    return lambda name: not in_group(group)(name)


FREEZE_THEN_BUILD = BuildOptimizer(
    name="freeze_then_build",
    points=1,
    prompt="Freeze a group, then build AdamW over what may still change",
    praise="What the optimizer does not hold it cannot move, not even by weight decay.",
    signature="freeze_then_build(model, name)",
    reference=lambda task, spec, group: built(spec, _not_in(group), _not_in(group)),
    inputs=fresh_groups,
    around=AROUND,
    timeout_s=TORCH_TIMEOUT_S,
    hint="Look at `requires_grad` of each parameter, and at the parameters the optimizer was given. Which "
    "do not agree?",
    slips=(
        Slip(
            name="frozen after the optimizer was built",
            value=lambda task, spec, group: built(spec, _not_in(group), lambda name: True),
            source="import torch\ndef freeze_then_build(model, name):\n"
            "    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)\n"
            "    model.get_submodule(name).requires_grad_(False)\n"
            "    return optimizer\n",
            message="The optimizer still holds the frozen group, and its weight decay moves it as soon as a "
            "zero gradient is "
            "left there. Was it built too early, or given every parameter?",
        ),
        Slip(
            name="not frozen",
            value=lambda task, spec, group: built(spec, lambda name: True, lambda name: True),
            source="import torch\ndef freeze_then_build(model, name):\n"
            "    return torch.optim.AdamW(model.parameters(), lr=0.1)\n",
            message="Every parameter may still change. Which step of the task is missing?",
        ),
        Slip(
            name="left out but not frozen",
            value=lambda task, spec, group: built(spec, lambda name: True, _not_in(group)),
            source="import torch\ndef freeze_then_build(model, name):\n"
            "    rest = [p for n, p in model.named_parameters() if not n.startswith(name + '.')]\n"
            "    return torch.optim.AdamW(rest, lr=0.1)\n",
            message="The optimizer leaves the group alone, but the backward pass still makes gradients for "
            "it. "
            "What tells the backward pass not to?",
        ),
        Slip(
            name="the group alone",
            value=lambda task, spec, group: {**built(spec, _not_in(group), in_group(group))},
            source="import torch\ndef freeze_then_build(model, name):\n"
            "    group = model.get_submodule(name).requires_grad_(False)\n"
            "    return torch.optim.AdamW(group.parameters(), lr=0.1)\n",
            message="The optimizer holds the frozen group and nothing else. Which parameters should it move?",
        ),
        Slip(
            name="another optimizer",
            value=lambda task, spec, group: {**built(spec, _not_in(group), _not_in(group)), "kind": "SGD"},
            source="import torch\ndef freeze_then_build(model, name):\n"
            "    model.get_submodule(name).requires_grad_(False)\n"
            "    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)\n",
            message=NOT_ADAMW,
        ),
        Slip(
            name="no weight decay",
            value=lambda task, spec, group: {**built(spec, _not_in(group), _not_in(group)), "decays": False},
            source="import torch\ndef freeze_then_build(model, name):\n"
            "    model.get_submodule(name).requires_grad_(False)\n"
            "    on = [p for p in model.parameters() if p.requires_grad]\n"
            "    return torch.optim.AdamW(on, lr=0.1, weight_decay=0)\n",
            message="The weight decay is switched off. What does the W in AdamW stand for, and who asked for it "
            "to go?",
        ),
    ),
    right_sources=(
        "import torch\ndef freeze_then_build(model, name):\n"
        "    model.get_submodule(name).requires_grad_(False)\n"
        "    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1)\n",
        "import torch\ndef freeze_then_build(model, name):\n"
        "    for p in getattr(model, name).parameters():\n        p.requires_grad = False\n"
        "    trainable = filter(lambda p: p.requires_grad, model.parameters())\n"
        "    return torch.optim.AdamW(trainable, lr=1e-2, weight_decay=0.1)\n",
        "import torch\ndef freeze_then_build(model, name):\n"
        "    rest = []\n"
        "    for n, p in model.named_parameters():\n"
        "        if n.startswith(name + '.'):\n            p.requires_grad = False\n"
        "        else:\n            rest.append(p)\n"
        "    return torch.optim.AdamW(rest)\n",
    ),
)

COUNT_GRADIENTS = Function(
    name="count_gradients",
    points=1,
    prompt="How many gradient values a step left behind",
    praise="One for each trainable parameter, none for the frozen ones.",
    signature="count_gradients(model)",
    reference=lambda task, spec: elements(spec, trainable_only=True),
    inputs=lambda rng: [("model", fresh_spec(rng)) for _ in range(3)],
    tolerance=0,
    around=AROUND,
    timeout_s=TORCH_TIMEOUT_S,
    hint="For each parameter ask whether it has a gradient, and how many numbers that holds. Which are "
    "missing?",
    slips=(
        Slip(
            name="tensors",
            value=lambda task, spec: len(tensors(spec, trainable_only=True)),
            source="count_gradients = lambda model: sum(1 for p in model.parameters() if p.grad is not None)",
            message="You count tensors. How many numbers does one gradient hold?",
        ),
        Slip(
            name="all tensors",
            value=lambda task, spec: len(tensors(spec)),
            source="count_gradients = lambda model: len(list(model.parameters()))",
            message="You count the tensors of the whole model. Which of them got a gradient, and how many "
            "numbers has it?",
        ),
        Slip(
            name="frozen counted",
            value=lambda task, spec: elements(spec),
            source="count_gradients = lambda model: sum(p.numel() for p in model.parameters())",
            message="You count every parameter. What does `.grad` hold for one that is frozen?",
        ),
        Slip(
            name="bytes",
            value=lambda task, spec: 4 * elements(spec, trainable_only=True),
            source="count_gradients = lambda model: sum(p.grad.nbytes for p in model.parameters() if p.grad "
            "is not None)",
            message="This is the number of bytes. What does the function promise to count?",
        ),
        Slip(
            name="first tensor only",
            value=lambda task, spec: sizes_of(spec, trainable_only=True)[0],
            source="def count_gradients(model):\n    for p in model.parameters():\n"
            "        if p.grad is not None:\n            return p.grad.numel()\n",
            message=FIRST_ONLY,
        ),
        Slip(
            name="last tensor only",
            value=lambda task, spec: sizes_of(spec, trainable_only=True)[-1],
            source="def count_gradients(model):\n    for p in model.parameters():\n"
            "        if p.grad is not None:\n            c = p.grad.numel()\n    return c\n",
            message=LAST_ONLY,
        ),
        Slip(
            name="rows only",
            value=lambda task, spec: sum(shape[0] for shape in shapes(spec, trainable_only=True)),
            source="count_gradients = lambda model: sum(len(p.grad) for p in model.parameters() if p.grad is "
            "not None)",
            message=ROWS_ONLY,
        ),
    ),
    right_sources=(
        "def count_gradients(model):\n    return sum(p.grad.numel() for p in model.parameters() if p.grad "
        "is not None)\n",
        "def count_gradients(model):\n"
        "    count = 0\n"
        "    for p in model.parameters():\n"
        "        if p.grad is not None:\n            count = count + p.grad.nelement()\n"
        "    return count\n",
        "def count_gradients(model):\n    return sum(p.numel() for p in model.parameters() if "
        "p.requires_grad)\n",
    ),
)

#: values that each optimizer keeps for a trainable parameter
STATES = {"sgd": 0, "momentum": 1, "adamw": 2, "adam": 2}


def state_values(task: str, spec: dict[str, Any]) -> int:
    """Return how many values the optimizer of a specification keeps, step counters left out."""
    return STATES[spec["optimizer"]] * elements(spec, trainable_only=True)


def state_tensors(spec: dict[str, Any], counters: bool) -> int:
    """Return how many tensors its state has; AdamW has a step counter for each parameter tensor."""
    each = STATES[spec["optimizer"]] + (1 if counters and spec["optimizer"] == "adamw" else 0)
    return each * len(tensors(spec, trainable_only=True))


_EACH = "for state in optimizer.state.values() for key, t in state.items()"

COUNT_STATE = Function(
    name="count_optimizer_state",
    points=1,
    prompt="How many values an optimizer keeps after a step, step counters left out",
    praise="Two for each trainable parameter with Adam, one with momentum, and the frozen ones never met it.",
    signature="count_optimizer_state(optimizer)",
    reference=state_values,
    inputs=lambda rng: [("optimizer", fresh_spec(rng, name)) for name in ("adamw", "momentum", "adamw")],
    tolerance=0,
    around=AROUND,
    timeout_s=TORCH_TIMEOUT_S,
    hint="Print `optimizer.state` of a small model and count by hand what one parameter has. Where do the "
    "two counts part?",
    slips=(
        Slip(
            name="step counters",
            value=lambda task, spec: (
                state_values(task, spec)
                + (len(tensors(spec, trainable_only=True)) if spec["optimizer"] == "adamw" else 0)
            ),
            source=f"count_optimizer_state = lambda optimizer: sum(t.numel() {_EACH})",
            message="Your count is a little high: something that is kept once for each tensor is in it. "
            "What does the key "
            "`step` hold?",
        ),
        Slip(
            name="tensors",
            value=lambda task, spec: state_tensors(spec, counters=False),
            source=f"count_optimizer_state = lambda optimizer: sum(1 {_EACH} if key != 'step')",
            message="You count tensors. How many numbers does one tensor hold?",
        ),
        Slip(
            name="tensors and step counters",
            value=lambda task, spec: state_tensors(spec, counters=True),
            source=f"count_optimizer_state = lambda optimizer: sum(1 {_EACH})",
            message="You count tensors, and the step counters among them. How many numbers does one tensor "
            "hold?",
        ),
        Slip(
            name="parameters",
            value=lambda task, spec: elements(spec, trainable_only=True),
            source="count_optimizer_state = lambda optimizer: "
            "sum(p.numel() for g in optimizer.param_groups for p in g['params'])",
            message="These are the parameters it moves. What does `optimizer.state` keep for each of them?",
        ),
        Slip(
            name="bytes",
            value=lambda task, spec: 4 * state_values(task, spec),
            source=f"count_optimizer_state = lambda optimizer: sum(t.nbytes {_EACH} if key != 'step')",
            message="This is the number of bytes. What does the function promise to count?",
        ),
        Slip(
            name="first entry only",
            value=lambda task, spec: sizes_of(spec, trainable_only=True)[0],
            source="def count_optimizer_state(optimizer):\n    for state in optimizer.state.values():\n"
            "        for key, t in state.items():\n            if key != 'step':\n                return t.numel()\n",
            message="Your result is the size of one entry, the first. After how many rounds does it return?",
        ),
        Slip(
            name="first tensor only",
            value=lambda task, spec: STATES[spec["optimizer"]] * sizes_of(spec, trainable_only=True)[0],
            source="def count_optimizer_state(optimizer):\n    for state in optimizer.state.values():\n"
            "        return sum(t.numel() for key, t in state.items() if key != 'step')\n",
            message="Your result is what goes with the first tensor. After how many rounds does it return?",
        ),
        Slip(
            name="last entry only",
            value=lambda task, spec: sizes_of(spec, trainable_only=True)[-1],
            source="def count_optimizer_state(optimizer):\n    for state in optimizer.state.values():\n"
            "        for key, t in state.items():\n            if key != 'step':\n                c = t.numel()\n"
            "    return c\n",
            message="Your result is the size of one entry, the last. Does each round add to the count, or begin "
            "it anew?",
        ),
    ),
    right_sources=(
        f"def count_optimizer_state(optimizer):\n    return sum(t.numel() {_EACH} if key != 'step')\n",
        "def count_optimizer_state(optimizer):\n"
        "    count = 0\n"
        "    for state in optimizer.state.values():\n"
        "        for tensor in state.values():\n"
        "            if tensor.dim() > 0:\n                count += tensor.numel()\n"
        "    return count\n",
        "def count_optimizer_state(optimizer):\n"
        "    kept = optimizer.state_dict()['state'].values()\n"
        "    return sum(s[k].numel() for s in kept for k in s if k in ('exp_avg', 'exp_avg_sq', "
        "'momentum_buffer'))\n",
    ),
)

# ---------------------------------------------------------------- what must be kept

OPTIMIZER_NAMES = ("sgd", "momentum", "adam")


def extra_values(optimizer: str) -> int:
    """Return the values kept for each trainable parameter beside the weight: its gradient and the states."""
    return 1 + STATES[optimizer]


EXTRA_VALUES = Function(
    name="extra_values",
    points=1,
    prompt="Values kept for each trainable parameter beside the weight",
    praise="One gradient, and what the optimizer remembers.",
    signature="extra_values(optimizer)",
    reference=extra_values,
    inputs=lambda rng: [(name,) for name in rng.sample(OPTIMIZER_NAMES, 3)],
    tolerance=1e-6,
    hint="Take one optimizer at a time: what does the backward pass leave, and what is remembered until the next "
    "step? Which of the two is off?",
    slips=(
        Slip(
            name="states only",
            value=lambda optimizer: STATES[optimizer],
            message="These are the optimizer's own values. What does the backward pass leave for every "
            "trainable parameter?",
        ),
        Slip(
            name="the weight counted",
            value=lambda optimizer: 2 + STATES[optimizer],
            message="The weight itself is in your count. What does training keep beside it?",
        ),
        Slip(
            name="one state for adam",
            value=lambda optimizer: {"sgd": 1, "momentum": 2, "adam": 2}[optimizer],
            message="SGD and momentum are right. How many running means does Adam keep?",
        ),
        Slip(
            name="no gradient for sgd",
            value=lambda optimizer: {"sgd": 0, "momentum": 2, "adam": 3}[optimizer],
            message="Plain SGD remembers nothing, but what does it read in order to take a step?",
        ),
        Slip(
            name="bytes",
            value=lambda optimizer: 4 * extra_values(optimizer),
            message="These look like bytes of fp32. How many values are they?",
        ),
    ),
    right_sources=(
        "def extra_values(optimizer):\n    return {'sgd': 1, 'momentum': 2, 'adam': 3}[optimizer]\n",
        "def extra_values(optimizer):\n"
        "    if optimizer == 'sgd':\n        return 1\n"
        "    return 2 if optimizer == 'momentum' else 3\n",
        "def extra_values(optimizer):\n    return 1.0 + ['sgd', 'momentum', 'adam'].index(optimizer)\n",
    ),
)


def sizes_and_bytes(rng: random.Random) -> list[tuple[int, int]]:
    """Return (parameters, bytes for each)."""
    sizes = rng.sample(range(5, 800), 3)
    return [(size * 10**8, each) for size, each in zip(sizes, rng.sample((1, 2, 4), 3), strict=True)]


INFERENCE_GB = Function(
    name="inference_gb",
    points=1,
    prompt="What running a model takes, with the margin, in GB",
    praise="An approximation: the margin stands for activations and the key-value cache.",
    signature="inference_gb(parameters, bytes_per_parameter)",
    reference=lambda parameters, each: parameters * each * 1.2 / GB,
    inputs=sizes_and_bytes,
    example=(7_000_000_000, 2),
    unit="GB",
    slips=(
        Slip(
            name="cut to a whole number",
            value=lambda parameters, each: float(parameters * each * 1.2 // GB),
            message="Your result is cut to a whole number. Which part of your line drops what is behind the point?",
        ),
        Slip(
            name="rounded",
            value=lambda parameters, each: float(round(parameters * each * 1.2 / GB)),
            message="Your result is rounded to a whole number. Who asked for that?",
        ),
        Slip(
            name="two per cent",
            value=lambda parameters, each: parameters * each * 1.02 / GB,
            message="Your margin is a fiftieth of the weights. How is a fifth written as a factor?",
        ),
        Slip(
            name="no margin",
            value=lambda parameters, each: parameters * each / GB,
            message="These are the weights alone. What else does a running model keep, and how large did we "
            "take it?",
        ),
        Slip(
            name="margin alone",
            value=lambda parameters, each: parameters * each * 0.2 / GB,
            message="This is the margin alone. What is it a margin on?",
        ),
        Slip(
            name="margin taken off",
            value=lambda parameters, each: parameters * each * 0.8 / GB,
            message="Your total is smaller than the weights. Is the margin added or taken off?",
        ),
        Slip(
            name="margin of the total",
            value=lambda parameters, each: parameters * each * 1.25 / GB,
            message="Your margin is a fifth of the total. What is it a fifth of in the text?",
        ),
        Slip(
            name="a fixed 0.2",
            value=lambda parameters, each: parameters * each / GB + 0.2,
            message="Your margin is the same for every model. What should it grow with?",
        ),
        Slip(
            name="one byte",
            value=lambda parameters, each: parameters * 1.2 / GB,
            message="Your result does not depend on the bytes of a parameter. Which argument is not used?",
        ),
        Slip(
            name="two bytes always",
            value=lambda parameters, each: parameters * 2 * 1.2 / GB,
            message="It takes the same bytes for every parameter. Which argument is not used?",
        ),
    ),
    right_sources=(
        "def inference_gb(parameters, bytes_per_parameter):\n    return parameters * bytes_per_parameter * "
        "1.2 / 1e9\n",
        "def inference_gb(parameters, bytes_per_parameter):\n"
        "    weights = parameters * bytes_per_parameter / 10**9\n"
        "    return weights + 0.2 * weights\n",
        "from decimal import Decimal\ndef inference_gb(parameters, bytes_per_parameter):\n"
        "    return Decimal(parameters) * Decimal(bytes_per_parameter) * Decimal('1.2') / 10**9\n",
    ),
)

DEVICES_13B = Set(
    name="devices_for_13b",
    points=1,
    prompt="Which devices run 13B in 2 bytes, with the margin",
    praise="The weights decide, and the margin decides the close cases.",
    options={"a": "24 GB", "b": "40 GB", "c": "80 GB"},
    right=frozenset("bc"),
    missing="What you chose is large enough. Does your total fit in another one as well?",
    slips=(
        Slip(
            name="24",
            value="a",
            message="Set the weights alone beside the smallest device. Do they fit, even before the margin?",
        ),
    ),
)


def fresh_extras(rng: random.Random) -> list[tuple[int, int, int]]:
    """Return (trainable, values, bytes for each value)."""
    sizes = rng.sample(range(5, 300), 3)
    return [
        (size * 10**8, values, each) for size, values, each in zip(sizes, (3, 2, 3), (4, 2, 2), strict=True)
    ]


EXTRA_TRAINING_GB = Function(
    name="extra_training_gb",
    points=1,
    prompt="What gradients and optimizer states add, in GB",
    praise="It follows the trainable parameters; how large the whole model is plays no part.",
    signature="extra_training_gb(trainable, values, bytes_per_value)",
    reference=lambda trainable, values, each: trainable * values * each / GB,
    inputs=fresh_extras,
    example=(2_000_000_000, 2, 4),
    unit="GB",
    slips=(
        Slip(
            name="values not used",
            value=lambda trainable, values, each: trainable * each / GB,
            message="Your sum keeps one value for each parameter. Which argument is not used?",
        ),
        Slip(
            name="bytes not used",
            value=lambda trainable, values, each: trainable * values / GB,
            message="Your sum has one byte a value. Which argument is not used?",
        ),
        Slip(
            name="gradient forgotten",
            value=lambda trainable, values, each: trainable * (values - 1) * each / GB,
            message="One value a parameter is missing. Are the gradient and the states both in it?",
        ),
        Slip(
            name="weights counted",
            value=lambda trainable, values, each: trainable * (values + 1) * each / GB,
            message="The weights are in your sum. Were they not there before training began?",
        ),
        Slip(
            name="with the inference margin",
            value=lambda trainable, values, each: trainable * values * each * 1.2 / GB,
            message="The margin of the inference check is in your sum. What was it for?",
        ),
    ),
    right_sources=(
        "def extra_training_gb(trainable, values, bytes_per_value):\n"
        "    return trainable * values * bytes_per_value / 1e9\n",
        "def extra_training_gb(trainable, values, bytes_per_value):\n"
        "    total = 0\n"
        "    for _ in range(values):\n        total += trainable * bytes_per_value\n"
        "    return total / 10**9\n",
        "import numpy as np\ndef extra_training_gb(trainable, values, bytes_per_value):\n"
        "    return np.prod([trainable / 1e9, values, bytes_per_value])\n",
    ),
)

# ---------------------------------------------------------------- practice

PASSES = Set(
    name="passes_in_inference",
    points=1,
    prompt="What runs when a finished model is tested",
    praise="One pass from input to output; the loss is only reported, and nothing is kept for a pass back.",
    options={
        "a": "the forward pass",
        "b": "the loss is computed",
        "c": "gradients are computed",
        "d": "the optimizer takes a step",
    },
    right=frozenset("ab"),
    missing="Each sentence ends as one number in the report. What must happen before that number is there?",
    slips=(
        Slip(
            name="gradients",
            value="c",
            message="What are gradients for, and does a test want that?",
        ),
        Slip(name="optimizer", value="d", message="May the model be another one after its test?"),
    ),
)

FROZEN_LACKS = Set(
    name="frozen_lacks",
    points=1,
    prompt="What a frozen parameter between the adapter and the output does not have",
    praise="Its value is read on the way forward and again on the way back; nothing is kept beside it.",
    options={
        "a": "a value in memory",
        "b": "a gradient of its own",
        "c": "an entry in the optimizer's state",
        "d": "a part in the forward pass",
        "e": "a part in the way back to the adapter",
    },
    right=frozenset("bc"),
    missing="True, and there is more it does without. What would have used what you named, or made it?",
    slips=(
        Slip(
            name="value",
            value="a",
            message="Could the model compute its output if the frozen numbers were not there?",
        ),
        Slip(
            name="forward",
            value="d",
            message="Frozen parameters do not move. Are they still read on the way from input to output?",
        ),
        Slip(
            name="way back",
            value="e",
            message="The loss is behind this layer and the adapter before it. How does the signal get from one to "
            "the other?",
        ),
    ),
)

WHICH_NEEDS_MORE = Choice(
    name="which_needs_more",
    points=1,
    prompt="Which set-up needs more memory",
    praise="Few trainable parameters do not make up for a base of almost twice the size.",
    options={
        "a": "A: 7B, all of it trainable, plain SGD",
        "b": "B: 13B, 1B of it trainable, Adam",
        "c": "both need the same",
    },
    right="b",
    slips=(
        Slip(
            name="extras only",
            value="a",
            message="Its gradients and states are more, that is so. What must be in memory before any of "
            "them?",
        ),
        Slip(
            name="the same",
            value="c",
            message="Write both sums out: weights, gradients, states. At which term do they part?",
        ),
    ),
)

DIFFERENCE = Number(
    name="difference_gb",
    points=1,
    prompt="By how much, with every value in 2 bytes and without activations, in GB",
    praise="Weights, gradients and states of both, and then the difference.",
    right=4,
    hint="Write both sums out: weights of everything, then gradients and states of what is trainable. Which "
    "term is off?",
    slips=(
        Slip(
            name="extras only",
            value=8,
            how="14 - 6",
            message="This is the difference of gradients and states. What about the weights?",
        ),
        Slip(
            name="weights only",
            value=12,
            how="26 - 14",
            message="This is the difference of the weights. What does training add to each?",
        ),
        Slip(
            name="Adam for both",
            value=24,
            how="7B x 4 x 2 - 32",
            message="Your sum has Adam in both set-ups. What does plain SGD keep?",
        ),
        Slip(
            name="all trainable in both",
            value=76,
            how="13B x 4 x 2 - 28",
            message="Your sum trains everything in both set-ups. How much of the larger one moves?",
        ),
        Slip(
            name="gradient forgotten",
            value=16,
            how="(26 + 4) - 14",
            message="Your sum has the states but no gradients. Which set-up has more of those?",
        ),
        Slip(
            name="one byte",
            value=2,
            how="1 byte a value",
            message="Your values have one byte each. How many did the task give them?",
        ),
        Slip(
            name="the smaller total",
            value=28,
            how="7B x 2 x 2",
            message="This is one of the two totals. What is the other one?",
        ),
        Slip(
            name="the larger total",
            value=32,
            how="26 + 6",
            message="One of the two set-ups takes this much. How much less does the other take?",
        ),
    ),
)

DEVICE_KEYS = ("device_gb", "parameters", "bytes_per_parameter", "needed_gb", "fits")


def device_check(value: Any) -> Verdict:
    """Judge a learner's own memory check: sum and answer must follow from their numbers."""
    if not isinstance(value, dict):
        return verdict.not_yet(f"The answer is {article(value)}, and a dict is asked.", slip="not a dict")
    trouble = key_trouble(value, DEVICE_KEYS) or _device_trouble(value)
    if trouble and trouble[0] == "blank":
        return verdict.unanswered(trouble[1])
    if trouble:
        return verdict.not_yet(trouble[1], slip=trouble[0])
    sum_slip = _needed_slip(value)
    right = value["parameters"] * value["bytes_per_parameter"] * 1.2 / GB
    # a sum in another unit costs its own half; the comparison may have been made with either number
    answers = {value["needed_gb"] <= value["device_gb"]}
    answers |= {right <= value["device_gb"]} if sum_slip and sum_slip[0].startswith("in ") else set()
    fits_right = value["fits"] in answers
    details = (
        f"needed_gb: {'right.' if sum_slip is None else sum_slip[1]}",
        f"fits: {'right.' if fits_right else 'is what you need more or less than what the device has?'}",
    )
    slip = sum_slip[0] if sum_slip else None if fits_right else "fits the wrong way round"
    if slip is None:
        return verdict.right("You can do this for any model before you download it.")
    share = ((sum_slip is None) + fits_right) / 2
    return verdict.by_rows(share, "Your numbers do not hang together yet.", details, slip)


def _device_trouble(value: dict) -> tuple[str, str] | None:
    """Return (slip, message) for what is missing or no number, or None."""
    blank = [key for key in DEVICE_KEYS if value.get(key) is None]
    if blank:
        return "blank", f"Fill in {', '.join(f'`{key}`' for key in blank)} as well."
    for key in DEVICE_KEYS[:-1]:
        trouble = number_trouble(value[key], what=f"`{key}`")
        if trouble:
            return trouble
    if not isinstance(value["fits"], bool):
        return "not a truth value", f"`fits` is {article(value['fits'])}. Write True or False."
    if not 0.1 <= value["device_gb"] <= 4_000:
        return "device in another unit", "`device_gb` is no memory a device has, in GB. Is it in bytes or MB?"
    if not 1e6 <= value["parameters"] <= 1e14:
        return "size in billions", "Write `parameters` as a count, such as 1.5e9 for 1.5B."
    if not 0.25 <= value["bytes_per_parameter"] <= 8:
        return "bits for bytes", "`bytes_per_parameter` is no number format's size. Is it in bits?"
    return None


_NEEDED_SLIPS = (
    (1 / 1.2, "no margin", "these are the weights alone. What does the margin stand for?"),
    (0.2 / 1.2, "margin alone", "this is the margin alone. What is it a margin on?"),
    (GB, "in bytes", "the amount is right, but it is in single bytes. What is it in GB?"),
    (GB / 2**30, "in GiB", "the amount is right, but it is in GiB (2^30 bytes). What is it in GB?"),
    (1e3, "in MB", "the amount is right, but it is in MB. What is it in GB?"),
)


def _needed_slip(value: dict) -> tuple[str, str] | None:
    """Return (slip, message) when the sum does not follow from the learner's numbers, or None."""
    right = value["parameters"] * value["bytes_per_parameter"] * 1.2 / GB
    if close(value["needed_gb"], right, 1e-2):
        return None
    for factor, name, message in _NEEDED_SLIPS:
        if close(value["needed_gb"], right * factor, 1e-2):
            return name, message
    return (
        "another sum",
        "multiply your parameters by their bytes and add the margin. Where do you part from that?",
    )


_CHECK = {"device_gb": 16, "parameters": 7e9, "bytes_per_parameter": 2, "needed_gb": 16.8, "fits": False}

MY_DEVICE_CHECK = Relation(
    name="my_device_check",
    points=2,
    prompt="A memory check of your own device for a model you choose",
    rule=device_check,
    rights=(
        _CHECK,
        {
            "device_gb": 24.0,
            "parameters": 3_000_000_000,
            "bytes_per_parameter": 4,
            "needed_gb": 14.4,
            "fits": True,
        },
        {
            **_CHECK,
            "device_gb": 7.6,
            "bytes_per_parameter": 0.5,
            "needed_gb": 7e9 * 0.5 * 1.2 / 1e9,
            "fits": True,
        },
    ),
    slips=(
        *(
            Slip(
                name=name,
                value={**_CHECK, "needed_gb": 16.8 * factor, "fits": 16.8 * factor <= 16},
                message=message,
            )
            for factor, name, message in _NEEDED_SLIPS
        ),
        Slip(name="another sum", value={**_CHECK, "needed_gb": 99}, message="Where do you part from that?"),
        Slip(
            name="fits the wrong way round",
            value={**_CHECK, "fits": True},
            message="is what you need more or less than what the device has?",
        ),
        Slip(name="size in billions", value={**_CHECK, "parameters": 7}, message="as a count"),
        Slip(name="bits for bytes", value={**_CHECK, "bytes_per_parameter": 16}, message="Is it in bits?"),
        Slip(name="not a truth value", value={**_CHECK, "fits": "no"}, message="Write True or False."),
        Slip(
            name="device in another unit",
            value={**_CHECK, "device_gb": 16e9},
            message="Is it in bytes or MB?",
        ),
    ),
)

# ---------------------------------------------------------------- the rep

HALVES = {"first": 64 * 64 + 64, "second": 64 * 64 + 64}

_NO_STEP = (
    "no step",
    "no step has been taken yet: nothing in `rep_model` has moved. Which call makes it move?",
)


def step_trouble(rows: Any) -> tuple[str, str] | None:
    """Return (slip, message) for what the rep's step did to the two halves, or None when it is as asked."""
    seen = _by_half(rows)
    if seen is None or not any(seen[half]["moved"] for half in HALVES):
        return _NO_STEP
    first, second = seen["first"], seen["second"]
    if not second["moved"] and first["moved"]:
        return "other half", "the first half moved and the second stood still. Which one was to be frozen?"
    if first["moved"]:
        return "first half moved", "the first half moved as well. Was it frozen before the step was taken?"
    if first["gradient"] or first["state"]:
        return (
            "first half cost something",
            "the first half stood still but has a gradient or state. Was it frozen before the backward pass?",
        )
    if second["moved"] != HALVES["second"] or second["gradient"] != HALVES["second"]:
        return (
            "second half in part",
            "only part of the second half took part. Which tensors has a linear layer?",
        )
    if second["state"] != 2 * HALVES["second"]:
        return (
            "not AdamW",
            "`rep_optimizer` keeps something else than AdamW does for the second half. Is it the one that took "
            "the step?",
        )
    return None


def _by_half(rows: Any) -> dict[str, dict[str, int]] | None:
    """Return {half: {"moved": numbers, "gradient": numbers, "state": numbers}} or None for what is no table."""
    if not isinstance(rows, list):
        return None
    seen = {half: {"moved": 0, "gradient": 0, "state": 0} for half in HALVES}
    for name, numbers, moved, gradient_values, state in rows:
        half = seen[name.partition(".")[0]]
        half["moved"] += numbers if moved is True else 0
        half["gradient"] += gradient_values
        half["state"] += state
    return seen


REP_SCENE = """
import copy, torch
from collections import OrderedDict
from torch.nn import Linear, Sequential
rep_model = Sequential(OrderedDict(first=Linear(64, 64), second=Linear(64, 64)))
rep_before = copy.deepcopy(rep_model.state_dict())
rep_input = torch.ones(1, 64)
for parameter in rep_model.first.parameters():
    parameter.requires_grad = False
rep_optimizer = torch.optim.AdamW(rep_model.second.parameters(), lr=0.1)
rep_model(rep_input).square().mean().backward()
rep_optimizer.step()
"""

HALF_FROZEN = Rep(
    looks_at="rep_model",
    around=AROUND,
    deed=step_trouble,
    scene=REP_SCENE,
    name="half_frozen",
    points=1,
    prompt="What one AdamW step moves and leaves behind when half of a model is frozen",
    praise="Half of everything: the frozen half cost no gradient and no state.",
    rows={"moved": 64 * 64 + 64, "gradient_values": 64 * 64 + 64, "state_values": 2 * (64 * 64 + 64)},
    unit="values",
    tolerance=1e-5,
    hint="How many parameters has one Linear(64, 64), and how many values go with each that is trainable?",
    slips=(
        Slip(
            name="all moved",
            value=("moved", 8320),
            how="nothing frozen",
            message="Both halves are in this number. Which one stood still?",
        ),
        Slip(
            name="all gradients",
            value=("gradient_values", 8320),
            how="nothing frozen",
            message="Both halves are in this number. Which one got no gradient?",
        ),
        Slip(
            name="all states",
            value=("state_values", 16640),
            how="nothing frozen",
            message="Both halves are in this number. Which one never met the optimizer?",
        ),
        Slip(
            name="one moment",
            value=("state_values", 4160),
            how="one value each",
            message="One value for each trainable parameter. How many running means does AdamW keep?",
        ),
        Slip(
            name="counters",
            value=("state_values", 8322),
            how="two step counters",
            message="A little high: something kept once for each tensor is in it. Which key holds it?",
        ),
        Slip(
            name="gradients as state",
            value=("state_values", 12480),
            how="1 + 2 values each",
            message="The gradients seem to be in it. Which row are they in already?",
        ),
        Slip(
            name="no biases",
            value=("*", 4096),
            how="64 x 64",
            message="These are the weights of one half. What else does a linear layer have?",
        ),
        Slip(
            name="no biases in the state",
            value=("state_values", 8192),
            how="2 x 64 x 64",
            message="These go with the weights of one half. What else does a linear layer have?",
        ),
        Slip(
            name="tensors",
            value=("*", 2),
            how="tensors",
            message="This counts tensors. How many numbers does one hold?",
        ),
    ),
)

QUESTIONS = [
    COUNT_PARAMETERS,
    WHAT_CHANGES,
    ORDER_OF_EVENTS,
    LOSS,
    GRADIENT,
    SGD_STEP,
    FREEZE,
    FREEZE_THEN_BUILD,
    COUNT_GRADIENTS,
    COUNT_STATE,
    EXTRA_VALUES,
    INFERENCE_GB,
    DEVICES_13B,
    EXTRA_TRAINING_GB,
    PASSES,
    FROZEN_LACKS,
    WHICH_NEEDS_MORE,
    DIFFERENCE,
    MY_DEVICE_CHECK,
    HALF_FROZEN,
]
