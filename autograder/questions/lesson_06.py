"""The questions of lesson 6: what training keeps for a parameter, and why an adapter escapes it."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from typing import Any

from autograder import verdict
from autograder.kinds import Choice, Function, Idea, Number, Relation, Set, Slip, Table, Text
from autograder.kinds.base import article, close, number_trouble
from autograder.kinds.text import Said, denied, either
from autograder.verdict import Verdict

GB = 10**9

# ---------------------------------------------------------------- warm-up

WEIGHTS_7B = Number(
    name="weights_7b_gb",
    points=1,
    prompt="The weights of a 7B model in bf16, in GB",
    praise="Two bytes for each of seven billion weights.",
    right=14,
    hint="How many bytes has one bf16 number, and how many of them are there?",
    slips=(
        Slip(
            name="eight bytes",
            value=56,
            how="8 bytes a weight, or a bit taken for a byte",
            message="Your sum gives each weight as many bytes as a byte has bits. How many bits has a bf16 number?",
        ),
        Slip(
            name="four bits",
            value=3.5,
            how="half a byte a weight",
            message="Your sum gives each weight half a byte. How many bits has a bf16 number, and a byte?",
        ),
        Slip(
            name="fp32",
            value=28,
            how="4 bytes a weight",
            message="Your sum gives each weight the bytes of fp32. How many bits does a bf16 number have?",
        ),
        Slip(
            name="one byte",
            value=7,
            how="1 byte a weight",
            message="Your sum gives each weight a single byte. What does the 16 in bf16 count?",
        ),
        Slip(
            name="training",
            value=112,
            how="16 for each parameter: the bytes of training (or the bits of bf16)",
            message="That is sixteen for each parameter: the bytes of training, or the bits of one number. "
            "How many bytes belong to the weights alone?",
        ),
    ),
)

ADAMW_STATE = Set(
    name="adamw_state",
    points=1,
    prompt="The two tensors AdamW keeps for each trainable parameter",
    praise="The two running means are the optimizer's own memory of past gradients.",
    options={
        "a": "the gradient",
        "b": "a running mean of the gradients",
        "c": "an fp32 master copy of the weight",
        "d": "a running mean of the squared gradients",
        "e": "the learning rate",
        "f": "the activations",
    },
    right=frozenset("bd"),
    missing="What you chose is kept, but AdamW keeps two tensors. Which other quantity does its update "
    "divide by "
    "or follow?",
    slips=(
        Slip(
            name="gradient",
            value="a",
            message="The gradient comes from the backward pass, and any optimizer needs it. "
            "What does AdamW itself remember from earlier steps?",
        ),
        Slip(
            name="master copy",
            value="c",
            message="A master copy belongs to mixed precision; AdamW in plain fp32 has none. "
            "What does AdamW keep in either case?",
        ),
        Slip(
            name="learning rate",
            value="e",
            message="The learning rate is one number for the whole model. Which quantities exist for each "
            "parameter?",
        ),
        Slip(
            name="activations",
            value="f",
            message="Activations belong to the forward pass and are gone before the step ends. "
            "What must survive until the next step?",
        ),
    ),
)

WHY_BF16 = Choice(
    name="why_bf16",
    points=1,
    prompt="Why bf16 beats fp16 for training",
    praise="Its bits are taken from the fraction, so of the two it is the coarser one, and it still wins.",
    options={
        "a": "it is more precise than fp16",
        "b": "it takes fewer bytes than fp16",
        "c": "it has the exponent range of fp32",
        "d": "it is faster on every GPU",
    },
    right="c",
    slips=(
        Slip(
            name="more precise",
            value="a",
            message="Count the fraction bits of both formats: which has fewer? And what did it get for them?",
        ),
        Slip(
            name="smaller",
            value="b",
            message="Both names end in the same number. What does that say about the bytes each one takes?",
        ),
        Slip(
            name="faster",
            value="d",
            message="Many GPUs run both at one speed, and some have no bf16 at all. "
            "What goes wrong with fp16 gradients that are very large or very small?",
        ),
    ),
)

WHY_BF16_SENTENCE = Text(
    name="why_bf16_sentence",
    points=1,
    prompt="In one sentence: which property of bf16, what can no longer happen to a gradient, and which step it "
    "spares you",
    ideas=(
        Idea(
            name="what the format has in common with another",
            all_of=(
                Said(r"exponent|range|\b8 bits\b|eight bits|magnitude"),
                r"fp32|float32|32-bit|single precision|full precision|same|wide|large|big|as (much|many)|more",
            ),
            unless=(r"(narrow|small)er (exponent|range)", r"(not|n't) (have )?the same (exponent|range)"),
        ),
        Idea(
            name="what can no longer happen to a number",
            all_of=(
                either(
                    denied(
                        r"over-?flow|under-?flow|vanish|\binf(inity|inite|s)?\b|\bnans?\b|(become|turn|go|round)\w*"
                        r"( in)?(to)? (zero|0)\b|flush|too (large|small|big)|explod|blow|disappear|lost"
                    ),
                    Said(r"gradients? (\w+ )?(surviv|stay|remain)|representable"),
                ),
            ),
        ),
        Idea(
            name="what training can leave out",
            all_of=(
                either(
                    denied(r"scal(e|ing|er)|multipl\w* (of )?(the|your) loss|loss \w+ (multipl|factor)"),
                    Said(r"(fp16|float16)\b.*\bscal(e|ing|er)"),
                    (r"fp16|float16", Said(r"^has \d .*scal|^(needs|requires) .*scal")),
                ),
            ),
            unless=(r"(bf16|you|we) (still )?(need|require)s? (loss )?scal",),
        ),
    ),
    mark_scheme="1 point for the exponent range of fp32 and one consequence: no overflow or underflow of "
    "gradients, or no "
    "loss scaling. No point for 'more precise' or 'smaller'.",
    examples=(
        "It has the same exponent range as fp32, so gradients neither overflow nor underflow and no loss "
        "scaling is needed.",
        "Because bf16 keeps the 8 exponent bits of float32, small gradients do not vanish; we can drop the "
        "loss scaler.",
        "bf16 covers the range of fp32. Values don't become inf or zero, so you train without scaling the "
        "loss.",
    ),
)

# ---------------------------------------------------------------- the sixteen bytes

_BITS = Slip(
    name="bits",
    value=("weights", 32),
    how="bits instead of bytes",
    message="This looks like bits. How many bits make a byte?",
)
_WHOLE = (
    "This looks like the bits of one number, or like several rows together. Which single number does this row "
    "hold, and how many bits make a byte?"
)

BYTES_FP32 = Table(
    name="bytes_fp32",
    points=2,
    prompt="Bytes for each trainable parameter in fp32, row by row",
    praise="Four tensors of equal size; half of the column is AdamW's.",
    rows={"weights": 4, "master_copy": 0, "gradients": 4, "first_moment": 4, "second_moment": 4},
    slips=(
        Slip(
            name="a second copy",
            value=("master_copy", 4),
            how="a master copy although the weights are fp32 already",
            message="The weights of this column are fp32 already. What would a second copy of the same "
            "numbers be for?",
        ),
        Slip(name="bits", value=("*", 32), how="bits", message=_BITS.message),
        Slip(
            name="two bytes",
            value=("*", 2),
            how="a 16-bit format in the fp32 column",
            message="This is the size of a 16-bit number. What does the 32 in the name of this column count?",
        ),
        Slip(
            name="both moments in the first",
            value=("first_moment", 8),
            how="the two moments in one row",
            message="Two tensors seem to share this row. Which of them has a row of its own?",
        ),
        Slip(
            name="both moments in the second",
            value=("second_moment", 8),
            how="the two moments in one row",
            message="Two tensors seem to share this row. Which of them has a row of its own?",
        ),
        Slip(name="the whole", value=("*", 16), how="the total in one row", message=_WHOLE),
    ),
)

_MOMENT_16 = (
    "The moments add up many tiny numbers. Did mixed precision move them out of the fp32 column's format?"
)
_MOMENT_8 = "An 8-bit optimizer does this, and it is another regime. What does the AdamW of this column keep?"

BYTES_MIXED = Table(
    name="bytes_mixed",
    points=2,
    prompt="Bytes for each trainable parameter in mixed precision, row by row",
    praise="Two rows are halved, one row is new, and the column's sum has not moved.",
    rows={"weights": 2, "master_copy": 4, "gradients": 2, "first_moment": 4, "second_moment": 4},
    slips=(
        Slip(
            name="weights in fp32",
            value=("weights", 4),
            how="the weights of autocast, which stay fp32",
            message="In this column the passes work on bf16 weights, and the fp32 ones have a row of their "
            "own. Which row?",
        ),
        Slip(
            name="no master copy",
            value=("master_copy", 0),
            how="the regime without a master copy",
            message="Read the paragraph above the table once more: what are the 16-bit weights made from after "
            "each update, and in which row does it stand?",
        ),
        Slip(
            name="master copy in 16 bits",
            value=("master_copy", 2),
            how="a master copy as coarse as the weights",
            message="The weights themselves are kept in this format already. In which one does the optimizer do "
            "its sums?",
        ),
        Slip(
            name="fp32 gradients",
            value=("gradients", 4),
            how="the regimes that count 18",
            message="Some programs do keep them so and count more in total. In which format does the "
            "backward pass of this "
            "column make the gradient?",
        ),
        Slip(
            name="both gradients",
            value=("gradients", 6),
            how="the regime that counts 20",
            message="Two gradients in two formats is another regime. Which single one does this column keep?",
        ),
        Slip(name="first moment in 16 bits", value=("first_moment", 2), how="pure bf16", message=_MOMENT_16),
        Slip(
            name="second moment in 16 bits", value=("second_moment", 2), how="pure bf16", message=_MOMENT_16
        ),
        Slip(name="first moment in 8 bits", value=("first_moment", 1), how="8-bit Adam", message=_MOMENT_8),
        Slip(name="second moment in 8 bits", value=("second_moment", 1), how="8-bit Adam", message=_MOMENT_8),
        Slip(
            name="both moments in the first",
            value=("first_moment", 8),
            how="the two moments in one row",
            message="Two tensors seem to share this row. Which of them has a row of its own?",
        ),
        Slip(name="the whole", value=("*", 16), how="the total in one row", message=_WHOLE),
        Slip(name="bits", value=("*", 32), how="bits", message=_BITS.message),
    ),
)


def bf16(value: float) -> float:
    """Round to the nearest bf16 number, ties to even (the upper 16 bits of an fp32 number)."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", rounded))[0]


