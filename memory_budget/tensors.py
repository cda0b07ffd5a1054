"""What is known of one parameter tensor, and of the block of tensors that makes a layer?"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorShape:
    """One parameter tensor; `part` is embedding, attention, mlp, norm, pooler or head.

    A linear layer's weight has the shape (d_out, d_in), except in GPT-2, which stores (d_in, d_out)."""

    name: str
    shape: tuple[int, ...]
    part: str

    @property
    def elements(self) -> int:
        """How many numbers the tensor holds."""
        return prod(self.shape)

    @property
    def is_linear(self) -> bool:
        """Whether it is the matrix of a linear layer (embedding tables are not)."""
        return len(self.shape) == 2 and self.part in ("attention", "mlp", "head", "pooler")

    @property
    def is_hidden_matrix(self) -> bool:
        """Whether it is a matrix inside the layers: what LoRA, Muon and 4-bit bases act on."""
        return len(self.shape) == 2 and self.part in ("attention", "mlp")


@dataclass(frozen=True, kw_only=True)
class Block:
    """Tensors that come `repeat` times, once a layer; `{}` in a name stands for the layer's number."""

    repeat: int
    tensors: tuple[TensorShape, ...]

    @property
    def elements(self) -> int:
        """How many parameters one repetition has."""
        return sum(tensor.elements for tensor in self.tensors)
