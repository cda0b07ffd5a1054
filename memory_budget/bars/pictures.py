"""Which bars and which sentence belong to a position of the controls?

No widgets here, and no numbers of its own: every byte comes from `memory_budget.budget`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from memory_budget import budget
from memory_budget.devices import DEVICES, fit_words, smallest_that_holds
from memory_budget.drawing import Line, Picture, Row, axis_top, message, stacked_bars
from memory_budget.optimizers import OPTIMIZERS
from memory_budget.palette import CLASS_KEYS, TENSOR_CLASSES
from memory_budget.recipes import RECIPES
from memory_budget.units import GB, both_text, bytes_text, count_text, number_text

MEMORY_LADDER = (1, 2, 5, 10)  # ends of the axis within a decade
TRAINED_KEYS = ("weights", "master_copy", "gradients", "first_moment", "second_moment")
VALUE_RECIPES = {4: "fp32", 2: "pure-bf16"}  # the regimes in which every value is equally wide


def device_lines(chosen_bytes: int = 0) -> list[Line]:
    """One line for each device, and a strong one for the device that the words speak of."""
    known = {device.bytes: device.label.removesuffix(" GB") for device in DEVICES}
    if chosen_bytes:
        known[chosen_bytes] = bytes_text(chosen_bytes)
    return [Line(bytes=size, label=label, strong=size == chosen_bytes) for size, label in known.items()]


def present(sizes: Mapping[str, float], keys: Sequence[str] = CLASS_KEYS) -> dict[str, float]:
    """The classes that hold anything, in drawing order."""
    return {key: sizes[key] for key in keys if sizes.get(key, 0)}


def times_words(ratio: float) -> str:
    """How many times as much, in words."""
    return "as much" if number_text(ratio, 3) == "1" else f"{number_text(ratio, 3)} times as much"


def numbers_table(
    columns: Mapping[str, Mapping[str, float]], keys: Sequence[str] = CLASS_KEYS
) -> list[list[str]]:
    """A table of bytes: one row a tensor class, one column a bar, and the totals below."""
    used = [key for key in keys if any(column.get(key, 0) for column in columns.values())]
    body = [
        [TENSOR_CLASSES[key].label, *(bytes_text(c.get(key, 0)) for c in columns.values())] for key in used
    ]
    totals = ["total", *(bytes_text(sum(column.values())) for column in columns.values())]
    return [["", *columns], *body, totals]


def regime(recipe: str, optimizer: str = "adamw") -> Picture:
    """Bytes of one trainable parameter in one regime, beside the lesson's sixteen."""
    chosen = RECIPES[recipe]
    here, lesson = chosen.terms(optimizer), RECIPES["mixed"].terms(optimizer)
    total = number_text(sum(here.values()))
    added = " + ".join(number_text(value) for value in here.values())
    words = (
        f"{chosen.label}: {added} = {total} bytes. {chosen.why} Kept so by {chosen.who}. Peak: {chosen.peak}."
    )
    rows = [
        Row(name=chosen.label, pieces=here, total=f"{total} bytes"),
        Row(name="this lesson", pieces=lesson, total=f"{number_text(sum(lesson.values()))} bytes"),
    ]
    keys = (*TRAINED_KEYS, "temporaries")  # drawn or not, so that the picture keeps its height
    svg = stacked_bars(rows, axis_bytes=20, label=words, legend=keys, unit="a parameter", bar=52)
    return Picture(
        svg=svg, words=words, table=numbers_table({chosen.label: here, "this lesson": lesson}, keys)
    )


def training(parameters: int, recipe: str, optimizer: str, device_bytes: int) -> Picture:
    """Weights alone and the training state of a model of that size, fp32 beside mixed, against a device."""
    beside = "mixed" if recipe == "fp32" else "fp32"
    here, other = (
        budget.predict(budget.Setup(parameters=parameters, recipe=name, optimizer=optimizer))
        for name in (recipe, beside)
    )
    state = present(here.bytes)
    weights = {"weights": state["weights"]}
    ratio = number_text(here.total_bytes / weights["weights"], 3)
    alone = bytes_text(weights["weights"])
    words = (
        f"{here.sentence(device_bytes)}. The weights alone are {alone}: {ratio} times less. "
        f"The same in {beside}: {bytes_text(other.total_bytes)}."
    )
    columns = {
        "weights alone": weights,
        "training": state,
        f"in {beside}": present(other.bytes),
    }
    rows = [Row(name=name, pieces=pieces) for name, pieces in columns.items()]
    svg = stacked_bars(
        rows,
        axis_bytes=axis_top(max(here.total_bytes, other.total_bytes, 10 * GB), MEMORY_LADDER),
        label=words,
        lines=device_lines(device_bytes),
        legend=(*TRAINED_KEYS, "temporaries"),
    )
    return Picture(svg=svg, words=words, table=numbers_table(columns))


