"""What does autograd keep, and when does it let go? Torch's tape, with sizes in place of tensors.

Every operation makes a storage, saves what its backward needs and lets go of the rest; backward runs the
nodes in torch's order (the youngest first, gradients stored at once). Storages count themselves out when
nothing refers to them any more, as torch's do, so no lifetime is written down anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from math import inf
from weakref import ref

ACTIVATIONS, TEMPORARIES, GRADIENTS, CASTS = range(4)


class Ledger:
    """Bytes held now, by kind, and what was held at every top: where a release follows an allocation.

    Any sizes that add and subtract will do; which top is the highest is for the caller to say."""

    __slots__ = ("entered", "held", "kind", "rising", "tops", "zone")

    def __init__(self) -> None:
        self.held = [0, 0, 0, 0]
        self.kind = ACTIVATIONS
        self.rising = False
        self.zone: tuple[str, object] = ("forward", "start")
        self.tops: list[tuple[tuple[str, object], tuple[int, ...]]] = []
        self.entered: dict[tuple[str, object], tuple[int, ...]] = {}

    def enter(self, phase: str, name: object) -> None:
        """Begin a zone of the step; what is held then is noted the first time."""
        if (phase, name) != self.zone:
            self.top()
            self.zone = (phase, name)
            self.entered.setdefault(self.zone, tuple(self.held))

    def top(self) -> None:
        """Note what is held if it has grown since the last release."""
        if self.rising:
            self.tops.append((self.zone, tuple(self.held)))
            self.rising = False


class Storage:
    """Some bytes that live as long as something refers to them."""

    __slots__ = ("kind", "ledger", "size")

    def __init__(self, ledger: Ledger, size: int, kind: int | None = None) -> None:
        self.ledger, self.size = ledger, size
        self.kind = ledger.kind if kind is None else kind
        ledger.held[self.kind] += size
        ledger.rising = True

    def become(self, kind: int) -> None:
        """Count these bytes as another kind from now on."""
        self.ledger.held[self.kind] -= self.size
        self.ledger.held[kind] += self.size
        self.kind = kind

    def __del__(self) -> None:
        self.ledger.top()
        self.ledger.held[self.kind] -= self.size


class Node:
    """One operation to run backward: `edges` lead to (node, slot) of its inputs."""

    __slots__ = ("backward", "edges", "order", "saved", "slots", "zone")

    def __init__(
        self, order: float, zone: object, edges: Sequence, backward: Callable, slots: int = 1
    ) -> None:
        self.order, self.zone, self.edges = order, zone, edges
        self.backward, self.slots = backward, slots
        self.saved: list[Saved] = []


class Value:
    """A tensor: its storage (None for a parameter, which the states count), elements, bytes an element."""

    __slots__ = ("elements", "node", "slot", "storage", "width")

    def __init__(
        self, storage: Storage | None, elements: int, width: int, node: Node | None = None, slot: int = 0
    ) -> None:
        self.storage, self.elements, self.width = storage, elements, width
        self.node, self.slot = node, slot

    @property
    def edge(self) -> tuple[Node, int] | None:
        """Where this value's gradient goes."""
        return None if self.node is None else (self.node, self.slot)


class Parameter(Value):
    """A parameter, whose gradient stays unless `keeps_gradient` is False: then there is one already, to which
    it is added, or it is used up at once. With `quantised` a 16-bit copy is made for each product."""

    __slots__ = ("gradient", "keeps_gradient", "quantised")

    def __init__(
        self,
        elements: int,
        width: int,
        trainable: bool,
        keeps_gradient: bool = True,
        quantised: bool = False,
    ) -> None:
        super().__init__(None, elements, width)
        self.gradient: Storage | None = None
        self.keeps_gradient, self.quantised = keeps_gradient, quantised
        if trainable:
            self.node = Node(inf, None, (), self._arrive)

    def _arrive(self, gradients: list[Storage]) -> tuple[()]:
        gradients[0].become(GRADIENTS)
        if self.keeps_gradient:
            self.gradient = gradients[0]
        return ()


class Saved:
    """What a node keeps: a storage, or under checkpointing the promise to make it again."""

    __slots__ = ("__weakref__", "frame", "storage")

    def __init__(self, storage: Storage | None, frame: Frame | None = None) -> None:
        self.storage, self.frame = storage, frame


class Recomputed(Exception):
    """All that a checkpoint promised is there again: torch stops the second forward here."""