def fp16(value: float) -> float:
    """Round to the nearest fp16 number."""
    return struct.unpack("<e", struct.pack("<e", value))[0]


def fp32(value: float) -> float:
    """Round to the nearest fp32 number."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def surviving_step(weight: float, rounded: Callable[[float], float] = bf16, sign: int = 1) -> float:
    """Return the smallest power of two that moves the rounded weight to another number of the format."""
    start = rounded(weight)
    exponent = -60
    while rounded(start + sign * 2.0**exponent) == start:
        exponent += 1
    return 2.0**exponent


def gap_above(weight: float) -> float:
    """Return the distance from a bf16 weight to the next one (7 fraction bits)."""
    return 2.0 ** (math.floor(math.log2(weight)) - 7)


def fresh_weights(rng: random.Random) -> list[tuple[float]]:
    """Return weights that bf16 holds exactly, some with an even and some with an odd last bit."""
    lasts = (0, 0, 1, 1)
    drawn = [2 * rng.randrange(65, 127) + last for last in lasts]
    exponents = rng.sample(range(-6, 4), len(lasts))
    return [(whole / 128 * 2.0**exponent,) for whole, exponent in zip(drawn, exponents, strict=True)]


def odd_steps(results: list, arguments: list[tuple]) -> tuple[str, str] | None:
    """Return (slip, message) for steps that are no powers of two, or that never grew, or None."""
    if not all(isinstance(step, int | float) and step > 0 for step in results):
        return None
    if len(set(results)) == 1 and results[0] < 2.0**-20:
        message = (
            "Your step is the one it began with, for a light weight and a heavy one. Does the loop run at all: "
            "when is its test true?"
        )
        return "never doubled", message
    small = all(step < weight for step, (weight,) in zip(results, arguments, strict=True))
    ratios = {math.frexp(step)[0] for step in results}
    if small and len(ratios) == 1 and ratios != {0.5}:
        return (
            "not from a power of two",
            "Your result is not a power of two. From which number do you double?",
        )
    return None


SMALLEST_STEP = Function(
    name="smallest_surviving_step",
    points=2,
    prompt="The smallest power of two that changes a bf16 weight when it is added",
    praise="More than half of the spacing between neighbours survives; at exactly half, the tie goes to the even "
    "one. What is smaller, the fp32 master copy collects.",
    signature="smallest_surviving_step(weight)",
    reference=surviving_step,
    inputs=fresh_weights,
    example=(1.0,),
    tolerance=1e-6,
    negative=True,
    timeout_s=10.0,
    notice=odd_steps,
    hint="Add powers of two to the bf16 weight, from a tiny one upwards, and compare with the weight itself. "
    "At which one does your function stop?",
    slips=(
        Slip(
            name="one size for all",
            value=lambda weight: 2.0**-7,
            how="finfo(bfloat16).eps, whatever the weight",
            message="Your step does not depend on the weight. Does a heavier weight feel the same step as a "
            "light one?",
        ),
        Slip(
            name="eps times weight",
            value=lambda weight: weight * 2.0**-7,
            how="finfo(bfloat16).eps * weight",
            message="Your step is a fixed share of the weight, and so not always a power of two. "
            "What does the rounding of bf16 really do: can you try it instead of reckoning?",
        ),
        Slip(
            name="always the gap",
            value=gap_above,
            how="the distance to the next bf16 number",
            message="That is the distance to the next bf16 number. Does a step shorter than that distance "
            "always round back?",
        ),
        Slip(
            name="always half the gap",
            value=lambda weight: gap_above(weight) / 2,
            how="half the distance to the next number",
            message="A step of half the distance ends exactly between two numbers. To which of them does it "
            "round, "
            "and for which weights does that change anything?",
        ),
        Slip(
            name="fp16",
            value=lambda weight: surviving_step(weight, fp16),
            how="torch.float16",
            message="This is the step of a format with more fraction bits. Which dtype did you give the "
            "weight?",
        ),
        Slip(
            name="fp32",
            value=lambda weight: surviving_step(weight, fp32),
            how="the weight left in fp32",
            message="Your weight seems to be held in fp32. Where does it become bf16?",
        ),
        Slip(
            name="fp64",
            value=lambda weight: surviving_step(weight, float),
            how="plain Python floats",
            message="This is the step of Python's own numbers, with 52 fraction bits. Where does the weight "
            "become bf16?",
        ),
        Slip(
            name="subtracted",
            value=lambda weight: surviving_step(weight, sign=-1),
            how="weight - step",
            message="Your step is taken off the weight. Is the next number below always as near as the next "
            "one above?",
        ),
        Slip(
            name="the last that is lost",
            value=lambda weight: surviving_step(weight) / 2,
            how="one power too small",
            message="This step is the largest that is still lost. Does your loop return before or after its "
            "last change?",
        ),
        Slip(
            name="one too many",
            value=lambda weight: surviving_step(weight) * 2,
            how="one power too large",
            message="Half of your step already changes the weight. Does your loop go on once too often?",
        ),
        Slip(
            name="exponent",
            value=lambda weight: math.log2(surviving_step(weight)),
            how="the exponent instead of the power",
            message="This is the exponent of a power of two. What does the function promise to return?",
        ),
        Slip(
            name="the new weight",
            value=lambda weight: bf16(weight) + surviving_step(weight),
            how="weight + step",
            message="This is the weight after the step. What does the function promise to return?",
        ),
    ),
    right_sources=(
        "def smallest_surviving_step(weight):\n"
        "    import torch\n"
        "    w, step = torch.tensor(weight, dtype=torch.bfloat16), 2.0**-40\n"
        "    while w + step == w:\n"
        "        step *= 2\n"
        "    return step\n",
        "def smallest_surviving_step(weight):\n"
        "    import torch\n"
        "    w = torch.tensor(weight).bfloat16()\n"
        "    step = torch.tensor(1.0).bfloat16()\n"
        "    while w + step / 2 != w:\n"
        "        step = step / 2\n"
        "    return step\n",
        "def smallest_surviving_step(weight):\n"
        "    import torch\n"
        "    w = torch.tensor(weight, dtype=torch.bfloat16)\n"
        "    return min(2.0**k for k in range(-30, 8) if (w + 2.0**k).item() != w.item())\n",
    ),
)

# ---------------------------------------------------------------- what that means, and the escape


def billions(rng: random.Random, count: int) -> list[int]:
    """Return different model sizes from 0.3B to 90B, in round hundreds of millions."""
    return [n * 10**8 for n in rng.sample(range(3, 900), count)]


def uneven(rng: random.Random) -> int:
    """Return a small model size whose training takes no whole number of GB, nor nearly so."""
    return rng.randrange(3, 40, 5) * 10**8


def per_parameter(each: float) -> Callable[[float], float]:
    """Return the function that gives `each` bytes to every parameter, in GB."""
    return lambda trainable: trainable * each / GB


TRAINING_GB = Function(
    name="training_gb",
    points=1,
    prompt="What training keeps for a number of trainable parameters, in GB",
    praise="Eight times the bf16 weights, and all of the difference is gradients, master copy and optimizer state.",
    signature="training_gb(trainable)",
    reference=lambda trainable: trainable * 16 / GB,
    inputs=lambda rng: [(size,) for size in (*billions(rng, 2), uneven(rng))],
    example=(1_500_000_000,),
    unit="GB",
    slips=(
        Slip(
            name="weights only",
            value=per_parameter(2),
            how="2 bytes",
            message="These are the weights alone: the model fits. What else must be there to train it?",
        ),
        Slip(
            name="pure bf16, or no moments",
            value=per_parameter(8),
            how="8 bytes",
            message="Half of the column is missing: either everything is in 16 bits, or the moments are "
            "gone. "
            "Which rows stay in fp32?",
        ),
        Slip(
            name="no master copy",
            value=per_parameter(12),
            how="12 bytes (or the optimizer's part alone)",
            message="A quarter of the column is missing. Which fp32 row of your table is not in the sum?",
        ),
        Slip(
            name="fp32 gradients",
            value=per_parameter(18),
            how="18 bytes",
            message="Your gradients are wider than in our column. In which format does the backward pass "
            "make them here?",
        ),
        Slip(
            name="both gradients",
            value=per_parameter(20),
            how="20 bytes",
            message="Your sum has one row more than the table. Which row is there twice?",
        ),
        Slip(
            name="weights and gradients",
            value=per_parameter(4),
            how="4 bytes",
            message="Weights and gradients are in. What does the optimizer keep beside them?",
        ),
        Slip(
            name="a 2-byte tensor missing",
            value=per_parameter(14),
            how="14 bytes",
            message="One of the 16-bit rows is missing from the sum. Which one?",
        ),
    ),
    right_sources=(
        "def training_gb(trainable):\n    return trainable * 16 / 1e9\n",
        "def training_gb(trainable):\n    total = trainable * (2 + 4 + 2 + 4 + 4)\n    return total / "
        "10**9\n",
        "import numpy as np\ndef training_gb(trainable):\n    return np.float64(16) * trainable / "
        "1_000_000_000\n",
        "training_gb = lambda n: round(n * 16 / 1e9, 2)\n",
    ),
)


def fresh_adapters(rng: random.Random) -> list[tuple[int, int]]:
    """Return (frozen, trainable) with a share large enough for every slip to show."""
    return [(size, int(size * rng.randrange(5, 50) / 100)) for size in billions(rng, 3)]


def two_terms(frozen_bytes: float, trainable_bytes: float) -> Callable[[float, float], float]:
    """Return the function that gives each kind of parameter its bytes, in GB."""
    return lambda frozen, trainable: (frozen * frozen_bytes + trainable * trainable_bytes) / GB


FINETUNE_GB = Function(
    name="finetune_gb",
    points=1,
    prompt="What fine-tuning keeps for frozen and trainable parameters, in GB",
    praise="Two terms with two prices: which of them grows when the adapter does?",
    signature="finetune_gb(frozen, trainable)",
    reference=two_terms(2, 16),
    inputs=fresh_adapters,
    example=(3_000_000_000, 1_000_000_000),
    unit="GB",
    tolerance=5e-4,
    slips=(
        Slip(
            name="16 for all",
            value=two_terms(16, 16),
            message="Your frozen parameters cost as much as trainable ones. Which of the rows does a frozen "
            "one need?",
        ),
        Slip(
            name="2 for all",
            value=two_terms(2, 2),
            message="Your trainable parameters keep nothing but their weight. What else do those that move "
            "need?",
        ),
        Slip(
            name="base forgotten",
            value=two_terms(0, 16),
            message="Only the trainable part is in your sum. What does the forward pass read the frozen "
            "part from?",
        ),
        Slip(
            name="adapter forgotten",
            value=two_terms(2, 0),
            message="Only the frozen part is in your sum. What do the parameters that move keep?",
        ),
        Slip(
            name="frozen gradients",
            value=two_terms(4, 16),
            how="4 bytes for each frozen parameter",
            message="Your frozen part is twice what its bf16 weights take. Is it held in fp32, or does it "
            "keep a gradient?",
        ),
        Slip(
            name="no master copy",
            value=two_terms(2, 12),
            how="12 bytes for each trainable parameter",
            message="The trainable part is too small by one fp32 tensor. Which row of the table is not in "
            "it?",
        ),
        Slip(
            name="a 2-byte tensor missing",
            value=two_terms(2, 14),
            how="14 bytes for each trainable parameter",
            message="The trainable part is too small by one 16-bit tensor. Which row of the table is not in "
            "it?",
        ),
        Slip(
            name="counted twice",
            value=two_terms(2, 18),
            how="2 x (frozen + trainable) + 16 x trainable",
            message="The trainable weights are in both of your terms. Which term has them already?",
        ),
        Slip(
            name="pure bf16",
            value=two_terms(2, 8),
            how="8 bytes for each trainable parameter",
            message="The trainable part is half of what the column says. Which of its rows stay in fp32?",
        ),
        Slip(
            name="turned round",
            value=two_terms(16, 2),
            how="the two arguments exchanged",
            message="The two parts look exchanged. Which of them pays for gradients and moments?",
        ),
    ),
    right_sources=(
        "def finetune_gb(frozen, trainable):\n    return (2 * frozen + 16 * trainable) / 1e9\n",
        "def finetune_gb(frozen, trainable):\n"
        "    base = frozen * 2 / 1e9\n"
        "    adapter = trainable * 16 / 1e9\n"
        "    return base + adapter\n",
        "from fractions import Fraction\n"
        "def finetune_gb(frozen, trainable):\n    return Fraction(2 * frozen + 16 * trainable, 10**9)\n",
    ),
)

# ---------------------------------------------------------------- partial measures

MEASURES = {
    "adamw": 16,
    "sgd": 8,
    "momentum": 12,
    "8-bit moments": 10.03125,
    "adafactor": 8,
    "pure bf16": 8,
    "checkpointing": 16,
}


def bytes_with(measure: str) -> float:
    """Return the bytes for each trainable parameter in mixed precision with one measure."""
    return MEASURES[measure]


def table_of(values: dict[str, float]) -> Callable[[str], float]:
    """Return the function that is wrong for the measures in `values` and right for the others."""
    return lambda measure: {**MEASURES, **values}[measure]


BYTES_WITH = Function(
    name="bytes_with",
    points=2,
    prompt="Bytes for each trainable parameter, measure by measure",
    praise="Each measure scales the constant; the cost stays proportional to what is trainable.",
    signature="bytes_with(measure)",
    reference=bytes_with,
    inputs=lambda rng: [(measure,) for measure in MEASURES],
    tolerance=5e-4,
    each_counts=True,
    hint="Write its five rows below each other. Which of them does this measure change, and to what?",
    slips=(
        Slip(
            name="constants forgotten",
            value=table_of({"8-bit moments": 10}),
            how="two plain bytes for the moments",
            message="the moments are in. What does a block of numbers keep beside them, and what is that for each "
            "number?",
        ),
        Slip(
            name="constants of one moment",
            value=table_of({"8-bit moments": 10.015625}),
            how="the constants counted once",
            message="one moment has its constants. What about the other?",
        ),
        Slip(
            name="moments alone shrunk to nothing else",
            value=table_of({"8-bit moments": 4}),
            how="two 8-bit moments and one 16-bit tensor, or every row in fewer bits",
            message="more than the moments has shrunk or gone. Which rows does an 8-bit optimizer leave alone?",
        ),
        Slip(
            name="an fp32 row in pure bf16",
            value=table_of({"pure bf16": 10}),
            how="one row still in fp32, or a 16-bit master copy",
            message="how many of the five rows are left when there is no master copy, and how wide is each?",
        ),
        Slip(
            name="a row of pure bf16 missing",
            value=table_of({"pure bf16": 6}),
            how="three rows in place of four",
            message="a row is missing. AdamW still runs: how many moments does it keep?",
        ),
        Slip(
            name="momentum in 16 bits",
            value=table_of({"momentum": 10}),
            how="2 bytes for the one moment",
            message="your one moment has 16 bits. Which format does the table of measures give it?",
        ),
        Slip(
            name="nothing left by checkpointing",
            value=table_of({"checkpointing": 0}),
            how="checkpointing taken for a saving of everything",
            message="checkpointing keeps fewer activations. Are weights, gradients and moments among them?",
        ),
        Slip(
            name="no master copy",
            value=table_of({"adamw": 12, "sgd": 4, "momentum": 8, "8-bit moments": 6.03125, "adafactor": 4}),
            how="4 bytes too few: the fp32 master copy left out",
            message="does mixed precision do without its fp32 copy here, or has another row gone?",
        ),
        Slip(
            name="the state alone",
            value=table_of({"adamw": 8.0001, "sgd": 0, "8-bit moments": 2.03125, "adafactor": 0}),
            how="the optimizer's own tensors only",
            message="this is what the optimizer keeps. What stays beside it?",
        ),
        Slip(
            name="one moment in bytes",
            value=table_of({"momentum": 4}),
            how="the one moment alone",
            message="this is the one moment. What stays beside it?",
        ),
        Slip(
            name="one 8-bit moment",
            value=table_of({"8-bit moments": 9}),
            how="one of the two 8-bit moments",
            message="how many moments did AdamW have, and how many bytes does each take now?",
        ),
        Slip(
            name="8-bit in place of 16-bit",
            value=table_of({"8-bit moments": 12}),
            how="2 bytes a moment",
            message="how many bytes do 8 bits make?",
        ),
        Slip(
            name="first moment kept",
            value=table_of({"adafactor": 12}),
            how="Adafactor with a first moment",
            message="Adafactor can be told to keep a first moment. What is left without it?",
        ),
        Slip(
            name="fp32 moments in pure bf16",
            value=table_of({"pure bf16": 12}),
            how="16-bit weights and gradients, fp32 moments",
            message="which format do the moments have when the whole model is cast to bf16?",
        ),
        Slip(
            name="nothing changed",
            value=table_of(
                {"sgd": 16, "momentum": 16, "8-bit moments": 16, "adafactor": 16, "pure bf16": 16}
            ),
            how="the full column",
            message="this is the whole column. Which of its rows does the measure shrink or drop?",
        ),
        Slip(
            name="a cheaper state from checkpointing",
            value=table_of({"checkpointing": 8}),
            how="checkpointing taken for a saving of state",
            message="checkpointing forgets activations. Is an activation one of the five rows?",
        ),
    ),
    right_sources=(
        "def bytes_with(measure):\n"
        "    table = {'adamw': 16, 'sgd': 8, 'momentum': 12, '8-bit moments': 10.03,\n"
        "             'adafactor': 8, 'pure bf16': 8, 'checkpointing': 16}\n"
        "    return table[measure]\n",
        "def bytes_with(measure):\n"
        "    moments = {'sgd': 0, 'adafactor': 0, 'momentum': 4, '8-bit moments': 2.03, 'pure bf16': 0}\n"
        "    return 2 + 4 + 2 + moments.get(measure, 8)\n",
        "def bytes_with(measure):\n"
        "    if measure == 'momentum':\n        return 12.0\n"
        "    if measure == '8-bit moments':\n        return 8 + 2 * (1 + 4 / 256)\n"
        "    return 16.0 if measure in ('adamw', 'checkpointing') else 8.0\n",
    ),
)

# ---------------------------------------------------------------- practice

FULL_3B = Number(
    name="full_finetune_3b_gb",
    points=1,
    prompt="A full fine-tune of a 3B model with AdamW in mixed precision, without activations, in GB",
    praise="The weights alone would be an eighth of it.",
    right=48,
    slips=(
        Slip(
            name="weights only",
            value=6,
            how="2 bytes",
            message="These are the bf16 weights. What else must be there to train them?",
        ),
        Slip(
            name="no master copy",
            value=36,
            how="12 bytes",
            message="One fp32 tensor is missing from your sum. Which row catches the tiny steps?",
        ),
        Slip(
            name="pure bf16",
            value=24,
            how="8 bytes",
            message="Everything in your sum has 16 bits, or the moments are gone. Which rows stay in fp32?",
        ),
        Slip(
            name="fp32 gradients",
            value=54,
            how="18 bytes",
            message="Your gradients are kept wider than mixed precision makes them. Which format do they "
            "have in the table?",
        ),
        Slip(
            name="a 2-byte tensor missing",
            value=42,
            how="14 bytes",
            message="One of the 16-bit tensors is missing from your sum. Which of the two is it?",
        ),
        Slip(
            name="both gradients",
            value=60,
            how="20 bytes",
            message="Your sum has one tensor more than the table. Which row is there twice?",
        ),
        Slip(
            name="per parameter",
            value=16,
            how="the bytes of one parameter",
            message="This is what one parameter costs, in bytes. How many parameters does the model have?",
        ),
    ),
)

_ONE_PARAMETER = "This is the row of one parameter, in bytes. How many parameters does the model have?"

FULL_3B_TERMS = Table(
    name="full_finetune_3b_terms",
    points=2,
    prompt="Its five terms, in GB",
    praise="The five add up to your total.",
    rows={"weights": 6, "master_copy": 12, "gradients": 6, "first_moment": 12, "second_moment": 12},
    unit="GB",
    hint="Take this row's bytes from the table and multiply by the size of the model. Which of the two is "
    "off?",
    slips=(
        Slip(
            name="fp32 weights",
            value=("weights", 12),
            message="These weights are as wide as fp32, and the master copy has a row of its own. "
            "Which format do the passes read?",
        ),
        Slip(
            name="fp32 gradients",
            value=("gradients", 12),
            message="These gradients are kept wider than mixed precision makes them. Which format do they "
            "have in the table?",
        ),
        Slip(
            name="no master copy",
            value=("master_copy", 0),
            message="Without it, what happens to a step that is tiny beside a bf16 weight?",
        ),
        Slip(
            name="master copy in 16 bits",
            value=("master_copy", 6),
            message="A copy as coarse as the weights would lose the same tiny steps. In which format must "
            "it be kept?",
        ),
        Slip(name="first moment in 16 bits", value=("first_moment", 6), message=_MOMENT_16),
        Slip(name="second moment in 16 bits", value=("second_moment", 6), message=_MOMENT_16),
        Slip(
            name="both moments in the first",
            value=("first_moment", 24),
            message="Two tensors seem to share this row. Which of them has a row of its own?",
        ),
        Slip(
            name="the whole",
            value=("*", 48),
            message="This is as much as several rows together, or counted in bits. Which part belongs to this "
            "row, and how many bits make a byte?",
        ),
        Slip(name="bits", value=("*", 96), how="bits of an fp32 row", message=_BITS.message),
        Slip(name="weights of one parameter", value=("weights", 2), message=_ONE_PARAMETER),
        Slip(name="gradient of one parameter", value=("gradients", 2), message=_ONE_PARAMETER),
        Slip(name="master copy of one parameter", value=("master_copy", 4), message=_ONE_PARAMETER),
        Slip(name="first moment of one parameter", value=("first_moment", 4), message=_ONE_PARAMETER),
        Slip(name="second moment of one parameter", value=("second_moment", 4), message=_ONE_PARAMETER),
    ),
)

WHY_NO_SAVING = Text(
    name="why_no_saving",
    points=2,
    prompt="Why mixed precision does not reduce the total",
    ideas=(
        Idea(
            name="what became smaller",
            all_of=(
                either(
                    (
                        r"weight|parameter|\bw\b",
                        r"gradient|\bgrads?\b|\bg\b",
                        Said(
                            r"hal(f|ve|ving)|16[- ]bit|bf16|fp16|two bytes|2 bytes|2b\b|smaller|shr[iau]nk|sav|less"
                            r"|fewer|lower|4 ?-+> ?2|4 to 2|four to two|by (2|two)\b"
                        ),
                    ),
                    Said(r"\b(two|2) (of the )?((\w+ )?tensors|rows)\b.*(hal(f|ve)|smaller|shr[iau]nk)"),
                    Said(r"hal(f|ve)\w* (two|2) (of the )?((\w+ )?tensors|rows)"),
                ),
            ),
            unless=(r"(master|copy) (\w+ )?(is|was|gets) (also )?(halved|smaller)",),
        ),
        Idea(
            name="what was added",
            all_of=(
                Said(
                    r"master|(fp32|float32|32-bit|full[- ]precision|extra|second|additional) (\w+ )?(copy|weight)"
                    r"|copy|duplicate"
                ),
            ),
            unless=(r"(master|copy) (\w+ )?(is|was|gets) (also )?(halved|smaller|dropped|removed)",),
        ),
        Idea(
            name="what stayed as it was",
            all_of=(
                r"moment|optimi[sz]er|adam|running mean|variance|\bm\b(,| and| &) ?v\b",
                either(
                    Said(
                        r"unchanged|stay|same|still|remain|keep|kept|fp32|32-bit|full precision|as before|untouched"
                    ),
                    denied(r"\b(chang|mov|touch|shr[iau]nk|halv|reduc|smaller|affect|sav)"),
                ),
            ),
            unless=(r"(moments?|optimi[sz]er state|m and v) (are|is|get|were|was) (also )?(halved|smaller)",),
        ),
    ),
    mark_scheme="2 points: halving weights and gradients saves 4 bytes; the fp32 master copy adds 4 again; "
    "the moments are "
    "unchanged. 1 point for two of the three, or for all three without their sizes.",
    examples=(
        "Weights and gradients are halved, which saves 4 bytes, but an fp32 master copy adds 4 back. The "
        "moments stay fp32.",
        "We save two bytes on the weight and two on the gradient. Then we pay four for the master weights. "
        "Adam's moments never moved.",
        "Because the fp32 copy of the weights costs what the 16-bit weights and gradients saved, and the "
        "optimizer state "
        "remains in full precision.",
    ),
)

ADAPTER_TOTAL = Number(
    name="adapter_total_gb",
    points=1,
    prompt="7B frozen in bf16 with a 20M adapter, in GB",
    praise="The adapter's state is a rounding error beside the frozen weights.",
    right=14.32,
    slip_tolerance=1e-3,
    tolerance=5e-4,
    slips=(
        Slip(
            name="2 bytes for the adapter",
            value=14.04,
            message="Your adapter keeps only its weights. What else does a parameter that moves keep?",
        ),
        Slip(
            name="16 for all",
            value=112.32,
            message="Your frozen weights pay for gradients and moments too. Which rows does a weight that "
            "never moves need?",
        ),
        Slip(
            name="the other adapter",
            value=14.064,
            how="the adapter of 4 million from the text",
            message="This is the adapter of the text above. How many parameters has the one of this question?",
        ),
        Slip(
            name="base forgotten",
            value=0.32,
            message="Only the adapter is in your sum. What does the forward pass read the frozen model from?",
        ),
        Slip(
            name="no master's worth",
            value=14.28,
            how="14 bytes for each adapter parameter",
            message="The adapter's part comes out a little short. Set its five rows beside the table: what "
            "became of the "
            "master copy and of the weight it belongs to?",
        ),
        Slip(
            name="rounded",
            value=14.3,
            how="one decimal",
            message="One decimal hides most of the adapter. What is the total with two?",
        ),
        Slip(
            name="no master copy",
            value=14.24,
            how="12 bytes for each adapter parameter",
            message="The adapter's part is short by a whole fp32 tensor. Which row catches the tiny steps?",
        ),
        Slip(
            name="full fine-tune, no adapter",
            value=112,
            message="This is the full fine-tune of the base, without an adapter. Which of its rows does "
            "freezing remove?",
        ),
        Slip(
            name="adapter forgotten",
            value=14,
            message="This is the frozen base alone. What does the adapter add?",
        ),
        Slip(
            name="counted twice",
            value=14.36,
            how="2 x (7B + 20M) + 16 x 20M",
            message="The adapter's weights are in both of your terms. Which term has them already?",
        ),
        Slip(
            name="pure bf16 adapter",
            value=14.16,
            how="8 bytes for each adapter parameter",
            message="Half of what the adapter keeps is missing. Which of its rows stay in fp32?",
        ),
        Slip(
            name="fp32 base",
            value=28.32,
            how="4 bytes for each frozen parameter",
            message="Your frozen weights are as wide as fp32. Which format does the task give them?",
        ),
    ),
)

BIGGEST_SAVING = Choice(
    name="biggest_saving",
    points=1,
    prompt="Which change cuts optimizer memory most for a fixed model",
    praise="It takes away what the constant is multiplied by, where every other measure scales the constant.",
    options={
        "a": "AdamW to SGD",
        "b": "compute precision to bf16",
        "c": "freeze the base and train an adapter",
        "d": "completion-only loss masking",
    },
    right="c",
    slips=(
        Slip(
            name="sgd",
            value="a",
            message="SGD drops the moments, so it scales the constant, and a gradient and an fp32 copy stay "
            "for every "
            "parameter. Which change takes away what the constant is multiplied by?",
        ),
        Slip(
            name="bf16 compute",
            value="b",
            message="Computing in bf16 leaves the optimizer's fp32 state where it was. Which change makes "
            "most of that state "
            "unnecessary?",
        ),
        Slip(
            name="masking",
            value="d",
            message="Masking decides which tokens count in the loss. Which tensor gets smaller by it?",
        ),
    ),
)

EIGHT_BIT_70B = Number(
    name="eight_bit_70b_gb",
    points=1,
    prompt="A full fine-tune of 70B with an 8-bit optimizer, in GB",
    praise="The moments shrink to two bytes; the other eight bytes are still there.",
    right=700,
    also_right=(702.1875,),
    hint="Write the five rows with one byte for each moment. Which row did the 8-bit optimizer not touch?",
    slips=(
        Slip(
            name="nothing saved",
            value=1120,
            how="16 bytes",
            message="This is AdamW with fp32 moments. What does an 8-bit optimizer keep in their place?",
        ),
        Slip(
            name="master and moments dropped",
            value=420,
            how="6 bytes: no master copy, and the moments in 8 bits",
            message="More is gone than the 8-bit optimizer takes. Which fp32 row does it leave alone?",
        ),
        Slip(
            name="no master, no moments",
            value=280,
            how="4 bytes: weights and gradients",
            message="Only weights and gradients are left in your sum. Which rows does an 8-bit optimizer "
            "shrink, and which "
            "does it leave alone?",
        ),
        Slip(
            name="pure bf16",
            value=560,
            how="8 bytes",
            message="Your sum drops the moments or has everything in 16 bits. How many bits does each "
            "moment keep here?",
        ),
        Slip(
            name="one byte",
            value=70,
            how="1 byte",
            message="Your sum has one byte a parameter, as if everything were in 8 bits. Which tensors are, "
            "and which are not?",
        ),
        Slip(
            name="weights only",
            value=140,
            how="2 bytes",
            message="These are the weights. What else does a full fine-tune keep?",
        ),
        Slip(
            name="one moment",
            value=630,
            how="9 bytes",
            message="One byte a parameter is missing. How many moments does the optimizer keep?",
        ),
        Slip(
            name="16-bit moments",
            value=840,
            how="12 bytes",
            message="Your moments take more than 8 bits each. How many bytes do 8 bits make?",
        ),
    ),
)

CARDS_NEEDED = Number(
    name="cards_needed",
    points=1,
    prompt="How many 80 GB accelerators that takes",
    praise="And that is before any activation.",
    right=9,
    unit="cards",
    hint="Divide what the training keeps by what one card holds. What does the fraction mean for the number "
    "of cards?",
    slips=(
        Slip(
            name="not whole",
            value=8.75,
            how="700 / 80",
            message="Can you buy a part of a card? Which way do you round?",
        ),
        Slip(
            name="not whole, with constants",
            value=8.777,
            how="702.2 / 80",
            message="Can you buy a part of a card? Which way must you round here?",
        ),
        Slip(
            name="rounded down",
            value=8,
            how="700 // 80",
            message="With that many cards something is left over. Where would it go?",
        ),
        Slip(
            name="fp32 moments",
            value=14,
            how="1120 / 80",
            message="That many cards hold AdamW with fp32 moments. What does the 8-bit optimizer need?",
        ),
        Slip(
            name="weights only",
            value=2,
            how="140 / 80, rounded up",
            message="That many cards hold the weights. What else must they hold?",
        ),
        Slip(
            name="pure bf16",
            value=7,
            how="560 / 80",
            message="That many cards hold a sum without the moments. What do the two 8-bit moments add?",
        ),
    ),
)

WEIGHTS_ALONE = Number(
    name="weights_alone_gb",
    points=1,
    prompt="The weights of that 70B model alone, in GB",
    praise="More than the card holds, before anything else.",
    right=140,
    hint="How many bytes has one bf16 weight, and how many weights are there?",
    slips=(
        Slip(
            name="eight bytes",
            value=560,
            how="8 bytes a weight",
            message="Your sum gives each weight as many bytes as a byte has bits, or counts more rows than one. "
            "What does one bf16 number take?",
        ),
        Slip(
            name="in cards",
            value=1.75,
            how="140 / 80",
            message="This is a number of cards. How many GB do they hold?",
        ),
        Slip(
            name="one byte",
            value=70,
            how="1 byte",
            message="An 8-bit optimizer keeps its moments in 8 bits. Which format do the weights have?",
        ),
        Slip(
            name="fp32",
            value=280,
            how="4 bytes",
            message="Your weights are as wide as fp32. Which format do the passes read?",
        ),
        Slip(
            name="everything",
            value=700,
            how="10 bytes",
            message="This is the whole sum. Which of its rows are the weights alone?",
        ),
        Slip(
            name="training",
            value=1120,
            how="16 bytes",
            message="This is a full fine-tune with AdamW. Which of its rows are the weights alone?",
        ),
        Slip(
            name="with the master copy",
            value=420,
            how="6 bytes",
            message="The master copy is a row of its own. What do the bf16 weights take without it?",
        ),
    ),
)

EIGHT_BIT_REPLY = Text(
    name="eight_bit_reply",
    points=2,
    prompt="Your answer to someone who wants to full fine-tune 70B on one 80 GB card with an 8-bit optimizer",
    ideas=(
        Idea(
            name="the verdict, with its size",
            all_of=(r"70[0-9](_\d+)?|\b(9|nine)\b", r"gb|gigabyte|card|gpu|accelerator|device"),
        ),
        Idea(
            name="what settles it before any sum",
            all_of=(
                r"weight|model",
                r"140|alone|already|before|by themselves|on their own|exceed|more than|larger than|do(es)? "
                r"not fit",
            ),
        ),
        Idea(
            name="what gets smaller and what does not",
            all_of=(
                either(
                    (
                        r"moment|optimi[sz]er|state",
                        Said(
                            r"only|one byte|1 byte|(from|to) (about )?(2|two|8|eight) bytes|shr[iau]nk|reduc|sav"
                            r"|still|remain|stay|untouched"
                        ),
                    ),
                    (r"moment|state", denied(r"gradient|master|rest|weights")),
                    (
                        r"(8|eight)[- ]bit",
                        Said(r"sav|shr[iau]nk|cut|reduc"),
                        r"rest|remain|other|of (the )?(16|sixteen)",
                    ),
                ),
            ),
            unless=(r"(everything|all|the whole|every tensor)\b.{0,25}(one byte|1 byte|(8|eight)[- ]bits?)",),
        ),
        Idea(
            name="what they could do instead",
            all_of=(
                Said(
                    r"adapter|lora|freez|frozen|quanti[sz]|shard|more (cards|gpus)|zero|smaller model|offload|4-bit"
                    r"|fsdp"
                ),
            ),
        ),
    ),
    mark_scheme="2 points: says no with the numbers (about 700 GB, 9 cards, and 140 GB of weights alone) "
    "and why the 8-bit "
    "optimizer does not help enough (it shrinks the moments only; weights, gradients and master copy stay). "
    "1 point for "
    "one of the two. A way out (adapter, quantised base, more cards) is welcome and carries no point of its "
    "own.",
    examples=(
        "No: the weights alone are 140 GB, more than the card. The 8-bit optimizer shrinks only the "
        "moments, so the whole "
        "is 700 GB or nine cards. Freeze the base and train an adapter instead.",
        "It does not fit. Training needs 10 bytes per parameter, 700 GB, and one card has 80 GB. Even the "
        "weights already "
        "exceed it. Gradients and master copy remain whatever the optimizer state is. Use LoRA.",
        "You would need 9 GPUs. The model by itself takes 140 GB. The optimizer's moments go to one byte "
        "each and the rest "
        "stays. Quantise and freeze the base, then train an adapter.",
    ),
)

_ONLY_UPDATED = r"\bonly\b.*\b(updat|chang|mov|train|learn|adjust)"


def _not_for_frozen(tensor: str) -> tuple:
    """Return what finds that frozen parameters lack a tensor, or that only the others have it."""
    of_others = (
        rf"\b(trained|trainable|updated|unfrozen)\b[^.]*({tensor})[^.]*frozen[^.]*\b(only|alone|nothing)\b"
    )
    return (either(denied(tensor), (Said(tensor), _ONLY_UPDATED), of_others),)


ONE_SENTENCE = Text(
    name="one_sentence",
    points=1,
    prompt="In one sentence: why do frozen parameters cost so much less?",
    ideas=(
        Idea(
            name="what the backward pass does not make for them",
            all_of=_not_for_frozen(r"gradient|\bgrads?\b"),
        ),
        Idea(
            name="what is not remembered from step to step",
            all_of=_not_for_frozen(r"moment|optimi[sz]er|running (mean|average)|adam"),
        ),
        Idea(
            name="what has no second form",
            all_of=_not_for_frozen(r"master|fp32 (copy|weight)|(full|32).{0,12}copy|copy|copies"),
        ),
        Idea(
            name="the reason behind all of it",
            all_of=(
                either(
                    denied(r"updat|chang|mov|train|learn|step|adjust|modif"),
                    Said(r"only (ever )?(being )?read|read only|only (used|needed) (in|for|by) the forward"),
                    _ONLY_UPDATED,
                ),
            ),
        ),
    ),
    mark_scheme="1 point: gradient, moments and master copy exist only for what is updated; a frozen "
    "parameter keeps its "
    "weight alone. Half a point when one of the three tensors is missing or the reason is.",
    examples=(
        "Gradient, moments and master copy exist only for parameters that are updated, so a frozen one "
        "keeps its weight alone.",
        "A frozen weight never changes, so it needs no gradient, no optimizer state and no fp32 master copy.",
        "Because they are not trained, they have neither gradients nor moments nor a copy in fp32.",
    ),
)

# ---------------------------------------------------------------- real-world reps

#: slips of a row of `my_three_models`: bytes a parameter that it comes to, and the question it raises
_ROW_SLIPS = {
    2: ("weights only", "these are the bf16 weights. What else does training keep?"),
    4: ("weights and gradients", "weights and gradients are in. What does the optimizer keep?"),
    8: ("pure bf16, or no moments", "half of the column is missing. Which rows stay in fp32?"),
    12: ("no master copy", "an fp32 row is missing. Which one catches the tiny steps?"),
    14: ("a 2-byte tensor missing", "a 16-bit row is missing. Which one?"),
    18: ("fp32 gradients", "the gradients are wider than in the table. Which format do they have there?"),
    20: ("both gradients", "one row is there twice. Which one?"),
    16 * GB: ("in bytes", "the amount is right, but it is in single bytes. What is it in GB?"),
    16 * GB / 2**30: ("in GiB", "the amount is right, but it is in GiB (2^30 bytes). What is it in GB?"),
    16e-3: ("in TB", "the amount is right, but it is in TB. What is it in GB?"),
    16e3: ("in MB", "the amount is right, but it is in MB. What is it in GB?"),
}


def three_models(value: Any) -> Verdict:
    """Judge {name: (parameters, GB)}: three different sizes, each with sixteen bytes a parameter."""
    form = 'Write `{"name": (parameters, GB), ...}` with three models.'
    if not isinstance(value, dict):
        return verdict.not_yet(
            f"The answer is {article(value)}, and a dict is asked. {form}", slip="not a dict"
        )
    if len(value) != 3:
        return verdict.not_yet(f"It holds {len(value)} of the three models that are asked.", slip="not three")
    rows = [_model_row(pair) for pair in value.values()]
    sizes = {float(pair[0]) for pair, row in zip(value.values(), rows, strict=True) if row[0]}
    good = len(sizes)
    names = [str(name)[:40] for name in value]
    details = tuple(f"{name}: {row[1]}" for name, row in zip(names, rows, strict=True))
    if good == 3:
        return verdict.right("All three follow from the table.")
    if all(row[0] for row in rows):
        return verdict.by_rows(
            good / 3, "Two of the sizes are the same. Choose three that differ.", details, "same size"
        )
    slip = next((row[2] for row in rows if row[2]), None)
    return verdict.by_rows(good / 3, f"{good} of 3 models are right.", details, slip)


def _model_row(pair: Any) -> tuple[bool, str, str | None]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return False, "write a pair: (parameters, GB).", "not a pair"
    for item, what in zip(pair, ("the number of parameters", "the GB"), strict=True):
        trouble = (
            number_trouble(item, what=what)
            if item is not None
            else ("blank", f"{what} is not filled in yet.")
        )
        if trouble:
            return False, trouble[1], trouble[0]
    parameters, size_gb = pair
    if not 1e6 <= parameters <= 1e14:
        return False, "write the parameters as a count, such as 1.5e9 for 1.5B.", "size in billions"
    each = size_gb * GB / parameters
    if close(each, 16, 1e-2):
        return True, "right.", None
    found = next((found for amount, found in _ROW_SLIPS.items() if close(each, amount, 1e-2)), None)
    return (
        (False, found[1], found[0])
        if found
        else (False, "how many bytes does your table give one parameter?", None)
    )


_ROWS_RIGHT = {"GPT-2 XL": (1.5e9, 24), "Llama 3.2 3B": (3.2e9, 51.2), "Mistral": (7_200_000_000, 115.2)}

MY_THREE_MODELS = Relation(
    name="my_three_models",
    points=1,
    prompt="Training memory of three models you care about",
    rule=three_models,
    rights=(
        _ROWS_RIGHT,
        {"a": (1_000_000_000, 16), "b": [2e9, 32.0], "c": (70e9, 1120.0)},
        {"a": (124e6, 1.98), "b": (355e6, 5.68), "c": (774e6, 12.4)},
    ),
    slips=(
        *(
            Slip(
                name=found[0],
                value={"x": (1.5e9, 1.5 * each), "y": (3e9, 3 * each), "z": (7e9, 7 * each)},
                message=found[1],
                how=f"{each:g} bytes for each parameter",
            )
            for each, found in _ROW_SLIPS.items()
        ),
        Slip(
            name="same size",
            value={"a": (1e9, 16), "b": (1e9, 16), "c": (2e9, 32)},
            message="Two of the sizes are the same. Choose three that differ.",
        ),
        Slip(name="not three", value={"a": (1e9, 16)}, message="of the three models that are asked."),
        Slip(
            name="size in billions",
            value={"a": (1.5, 24), "b": (3, 48), "c": (7, 112)},
            message="write the parameters as a count",
        ),
    ),
)

#: what the memory model predicts for the lesson's small GPT: peak of full training over peak with a frozen
#: base and adapter
RATIO_PREDICTED = 3.6
RATIO_FACTOR = 2.0
#: the same from the states alone, all in fp32: sixteen bytes over four
RATIO_OF_STATES = 4


def ratio_in_range(value: Any) -> Verdict:
    """Judge a measured ratio: within a factor of the prediction, since every device measures its own."""
    trouble = number_trouble(value)
    if trouble:
        return verdict.not_yet(trouble[1], slip=trouble[0])
    if value == 0:
        return verdict.not_yet(
            "A ratio of two peaks cannot be zero. Was the first step measured?", slip="zero"
        )
    if close(value, RATIO_OF_STATES, 1e-9):
        message = "This is the prediction from the bytes alone. What do your two measured peaks give?"
        return verdict.not_yet(message, slip="the prediction")
    if value > 1 and float(value).is_integer() and value <= RATIO_PREDICTED * RATIO_FACTOR:
        message = "A measured ratio is hardly ever whole. What do your two peaks give, to two decimals?"
        return verdict.not_yet(message, slip="a whole number")
    if close(value, 1, 1e-2):
        message = "The two peaks are the same. Did the second measurement run with the base frozen?"
        return verdict.not_yet(message, slip="same peak")
    if RATIO_PREDICTED / RATIO_FACTOR <= value <= RATIO_PREDICTED * RATIO_FACTOR:
        return verdict.right(
            "As near to the prediction as a device comes: this ratio is the argument for adapters."
        )
    if RATIO_PREDICTED / RATIO_FACTOR <= 1 / value <= RATIO_PREDICTED * RATIO_FACTOR:
        return verdict.not_yet(
            "The ratio looks turned round. Which of the two peaks is the larger?", slip="turned round"
        )
    if value > 1e5:
        return verdict.not_yet(
            "This looks like a number of bytes. What do you divide it by?", slip="a peak in bytes"
        )
    message = (
        "This is far from what the memory model predicts. Are both peaks of the same model and the same "
        "batch?"
    )
    return verdict.not_yet(message, slip="far off")


MEASURED_RATIO = Relation(
    name="measured_ratio",
    points=1,
    prompt="Peak of full training divided by the peak with a frozen base and an adapter, as you measured "
    "them",
    rule=ratio_in_range,
    rights=(RATIO_PREDICTED, RATIO_PREDICTED * 1.5, RATIO_PREDICTED / 1.5),
    slips=(
        Slip(
            name="turned round", value=1 / RATIO_PREDICTED, how="adapter / full", message="looks turned round"
        ),
        Slip(
            name="same peak", value=1.0, how="the base was not frozen", message="The two peaks are the same."
        ),
        Slip(
            name="a peak in bytes",
            value=123_456_789,
            how="one peak, not a ratio",
            message="a number of bytes",
        ),
        Slip(name="far off", value=RATIO_PREDICTED * 7, how="two different set-ups", message="far from"),
        Slip(name="zero", value=0, how="nothing measured", message="cannot be zero"),
        Slip(name="the prediction", value=4, how="16 / 4", message="the prediction from the bytes alone"),
        Slip(name="a whole number", value=3, how="a guess", message="hardly ever whole"),
    ),
)

QUESTIONS = [
    WEIGHTS_7B,
    ADAMW_STATE,
    WHY_BF16,
    WHY_BF16_SENTENCE,
    BYTES_FP32,
    BYTES_MIXED,
    SMALLEST_STEP,
    TRAINING_GB,
    FINETUNE_GB,
    BYTES_WITH,
    FULL_3B,
    FULL_3B_TERMS,
    WHY_NO_SAVING,
    ADAPTER_TOTAL,
    BIGGEST_SAVING,
    EIGHT_BIT_70B,
    CARDS_NEEDED,
    WEIGHTS_ALONE,
    EIGHT_BIT_REPLY,
    ONE_SENTENCE,
    MY_THREE_MODELS,
    MEASURED_RATIO,
]