def _escape_setup(model: str, share: float, rank: int, base: str) -> budget.Setup:
    precision = None if base == "bf16" else base
    if model[0].isdigit():
        return budget.Setup(parameters=model, trainable=share, base=precision)
    return budget.Setup(model=model, lora_rank=rank, base=precision)


def escape(model: str, share: float, rank: int, base: str) -> Picture:
    """Training everything beside training a part: a share of any model, or a LoRA adapter on a real one."""
    size = {"parameters": model} if model[0].isdigit() else {"model": model}
    whole = budget.predict(budget.Setup(**size))
    part = budget.predict(_escape_setup(model, share, rank, base))
    columns = {"train everything": present(whole.bytes), "train a part": present(part.bytes)}
    words = _escape_words(whole, part)
    svg = stacked_bars(
        [Row(name=name, pieces=pieces) for name, pieces in columns.items()],
        axis_bytes=axis_top(whole.total_bytes, MEMORY_LADDER),
        label=words,
        lines=device_lines(),
        legend=("weights", "frozen_weights", *TRAINED_KEYS[1:]),
    )
    return Picture(svg=svg, words=words, table=numbers_table(columns))


def _escape_words(whole: budget.Budget, part: budget.Budget) -> str:
    frozen = part.bytes["frozen_weights"]
    trained = part.total_bytes - frozen
    device = smallest_that_holds(part.total_bytes)
    verdict = (
        fit_words(part.total_bytes, device.bytes)
        if device
        else fit_words(part.total_bytes, DEVICES[-1].bytes)
    )
    share = number_text(100 * trained / part.total_bytes, 3)
    return (
        f"{part.sum_in_words}, {verdict}. Frozen {bytes_text(frozen)} + trained {bytes_text(trained)}: the "
        f"trained part is {share}% of it. Training everything takes {bytes_text(whole.total_bytes)}, "
        f"{times_words(whole.total_bytes / part.total_bytes)}."
    )


PEAK_MODEL, PEAK_SEQUENCE = "gpt2", 512


def peak_budget(batch: int, step: str, checkpointing: str, first_step: bool) -> budget.Budget:
    """One fp32 step of PEAK_MODEL with AdamW; `step` is an implementation, or `backward`: inside backward."""
    way = {"optimizer_in_backward": True} if step == "backward" else {"implementation": step}
    return budget.predict(
        budget.Setup(
            model=PEAK_MODEL,
            recipe="fp32",
            batch=batch,
            sequence=PEAK_SEQUENCE,
            checkpointing=checkpointing,
            first_step=first_step,
            **way,
        )
    )


def _as_a_later_step(moments: Mapping[str, Mapping[str, int]]) -> dict[str, Mapping[str, int]]:
    """The moments of a step that begins with the state which the one before it left, not with weights alone."""
    _, *rest = moments.items()
    kept = {k: v for k, v in moments["after step"].items() if k in TRAINED_KEYS and k != "gradients"}
    return {"step begins": kept, **dict(rest)}


def peak(batch: int, step: str, checkpointing: str, first_step: bool = False) -> Picture:
    """What is alive at each moment of one step, and which moment holds most."""
    here = peak_budget(batch, step, checkpointing, first_step)
    moments = here.moments if first_step else _as_a_later_step(here.moments)
    rows = [
        Row(
            name=moment,
            pieces=present(sizes),
            total=bytes_text(sum(sizes.values())) + (" peak" if moment == here.peak_moment else ""),
        )
        for moment, sizes in moments.items()
    ]
    holders = ", ".join(
        f"{TENSOR_CLASSES[key].label} {bytes_text(here.moments[here.peak_moment][key])}"
        for key in here.peak_holders
    )
    words = (
        f"{PEAK_MODEL}, {batch} {'sequence' if batch == 1 else 'sequences'} of {PEAK_SEQUENCE}: the peak is {bytes_text(here.peak_bytes)}, "
        f"at the moment '{here.peak_moment}'. It holds {holders}."
    )
    svg = stacked_bars(
        rows,
        axis_bytes=axis_top(here.peak_bytes, (1, 1.5, 2, 3, 5, 7, 10)),
        label=words,
        bar=28,
        legend=tuple(key for key in CLASS_KEYS if key not in ("frozen_weights", "master_copy")),
    )
    return Picture(svg=svg, words=words, table=numbers_table(moments))