class Frame:
    """One checkpointed call: its function, what goes in, and what its nodes will ask for."""

    __slots__ = ("arguments", "function", "kind", "promises")

    def __init__(self, function: Callable, arguments: tuple, kind: int) -> None:
        self.function, self.arguments, self.kind = function, arguments, kind
        self.promises: list = []


class Tape:
    """Runs operations on sizes. `autocast` casts what enters a matrix product to 2 bytes, as torch.amp does.

    `row_width` is the width of the two numbers a row that a layer norm keeps; None is that of its input."""

    def __init__(self, autocast: bool = False, row_width: int | None = None) -> None:
        self.ledger = Ledger()
        self.autocast, self.row_width = autocast, row_width
        self.casts: dict[Parameter, Value] = {}
        self._orders = count()
        self._frame: Frame | None = None
        self._again: list | None = None
        self.is_forward = True

    def new(self, elements: int, width: int, kind: int | None = None) -> Storage:
        """Allocate."""
        return Storage(self.ledger, elements * width, kind)

    def zone(self, name: object) -> None:
        """Say which part of the model comes now."""
        if self._again is None:
            self.ledger.enter("forward", name)

    def save(self, node: Node, storage: Storage | None) -> None:
        """Keep a storage for a node's backward; parameters cost nothing to keep."""
        if storage is None:
            return
        if self._again is not None:
            promise = self._again.pop()()
            if promise is not None:
                promise.storage = storage
            if not self._again:
                raise Recomputed
        elif self._frame is not None:
            promise = Saved(None, self._frame)
            self._frame.promises.append(ref(promise))
            node.saved.append(promise)
        else:
            node.saved.append(Saved(storage))

    def node(self, inputs: Sequence[Value], backward: Callable, slots: int = 1) -> Node | None:
        """Make a node when some input wants a gradient; its edges follow the inputs."""
        edges = tuple(value.edge for value in inputs)
        if not any(edges):
            return None
        zone = self.ledger.zone[1] if self.is_forward else None
        return Node(next(self._orders), zone, edges, backward, slots)

    def checkpoint(self, function: Callable, *arguments: Value, whole_module: bool = True) -> Value:
        """Run a function keeping its arguments alone; its backward runs it again (non-reentrant)."""
        self._frame = Frame(function, arguments, ACTIVATIONS if whole_module else TEMPORARIES)
        result = function(*arguments)
        self._frame = None
        return result

    def _recompute(self, frame: Frame) -> None:
        self._again = frame.promises[::-1]
        kind, self.ledger.kind = self.ledger.kind, frame.kind
        with suppress(Recomputed):
            frame.function(*frame.arguments)
        self._again = None
        self.casts.clear()
        self.ledger.kind = kind
        frame.promises = []

    def end_forward(self) -> None:
        """Leave autocast, which drops its casts of parameters unless a node saved them."""
        self.casts.clear()

    def backward(self, loss: Value) -> None:
        """Run all nodes, each when all that flows into it is there, the youngest first."""
        self.is_forward = False
        self.ledger.kind = TEMPORARIES
        waiting = _dependencies(loss.node)
        buffers: dict[Node, list] = {loss.node: [self.new(1, loss.width)]}
        ready = [(-loss.node.order, 0, loss.node)]
        ties = count(1)
        loss = None
        while ready:
            node = heappop(ready)[2]
            flows = self._run(node, buffers.pop(node))
            for edge in node.edges:
                flow = flows.pop()
                if edge is None:
                    continue
                target, slot = edge
                buffer = buffers.setdefault(target, [None] * target.slots)
                if buffer[slot] is None:
                    buffer[slot] = flow
                elif flow is not None:
                    buffer[slot] = self.new(flow.size, 1)
                flow = None
                waiting[target] -= 1
                if not waiting[target]:
                    heappush(ready, (-target.order, next(ties), target))

    def _run(self, node: Node, gradients: list) -> list:
        if node.zone is not None:
            self.ledger.enter("backward", node.zone)
        for saved in node.saved:
            if saved.storage is None and saved.frame.promises:
                self._recompute(saved.frame)
        flows = list(node.backward(gradients))[::-1]
        node.saved, node.backward = [], None
        return flows

    # operations

    def pointwise(self, value: Value, saves_input: bool = True, width: int | None = None) -> Value:
        """GELU, SiLU and the like: one output as large as the input."""
        width = value.width if width is None else width
        elements, back_width = value.elements, value.width
        node = self.node((value,), lambda _: (self.new(elements, back_width),))
        if node and saves_input:
            self.save(node, value.storage)
        return Value(self.new(elements, width), elements, width, node)

    def cast(self, value: Value, width: int) -> Value:
        """Copy to another precision; a trainable parameter's copy is made once in a forward."""
        if value.width == width:
            return value
        if isinstance(value, Parameter):
            if value in self.casts:
                return self.casts[value]
            elements, back = value.elements, value.width
            node = self.node((value,), lambda _: (self.new(elements, back),))
            made = Value(self.new(elements, width, CASTS), elements, width, node)
            if node:
                self.casts[value] = made
            return made
        return self.pointwise(value, saves_input=False, width=width)

    def linear(self, value: Value, weight: Parameter, bias: Parameter | None, outputs: int) -> Value:
        """Multiply by a matrix with that many output columns."""
        matrix: Value = weight
        if self.autocast:
            bias = None if bias is None else self.cast(bias, 2)
            matrix, value = self.cast(weight, 2), self.cast(value, 2)
        rows = value.elements * outputs // weight.elements
        entries = (value, matrix) if bias is None else (value, matrix, bias)
        sizes = [(entry.elements, entry.width) for entry in entries]
        wanted = [entry.node is not None for entry in entries]
        copied = weight.elements if weight.quantised else 0

        def backward(_: list) -> list:
            copy = self.new(copied, 2) if copied else None  # noqa: F841 - held while the products are made
            return [self.new(*size) if want else None for size, want in zip(sizes, wanted, strict=True)]

        node = self.node(entries, backward)
        if node:
            if wanted[1]:
                self.save(node, value.storage)
            if wanted[0]:
                self.save(node, matrix.storage)
        copy = self.new(copied, 2) if copied else None
        made = Value(self.new(rows * outputs, value.width), rows * outputs, value.width, node)
        del copy
        return made

    def add(self, first: Value, second: Value) -> Value:
        """Add; a smaller second operand is repeated over the first, and its gradient summed."""
        width, elements = max(first.width, second.width), first.elements
        sizes = [
            None if v.elements == elements and v.width == width else (v.elements, v.width)
            for v in (first, second)
        ]
        wanted = [first.node is not None, second.node is not None]

        def backward(gradients: list) -> list:
            return [
                (gradients[0] if size is None else self.new(*size)) if want else None
                for size, want in zip(sizes, wanted, strict=True)
            ]

        node = self.node((first, second), backward)
        return Value(self.new(elements, width), elements, width, node)

    def multiply(self, first: Value, second: Value) -> Value:
        """Multiply value by value; each is kept for the other's gradient. The second may be smaller."""
        width, elements = max(first.width, second.width), max(first.elements, second.elements)
        wanted = [first.node is not None, second.node is not None]
        values = [(first.elements, first.width), (second.elements, second.width)]

        def backward(_: list) -> list:
            wide = [self.new(elements, width) if want else None for want in wanted]
            return [
                flow if flow is None or size == (elements, width) else self.new(*size)
                for flow, size in zip(wide, values, strict=True)
            ]

        node = self.node((first, second), backward)
        if node:
            if wanted[1]:
                self.save(node, first.storage)
            if wanted[0]:
                self.save(node, second.storage)
        return Value(self.new(elements, width), elements, width, node)

    def layer_norm(self, value: Value, weight: Parameter, bias: Parameter, rows: int) -> Value:
        """Normalise rows: the input and two numbers a row are kept."""
        entries = (value, weight, bias)
        sizes = [(e.elements, e.width) if e.node else None for e in entries]
        node = self.node(entries, lambda _: [self.new(*size) if size else None for size in sizes])
        if node:
            self.save(node, value.storage)
        made = self.new(value.elements, value.width)
        statistics = [self.new(rows, self.row_width or value.width) for _ in range(2)]
        if node:
            for statistic in statistics:
                self.save(node, statistic)
        return Value(made, value.elements, value.width, node)

    def square(self, value: Value) -> Value:
        """Square value by value: backward raises, scales and multiplies, and holds all three at once."""
        elements, width = value.elements, value.width

        def backward(_: list) -> list:
            raised, scaled = self.new(elements, width), self.new(elements, width)
            made = [self.new(elements, width)]
            del raised, scaled
            return made

        node = self.node((value,), backward)
        if node:
            self.save(node, value.storage)
        return Value(self.new(elements, width), elements, width, node)

    def mean(self, value: Value, rows: int) -> Value:
        """Average each row; the gradient is as large as what came in."""
        elements, width = value.elements, value.width
        node = self.node((value,), lambda _: (self.new(elements, width),))
        return Value(self.new(rows, width), rows, width, node)

    def inverse_root(self, value: Value) -> Value:
        """One over the root of a small number added to each: the output is kept."""
        elements, width = value.elements, value.width
        shifted = Value(self.new(elements, width), elements, width, value.node, value.slot)

        def backward(_: list) -> list:
            cubes, scaled = self.new(elements, width), self.new(elements, width)
            made = [self.new(elements, width)]
            del cubes, scaled
            return made

        node = self.node((shifted,), backward)
        made = self.new(elements, width)
        if node:
            self.save(node, made)
        return Value(made, elements, width, node)

    def split(self, value: Value, parts: Sequence[int]) -> list[Value]:
        """Look at a value in parts, which costs nothing; their gradients are joined in a new one."""
        elements, width = value.elements, value.width
        node = self.node((value,), lambda _: (self.new(elements, width),), slots=len(parts))
        return [Value(value.storage, part, width, node, slot) for slot, part in enumerate(parts)]

    def join(self, values: Sequence[Value]) -> Value:
        """Join values in a new one; their gradients are views of its own."""
        elements, width = sum(value.elements for value in values), values[0].width
        parts = len(values)
        node = self.node(values, lambda gradients: gradients * parts)
        return Value(self.new(elements, width), elements, width, node)

    def copy(self, value: Value, copies_gradient: bool = False) -> Value:
        """Lay a value out anew; with `copies_gradient` its gradient is laid out anew as well."""
        elements, width = value.elements, value.width
        back = (lambda _: (self.new(elements, width),)) if copies_gradient else (lambda gradients: gradients)
        return Value(self.new(elements, width), elements, width, self.node((value,), back))

    def repeat(self, value: Value, times: int) -> Value:
        """Copy each head so many times in a row; the gradients of the copies are summed."""
        elements, width = value.elements, value.width
        node = self.node((value,), lambda _: (self.new(elements, width),))
        return Value(self.new(elements * times, width), elements * times, width, node)

    def mask(self, value: Value, mask: Value) -> Value:
        """Overwrite what the mask covers: the mask is kept."""
        made = self.pointwise(value, saves_input=False)
        if made.node:
            self.save(made.node, mask.storage)
        return made

    def matmul(self, first: Value, second: Value, elements: int) -> Value:
        """Multiply two stacks of matrices; both are kept."""
        sizes = [(v.elements, v.width) if v.node else None for v in (first, second)]
        node = self.node((first, second), lambda _: [self.new(*size) if size else None for size in sizes])
        if node:
            self.save(node, first.storage)
            self.save(node, second.storage)
        return Value(self.new(elements, first.width), elements, first.width, node)

    def softmax(self, value: Value) -> Value:
        """Softmax or its logarithm: the output is kept."""
        elements, width = value.elements, value.width
        node = self.node((value,), lambda _: (self.new(elements, width),))
        made = self.new(elements, width)
        if node:
            self.save(node, made)
        return Value(made, elements, width, node)

    def fused_attention(self, query: Value, key: Value, value: Value, rows: int) -> Value:
        """SDPA: query, key, value, the output and one fp32 logarithm a row and head are kept."""
        sizes = [(v.elements, v.width) if v.node else None for v in (query, key, value)]
        node = self.node((query, key, value), lambda _: [self.new(*size) if size else None for size in sizes])
        if node:
            for entry in (query, key, value):
                self.save(node, entry.storage)
        made, logarithms = self.new(query.elements, query.width), self.new(rows, 4)
        if node:
            self.save(node, made)
            self.save(node, logarithms)
        return Value(made, query.elements, query.width, node)

    def embedding(self, ids: Storage, table: Parameter, elements: int) -> Value:
        """Look rows up in a table; the ids are kept, and the gradient is as large as the table."""
        size = (table.elements, table.width)
        node = self.node((table,), lambda _: (self.new(*size),))
        if node:
            self.save(node, ids)
        return Value(self.new(elements, table.width), elements, table.width, node)

    def cross_entropy(self, logits: Value) -> Value:
        """Mean negative logarithm of the target's share: the logarithms of all shares are kept."""
        shares = self.softmax(logits)
        elements, width = shares.elements, shares.width
        node = self.node((shares,), lambda _: (self.new(elements, width),))
        if node:
            self.save(node, shares.storage)
        # the loss and the sum of the targets' weights, both one number, live as long as the loss
        return Value(self.new(2, width), 1, width, node)


def _dependencies(root: Node) -> dict[Node, int]:
    waiting = {root: 0}
    todo = [root]
    while todo:
        for edge in todo.pop().edges:
            if edge is None:
                continue
            if edge[0] in waiting:
                waiting[edge[0]] += 1
            else:
                waiting[edge[0]] = 1
                todo.append(edge[0])
    return waiting
