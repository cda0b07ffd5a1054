"""What does an optimizer keep for each parameter tensor, and what does it need while it steps?"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

SMALL_TENSOR_ELEMENTS = 4096
"""bitsandbytes and torchao keep tensors with fewer elements than this in fp32."""
STEP_COUNTER_BYTES = 4
"""torch's Adam and Adafactor keep one 0-d fp32 tensor `step` for each parameter tensor."""


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """One optimizer: how its two possible buffers are laid out for a parameter tensor.

    Layouts: `none`; `full`, as many values as the parameter; `double`, twice that (amsgrad's maximum);
    `factored`, a row and a column for a matrix, full for a vector; `matrices-none`, nothing for hidden
    matrices, full for the rest; `blocks`, quantised values of `bits` with one fp32 constant a block."""

    name: str
    label: str
    first: str
    second: str
    why: str
    step_counter: bool = False
    bits: int = 0
    block: int = 0

    def moments_per_parameter(self, moment_bytes: float = 4) -> tuple[float, float]:
        """Bytes of the first and the second moment of one parameter of a large hidden matrix."""
        return tuple(self._per_parameter(layout, moment_bytes) for layout in (self.first, self.second))

    def bytes_per_parameter(self, moment_bytes: float = 4) -> float:
        """Bytes of state for one parameter of a large hidden matrix: 8 for AdamW."""
        return sum(self.moments_per_parameter(moment_bytes))

    def _per_parameter(self, layout: str, moment_bytes: float) -> float:
        if layout == "blocks":
            return self.bits / 8 + 4 / self.block
        return {"full": moment_bytes, "double": 2 * moment_bytes}.get(layout, 0)

    def state_bytes(
        self, shape: tuple[int, ...], moment_bytes: int = 4, hidden_matrix: bool = True
    ) -> dict[str, int]:
        """Bytes kept for one parameter tensor of `shape`, by moment.

        `hidden_matrix` is False for embeddings and output heads, which Muon leaves to AdamW. The step counter
        is counted with the first moment (with the second where there is no first)."""
        second = self._buffer_bytes(self.second, shape, moment_bytes, hidden_matrix)
        first = self._buffer_bytes(self.first, shape, moment_bytes, hidden_matrix)
        counter = STEP_COUNTER_BYTES if self._counts_steps(shape, hidden_matrix) else 0
        if self.first == "none":
            return {"first_moment": first, "second_moment": second + counter}
        return {"first_moment": first + counter, "second_moment": second}

    def _counts_steps(self, shape: tuple[int, ...], hidden_matrix: bool) -> bool:
        if self.second == "matrices-none":
            return not (hidden_matrix and len(shape) == 2)
        return self.step_counter

    def _buffer_bytes(
        self, layout: str, shape: tuple[int, ...], moment_bytes: int, hidden_matrix: bool
    ) -> int:
        elements = prod(shape)
        if layout == "none" or (layout == "matrices-none" and hidden_matrix and len(shape) == 2):
            return 0
        if layout == "factored" and len(shape) >= 2:
            rest = prod(shape[:-2])
            return moment_bytes * rest * (shape[-2] + shape[-1])
        if layout == "blocks":
            return self._block_bytes(elements)
        return elements * moment_bytes * (2 if layout == "double" else 1)

    def _block_bytes(self, elements: int) -> int:
        if elements < SMALL_TENSOR_ELEMENTS:
            return 4 * elements
        return -(-elements * self.bits // 8) + 4 * -(-elements // self.block)

    def unshaped_bytes(self, parameters: int, moment_bytes: int = 4) -> dict[str, int]:
        """Bytes kept for `parameters` whose shapes are not known: one large matrix, without step counters."""
        layouts = {"first_moment": self.first, "second_moment": self.second}
        sizes = {}
        for key, layout in layouts.items():
            if layout in ("none", "factored", "matrices-none"):
                sizes[key] = 0
            elif layout == "blocks":
                sizes[key] = -(-parameters * self.bits // 8) + 4 * -(-parameters // self.block)
            else:
                sizes[key] = parameters * moment_bytes * (2 if layout == "double" else 1)
        return sizes


_ALL = (
    Optimizer(name="sgd", label="SGD", first="none", second="none", why="It keeps nothing between steps."),
    Optimizer(
        name="momentum", label="SGD with momentum", first="full", second="none",
        why="One running mean of the gradients.",
    ),
    Optimizer(
        name="adam", label="Adam", first="full", second="full", step_counter=True,
        why="A running mean of the gradients and one of their squares.",
    ),
    Optimizer(
        name="adamw", label="AdamW", first="full", second="full", step_counter=True,
        why="A running mean of the gradients and one of their squares.",
    ),
    Optimizer(
        name="amsgrad", label="AdamW with amsgrad", first="full", second="double", step_counter=True,
        why="Adam's two moments and the largest second moment seen so far.",
    ),
    Optimizer(
        name="adafactor", label="Adafactor", first="none", second="factored", step_counter=True,
        why="The second moment of a matrix is kept as one row and one column.",
    ),
    Optimizer(
        name="adafactor-momentum", label="Adafactor with first moment", first="full", second="factored",
        step_counter=True, why="A factored second moment, and a full first moment.",
    ),
    Optimizer(
        name="adamw-8bit", label="8-bit AdamW", first="blocks", second="blocks", bits=8, block=256,
        why="Both moments in one byte, and one fp32 constant for 256 of them; small tensors stay fp32.",
    ),
    Optimizer(
        name="adamw-4bit", label="4-bit AdamW", first="blocks", second="blocks", bits=4, block=128,
        step_counter=True,
        why="Both moments in half a byte, and one fp32 constant for 128 of them; small tensors stay fp32.",
    ),
    Optimizer(
        name="lion", label="Lion", first="full", second="none", why="One running mean of the gradients.",
    ),
    Optimizer(
        name="muon", label="Muon", first="full", second="matrices-none",
        why="One buffer for a hidden matrix; embeddings, head and vectors are left to AdamW.",
    ),
)  # fmt: skip

OPTIMIZERS: dict[str, Optimizer] = {optimizer.name: optimizer for optimizer in _ALL}


def optimizer_named(optimizer: str | Optimizer) -> Optimizer:
    """The optimizer with that name; ValueError names the ones there are."""
    if isinstance(optimizer, Optimizer):
        return optimizer
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {optimizer!r}: choose from {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[optimizer]
