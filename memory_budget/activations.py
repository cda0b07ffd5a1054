"""What do forward and backward hold beside the model's states? Reckoned from shapes, in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from operator import ge, mul

from memory_budget.adapters import check_rank, target_matrices
from memory_budget.architectures import Transformer
from memory_budget.tape import (
    ACTIVATIONS,
    CASTS,
    GRADIENTS,
    TEMPORARIES,
    Parameter,
    Storage,
    Tape,
    Value,
)

ID_BYTES = 8
DIGIT = 64
LENGTH, LENGTH_SQUARED, TOKENS, TOKENS_LENGTH = (1 << DIGIT * place for place in (1, 2, 3, 4))
SIMULATED_LAYERS = 3
NOTHING = (0, 0, 0, 0)

Bytes = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a model is run: what changes forward's and backward's memory, beside its shape and the batch.

    `weight_bytes` is the width of weights and of what is computed with them; under `autocast` products are
    computed in 2 bytes from weights of `weight_bytes`. `adapter_bytes` is the width of LoRA's own matrices.
    `gradients_exist` is True where gradients are there before backward (accumulation, zero_grad without
    set_to_none, a gradient buffer) or are used up at once. `quantised` frozen matrices are copied to 16 bit
    for each product. On `device` cuda or mps autocast takes the softmax in fp32, and a norm's two numbers a
    row are fp32; on cpu they are as wide as what came in."""

    weight_bytes: int = 4
    autocast: bool = False
    attention: str = "sdpa"
    checkpointing: str = "none"
    lora_rank: int | None = None
    lora_targets: tuple[str, ...] = ("q_proj", "v_proj")
    adapter_bytes: int | None = None
    last_layers: int | None = None
    gradients_exist: bool = False
    quantised: bool = False
    device: str = "cpu"


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What forward and backward hold, in bytes by tensor class: activations, temporaries, gradients.

    Temporaries are the 16-bit casts of autocast and, in backward, gradients on their way. `backward_peak` is
    the most that is held at once in backward, beside states that do not change in it. Gradients that exist
    before backward are not in it (`Run.gradients_exist`). The batch itself is among the activations."""

    end_of_forward: dict[str, int]
    forward_peak: dict[str, int]
    backward_peak: dict[str, int]
    batch_bytes: int


def one_pass(shape: Transformer, run: Run, batch: int, sequence: int) -> Pass:
    """Reckon one forward and backward of a decoder with next-token loss (GPT-2's or Llama's layers).

    Other families are reckoned with GPT-2's layer (Llama's where the norm is RMSNorm), T5 with all its layers
    alike: an estimate. No dropout. ValueError for a rank that does not fit."""
    return _profile(shape, run).at(batch, sequence)


@lru_cache(maxsize=256)
def _profile(shape: Transformer, run: Run) -> _Profile:
    return _Model(shape, run).reckon()


class _Profile:
    """A pass for every batch and sequence at once: its sizes are polynomials.

    A size is a sum of five terms: 1, s, s * s, b * s and b * s * s, each with a whole number before it. The
    tape adds and subtracts such sums as one long integer, whose 64-bit digits are those numbers."""

    __slots__ = ("backward", "end", "forward")

    def __init__(self, end: Bytes, forward: list[Bytes], backward: list[Bytes]) -> None:
        self.end = tuple(map(_digits, end))
        self.forward, self.backward = _highest(forward), _highest(backward)

    def at(self, batch: int, sequence: int) -> Pass:
        terms = (1, sequence, sequence**2, batch * sequence, batch * sequence**2)
        return Pass(
            end_of_forward=_classes(self.end, terms),
            forward_peak=_classes(_most(self.forward, terms), terms),
            backward_peak=_classes(_most(self.backward, terms), terms),
            batch_bytes=2 * ID_BYTES * batch * sequence,
        )


def _digits(number: int) -> tuple[int, ...]:
    return tuple(number >> (DIGIT * place) & (1 << DIGIT) - 1 for place in range(5))


def _highest(tops: list[Bytes]) -> list[tuple]:
    """Drop each top that another is above for every batch and sequence; give (its sums, its kinds)."""
    sums = {_digits(sum(top)): top for top in tops}
    found: list[tuple] = []
    # whatever is above a sum in every term comes before it in this order
    for one in sorted(sums, key=sum, reverse=True):
        if not any(all(map(ge, other, one)) for other, _ in found):
            found.append((one, tuple(map(_digits, sums[one]))))
    return found


def _most(tops: list[tuple], terms: tuple[int, ...]) -> tuple:
    return max(tops, key=lambda entry: sum(map(mul, entry[0], terms)))[1]


def _classes(held: tuple, terms: tuple[int, ...]) -> dict[str, int]:
    kinds = [sum(map(mul, each, terms)) for each in held]
    return {
        "activations": kinds[ACTIVATIONS],
        "gradients": kinds[GRADIENTS],
        "temporaries": kinds[TEMPORARIES] + kinds[CASTS],
    }


class _Matrix:
    """A linear layer's parameters, and its adapter's where it has one."""

    __slots__ = ("bias", "down", "outputs", "rank", "up", "weight")

    def __init__(self, weight: Parameter, bias: Parameter | None, outputs: int) -> None:
        self.weight, self.bias, self.outputs = weight, bias, outputs
        self.down: Parameter | None = None
        self.up: Parameter | None = None
        self.rank = 0

    def apply(self, tape: Tape, value: Value) -> Value:
        made = tape.linear(value, self.weight, self.bias, self.outputs)
        if self.down is None or self.up is None:
            return made
        low = tape.pointwise(
            tape.linear(tape.cast(value, self.down.width), self.down, None, self.rank), saves_input=False
        )
        return tape.cast(tape.add(made, tape.linear(low, self.up, None, self.outputs)), made.width)


class _Model:
    """One transformer on a tape: its parameters, its forward, and what three layers say about all."""

    def __init__(self, shape: Transformer, run: Run) -> None:
        self.shape, self.run = shape, run
        layers = shape.layers + shape.decoder_layers
        trained = layers if run.last_layers is None else run.last_layers
        self.first = min(layers - trained, 1)
        self.layers_run = self.first + min(trained, SIMULATED_LAYERS)
        self.more = max(0, trained - SIMULATED_LAYERS)
        self.tape = Tape(autocast=run.autocast, row_width=None if run.device == "cpu" else 4)
        self.width = run.weight_bytes
        self.parameters: list[Parameter] = []
        self.adapted: frozenset[str] = frozenset()
        if run.lora_rank is not None:
            chosen = target_matrices(shape, run.lora_targets)
            check_rank(run.lora_rank, chosen)
            self.adapted = frozenset(m.module.partition("{}.")[2] for m in chosen)

    # parameters

    def parameter(self, elements: int, layer: int | None = None, quantised: bool = False) -> Parameter:
        run = self.run
        trainable = run.lora_rank is None
        if run.last_layers is not None:
            trainable = layer is not None and layer >= self.first
        quantised = quantised and run.quantised and not trainable
        return self.keep(Parameter(elements, self.width, trainable, not run.gradients_exist, quantised))

    def keep(self, parameter: Parameter) -> Parameter:
        """Hold on to a parameter: it holds its gradient."""
        self.parameters.append(parameter)
        return parameter

    def matrix(self, name: str, inputs: int, outputs: int, bias: bool, layer: int) -> _Matrix:
        weight = self.parameter(inputs * outputs, layer, quantised=True)
        made = _Matrix(weight, self.parameter(outputs, layer) if bias else None, outputs)
        if name in self.adapted:
            rank, width = self.run.lora_rank, self.run.adapter_bytes or self.width
            made.rank = rank
            keeps = not self.run.gradients_exist
            made.down = self.keep(Parameter(inputs * rank, width, True, keeps))
            made.up = self.keep(Parameter(rank * outputs, width, True, keeps))
        return made

    # forward

    def reckon(self) -> _Profile:
        tape = self.tape
        ids = [tape.new(TOKENS, ID_BYTES) for _ in range(2)]
        loss = self.forward(ids[0])
        tape.end_forward()
        end = tuple(tape.ledger.held)
        tape.backward(loss)
        return self.extend(end)

    def forward(self, ids: Storage) -> Value:
        tape, shape = self.tape, self.shape
        tape.zone("embedding")
        table = self.parameter(shape.vocabulary * shape.hidden)
        hidden = tape.embedding(ids, table, TOKENS * shape.hidden)
        layer, final_norm, extra = self.family(hidden)
        if shape.context:
            places = tape.new(LENGTH, ID_BYTES)  # alive until forward returns
            hidden = self.add_positions(hidden, places)
        embedded = hidden  # alive until all layers have run: their caller's name for what goes in
        for index in range(self.layers_run):
            tape.zone(index)
            run_layer = partial(layer, self.layer_parameters(index))
            if self.run.checkpointing == "full":
                hidden = tape.checkpoint(run_layer, hidden, *extra)
            else:
                hidden = run_layer(hidden, *extra)
        del embedded, extra
        tape.zone("head")
        head = table if shape.tied else self.parameter(shape.vocabulary * shape.hidden)
        logits = tape.linear(final_norm(hidden), head, None, shape.vocabulary)
        return tape.cross_entropy(tape.cast(logits, 4) if self.run.autocast else logits)

    def add_positions(self, hidden: Value, ids: Storage) -> Value:
        tape, shape, length = self.tape, self.shape, LENGTH
        table = self.parameter(shape.context * shape.hidden)
        places = tape.embedding(ids, table, length * shape.hidden)
        return tape.add(hidden, places)

    def family(self, hidden: Value):
        if self.shape.norm == "rmsnorm":
            weight = self.parameter(self.shape.hidden)
            tables = self.rotary_tables(hidden)
            return self.llama_layer, partial(self.rms_norm, weight), tables
        weight, bias = self.parameter(self.shape.hidden), self.parameter(self.shape.hidden)
        return self.gpt2_layer, partial(self.tape.layer_norm, weight=weight, bias=bias, rows=TOKENS), ()

    def layer_parameters(self, layer: int) -> dict:
        s = self.shape
        if s.norm == "rmsnorm":
            q, kv = s.heads * s.head_size, s.kv_heads * s.head_size
            matrices = [
                ("self_attn.q_proj", s.hidden, q, s.attention_bias),
                ("self_attn.k_proj", s.hidden, kv, s.attention_bias),
                ("self_attn.v_proj", s.hidden, kv, s.attention_bias),
                ("self_attn.o_proj", q, s.hidden, s.output_bias),
                ("mlp.gate_proj", s.hidden, s.ffn, s.mlp_bias),
                ("mlp.up_proj", s.hidden, s.ffn, s.mlp_bias),
                ("mlp.down_proj", s.ffn, s.hidden, s.mlp_bias),
            ]
        else:
            matrices = [
                ("attn.c_attn", s.hidden, 3 * s.heads * s.head_size, s.attention_bias),
                ("attn.c_proj", s.heads * s.head_size, s.hidden, s.output_bias),
                ("mlp.c_fc", s.hidden, s.ffn, s.mlp_bias),
                ("mlp.c_proj", s.ffn, s.hidden, s.mlp_bias),
            ]
        made = {name: self.matrix(name, d_in, d_out, bias, layer) for name, d_in, d_out, bias in matrices}
        norms = 2 if s.norm == "rmsnorm" else 4
        return made | {number: self.parameter(s.hidden, layer) for number in range(norms)}

    # what a function's names refer to stays until it returns, in the model and here: keep them alike

    def gpt2_layer(self, p: dict, hidden: Value) -> Value:
        tape, rows = self.tape, TOKENS
        hidden = tape.add(hidden, self.gpt2_attention(p, tape.layer_norm(hidden, p[0], p[1], rows)))
        return tape.add(hidden, self.gpt2_mlp(p, tape.layer_norm(hidden, p[2], p[3], rows)))

    def gpt2_attention(self, p: dict, normed: Value) -> Value:
        joined = p["attn.c_attn"].apply(self.tape, normed)
        heads = self.tape.split(joined, [joined.elements // 3] * 3)
        del joined
        return p["attn.c_proj"].apply(self.tape, self.attend(*heads))

    def gpt2_mlp(self, p: dict, normed: Value) -> Value:
        return p["mlp.c_proj"].apply(self.tape, self.tape.pointwise(p["mlp.c_fc"].apply(self.tape, normed)))

    def llama_layer(self, p: dict, hidden: Value, cosines: Value, sines: Value) -> Value:
        mixed = self.llama_attention(p, self.rms_norm(p[0], hidden), cosines, sines)
        hidden = self.tape.add(hidden, mixed)
        del mixed
        return self.tape.add(hidden, self.llama_mlp(p, self.rms_norm(p[1], hidden)))

    def llama_attention(self, p: dict, normed: Value, cosines: Value, sines: Value) -> Value:
        query, key, value = (p[f"self_attn.{name}_proj"].apply(self.tape, normed) for name in "qkv")
        query, key = self.rotate(query, cosines, sines), self.rotate(key, cosines, sines)
        return p["self_attn.o_proj"].apply(self.tape, self.attend(query, key, value))

    def llama_mlp(self, p: dict, normed: Value) -> Value:
        tape = self.tape
        gate = p["mlp.gate_proj"].apply(tape, normed)
        if self.shape.gated:
            wide = tape.multiply(tape.pointwise(gate), p["mlp.up_proj"].apply(tape, normed))
        else:
            wide = tape.pointwise(gate)
        del gate
        return p["mlp.down_proj"].apply(tape, wide)

    # parts

    def rms_norm(self, weight: Parameter, value: Value) -> Value:
        tape, rows, width = self.tape, TOKENS, value.width
        wide = tape.cast(value, 4)
        squares = tape.square(wide)
        means = tape.mean(squares, rows)
        del squares
        roots = tape.inverse_root(means)
        del means
        wide = tape.multiply(wide, roots)
        return tape.multiply(tape.cast(wide, width), weight)

    def rotary_tables(self, hidden: Value) -> tuple[Value, Value]:
        elements, width = LENGTH * self.shape.head_size, hidden.width
        made = tuple(Value(self.tape.new(elements, width), elements, width) for _ in range(2))
        return made  # type: ignore[return-value]

    def rotate(self, value: Value, cosines: Value, sines: Value) -> Value:
        tape, half = self.tape, value.elements // 2
        first, second = tape.split(value, [half, half])
        straight = tape.multiply(value, cosines)
        turned = tape.join([tape.pointwise(second, saves_input=False), first])
        return tape.add(straight, tape.multiply(turned, sines))

    def attend(self, query: Value, key: Value, value: Value) -> Value:
        core = self.fused if self.run.attention == "sdpa" else self.kept_scores
        if self.run.checkpointing == "selective":
            mixed = self.tape.checkpoint(core, query, key, value, whole_module=False)
        else:
            mixed = core(query, key, value)
        return mixed if self.run.attention == "sdpa" else self.tape.copy(mixed, copies_gradient=True)

    def fused(self, query: Value, key: Value, value: Value) -> Value:
        query, key, value = (self.narrow(each) for each in (query, key, value))
        return self.tape.fused_attention(query, key, value, TOKENS * self.shape.heads)

    def kept_scores(self, query: Value, key: Value, value: Value) -> Value:
        tape, s = self.tape, self.shape
        scores_elements = TOKENS_LENGTH * s.heads
        groups = s.heads // s.kv_heads
        if groups > 1:
            key, value = tape.repeat(key, groups), tape.repeat(value, groups)
        first, second = (tape.copy(self.narrow(each)) for each in (query, key))
        raw = tape.matmul(first, second, scores_elements)
        del first, second
        scores = tape.pointwise(raw, saves_input=False)
        del raw
        shares = self.shares(scores)
        third = tape.copy(self.narrow(value), copies_gradient=True)
        mixed = tape.matmul(self.narrow(shares), third, query.elements)
        del third, shares, scores
        return mixed

    def shares(self, scores: Value) -> Value:
        tape = self.tape
        mask = Value(tape.new(LENGTH_SQUARED, 1), LENGTH_SQUARED, 1)
        masked = tape.mask(scores, mask)
        wide = self.run.autocast and self.run.device != "cpu"
        return tape.softmax(tape.cast(masked, 4) if wide else masked)

    def narrow(self, value: Value) -> Value:
        """Cast what enters a matrix product under autocast."""
        return self.tape.cast(value, 2) if self.run.autocast else value

    # all layers

    def extend(self, end: Bytes) -> _Profile:
        """Add the layers that were not run: each keeps what layer `first + 1` keeps and gives what it gives.

        Between the first and the last of alike layers memory goes evenly, so one of the two is the peak."""
        forward_kept, kept, given = self.layers_more()
        forward, backward = [], []
        for (phase, zone), top in self.tape.ledger.tops:
            if phase == "forward":
                forward.append(_plus(top, forward_kept) if self.follows(zone) else top)
                continue
            if self.follows(zone):
                backward.append(_plus(top, kept))
            if zone not in ("head", self.first + 2):
                backward.append(_plus(top, given))
        return _Profile(_plus(end, kept), forward, backward)

    def follows(self, zone: object) -> bool:
        """Whether the layers that were not run can lie before this zone in forward."""
        return zone == "head" or (isinstance(zone, int) and zone > self.first)

    def layers_more(self) -> tuple[Bytes, Bytes, Bytes]:
        """What the layers that were not run hold while forward goes on, after it, and after backward."""
        if not self.more:
            return NOTHING, NOTHING, NOTHING
        entered, first = self.tape.ledger.entered, self.first
        held = _minus(entered["forward", first + 2], entered["forward", first + 1])
        change = _minus(entered["backward", first], entered["backward", first + 1])
        given = tuple(size if kind == GRADIENTS else 0 for kind, size in enumerate(change))
        kept = _minus(given, change)
        return tuple(tuple(self.more * size for size in each) for each in (held, kept, given))


def _plus(first: Bytes, second: Bytes) -> Bytes:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _minus(first: Bytes, second: Bytes) -> Bytes:
    return tuple(a - b for a, b in zip(first, second, strict=True))