def inference_and_training(
    parameters: int, share: float, optimizer: str, value_bytes: int, device_bytes: int
) -> Picture:
    """Running and training the same model, every value equally wide, on one axis."""
    trained = round(parameters * share)
    whole = budget.inference_bytes(parameters, value_bytes)
    weights = budget.inference_bytes(parameters, value_bytes, margin=0)
    running = {"weights": weights, "activations": whole - weights}
    recipe = VALUE_RECIPES[value_bytes]
    training = present(budget.terms(trained, parameters - trained, recipe, optimizer))
    total, most = sum(training.values()), budget.training_bytes(parameters, recipe, optimizer)
    words = (
        f"{count_text(parameters)} parameters, {count_text(trained)} of them trained, {value_bytes} bytes a "
        f"value: running takes {bytes_text(whole)} with the 20% margin for activations and key-value cache, "
        f"{fit_words(whole, device_bytes)}; training takes {bytes_text(total)} before its activations, "
        f"{_room_words(total, device_bytes)}. {OPTIMIZERS[optimizer].label} and the gradients add "
        f"{bytes_text(total - weights)} to the weights."
    )
    columns = {"inference": running, "training": training}
    totals = {"inference": bytes_text(whole), "training": f"{bytes_text(total)} + activations"}
    svg = stacked_bars(
        [Row(name=name, pieces=pieces, total=totals[name]) for name, pieces in columns.items()],
        # the axis of training everything: it stands still while the share moves
        axis_bytes=axis_top(max(most, whole, device_bytes), MEMORY_LADDER),
        label=words,
        lines=device_lines(device_bytes),
        legend=("weights", "frozen_weights", *TRAINED_KEYS[2:], "activations"),
    )
    return Picture(svg=svg, words=words, table=numbers_table(columns))


def _room_words(held_bytes: int, device_bytes: int) -> str:
    """What a device has left for activations that are not counted, or how much is short without them."""
    if held_bytes < device_bytes:
        return f"which leaves {bytes_text(device_bytes - held_bytes)} of {bytes_text(device_bytes)} for them"
    return f"and without them already {fit_words(held_bytes, device_bytes)}"


def _pieces_of(held: Any) -> dict[str, float]:
    """The bytes by class of a prediction at its peak, of a measurement, or of a dict."""
    if hasattr(held, "peak_moment"):
        held = held.moments[held.peak_moment]
    sizes = getattr(held, "bytes", held)
    if not isinstance(sizes, Mapping):
        raise ValueError(f"expected bytes by tensor class, not {type(held).__name__}")
    unknown = [key for key in sizes if key not in TENSOR_CLASSES]
    if unknown:
        raise ValueError(f"no tensor class is called {unknown[0]!r}: choose from {', '.join(CLASS_KEYS)}")
    wrong = [
        key
        for key, size in sizes.items()
        if not isinstance(size, int | float) or not 0 <= size < float("inf")
    ]
    if wrong:
        raise ValueError(f"{wrong[0]} must be a number of bytes of 0 or more, not {sizes[wrong[0]]!r}")
    return present(sizes)


def predicted_and_measured(predicted: Any, measured: Any) -> Picture:
    """The same step as it was predicted and as it was counted, by class, with the difference in per cent."""
    try:
        columns = {"predicted": _pieces_of(predicted), "measured": _pieces_of(measured)}
    except ValueError as problem:
        return message(f"No bars yet: {problem}.")
    expected, counted = (sum(pieces.values()) for pieces in columns.values())
    if not counted:
        return message("No bars yet: nothing was measured.")
    off = 100 * (expected - counted) / counted
    words = (
        f"Predicted {both_text(expected)}, measured {both_text(counted)}"
        f"{_where(measured)}: the prediction is {_percent(off)}."
    )
    svg = stacked_bars(
        [Row(name=name, pieces=pieces) for name, pieces in columns.items()],
        axis_bytes=axis_top(max(expected, counted), (1, 1.5, 2, 3, 5, 7, 10)),
        label=words,
    )
    return Picture(svg=svg, words=words, table=_differences(columns))


def _where(measured: Any) -> str:
    device, moment = getattr(measured, "device", ""), getattr(measured, "peak_moment", "")
    return (f" on {device}" if device else "") + (f" at its peak ({moment})" if moment else "")


def _percent(off: float) -> str:
    return "right to 0.1%" if abs(off) < 0.05 else f"{abs(off):.1f}% too {'high' if off > 0 else 'low'}"


def _differences(columns: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
    head, *body = numbers_table(columns)
    keys = [key for key in CLASS_KEYS if any(pieces.get(key) for pieces in columns.values())]
    pairs = [tuple(pieces.get(key, 0) for pieces in columns.values()) for key in keys]
    pairs.append(tuple(sum(pieces.values()) for pieces in columns.values()))
    return [
        [*head, "difference"],
        *(
            [*row, f"{100 * (a - b) / b:+.1f}%" if b else "only predicted"]
            for row, (a, b) in zip(body, pairs, strict=True)
        ),
    ]
