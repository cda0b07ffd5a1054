"""How many parameters does LoRA train on chosen matrices, and how many bytes does a quantised base take?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from memory_budget.architectures import TotalOnly, Transformer, architecture
from memory_budget.tensors import TensorShape

DEFAULT_TARGETS = ("q_proj", "v_proj")

_ALIASES = {
    "q_proj": ("q_proj", "query", "q"),
    "k_proj": ("k_proj", "key", "k"),
    "v_proj": ("v_proj", "value", "v"),
    "o_proj": ("o_proj", "attention.output.dense", "o", "attn.c_proj"),
    "gate_proj": ("gate_proj", "wi_0"),
    "up_proj": ("up_proj", "intermediate.dense", "wi", "wi_1", "c_fc"),
    "down_proj": ("down_proj", "output.dense", "wo", "mlp.c_proj"),
}
_GROUPS = {
    "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
    "all-linear": (),
}


@dataclass(frozen=True, kw_only=True)
class Base:
    """A precision of frozen weights: `bits` for each weight of a hidden matrix, constants included.

    Only the matrices inside the layers are quantised; embeddings, head, norms and biases stay in 16 bit."""

    name: str
    label: str
    bits: float
    quantised: bool
    why: str


BASES: dict[str, Base] = {
    base.name: base
    for base in (
        Base(name="fp32", label="fp32", bits=32, quantised=False, why="4 bytes each"),
        Base(name="bf16", label="bf16", bits=16, quantised=False, why="2 bytes each"),
        Base(
            name="int8", label="int8", bits=8, quantised=True,
            why="1 byte each and one fp32 scale a row (arXiv 2208.07339)",
        ),
        Base(
            name="nf4", label="NF4", bits=4 + 32 / 64, quantised=True,
            why="4 bits each and one fp32 constant for 64 of them (arXiv 2305.14314, section 3)",
        ),
        Base(
            name="nf4-dq", label="NF4, double quantisation", bits=4 + 8 / 64 + 32 / (64 * 256),
            quantised=True,
            why="4 bits each, 8-bit constants for 64 of them, fp32 ones for 256 of those (same source)",
        ),
    )
}  # fmt: skip


def base_named(base: str | Base) -> Base:
    """The base precision with that name; ValueError names the ones there are."""
    if isinstance(base, Base):
        return base
    if base not in BASES:
        raise ValueError(f"unknown base precision {base!r}: choose from {', '.join(BASES)}")
    return BASES[base]


def matrix_bytes(elements: int, base: str | Base, rows: int | None = None) -> int:
    """Bytes of one frozen matrix of `elements` in this precision, with its constants.

    `rows` is d_out, for int8's scale a row; without it int8 is counted without scales."""
    name = base_named(base).name
    if name == "int8":
        return elements + 4 * (rows or 0)
    if name.startswith("nf4"):
        blocks = -(-elements // 64)
        constants = 4 * blocks if name == "nf4" else blocks + 4 * -(-blocks // 256)
        return -(-elements // 2) + constants
    return elements * (4 if name == "fp32" else 2)


def frozen_tensor_bytes(tensor: TensorShape, base: str | Base, other_bytes: int = 2) -> int:
    """Bytes of one frozen tensor: quantised if it is a hidden matrix, `other_bytes` a value otherwise."""
    chosen = base_named(base)
    if not chosen.quantised:
        return matrix_bytes(tensor.elements, chosen)
    if tensor.is_hidden_matrix:
        return matrix_bytes(tensor.elements, chosen, rows=tensor.shape[0])
    return tensor.elements * other_bytes


def base_bytes(model: str | Transformer | TotalOnly, base: str | Base, other_bytes: int = 2) -> int:
    """Bytes of a whole frozen model in this precision; without shapes, all of it counts as matrices."""
    model = architecture(model)
    if isinstance(model, TotalOnly):
        return matrix_bytes(model.parameters, base)
    return sum(
        block.repeat * sum(frozen_tensor_bytes(tensor, base, other_bytes) for tensor in block.tensors)
        for block in model.blocks()
    )


def hidden_matrix_parameters(model: str | Transformer) -> int:
    """How many parameters sit in the matrices of the layers: those that a quantised base shrinks."""
    return sum(
        block.repeat * tensor.elements
        for block in _shaped(model).blocks()
        for tensor in block.tensors
        if tensor.is_hidden_matrix
    )


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """One linear layer that an adapter can sit on; `block` is the index of its block in `blocks()`."""

    module: str
    d_in: int
    d_out: int
    block: int
    repeat: int


def _shaped(model: str | Transformer | TotalOnly) -> Transformer:
    model = architecture(model)
    if isinstance(model, TotalOnly):
        raise ValueError(f"{model.name} is known by its total only: an adapter needs a model with shapes")
    return model


def matrices(model: str | Transformer) -> tuple[Matrix, ...]:
    """Every linear layer but the output head, once a block, with its input and output width.

    GPT-2's fused c_attn is also listed as its three parts q_proj, k_proj and v_proj."""
    model = _shaped(model)
    found = []
    for index, block in enumerate(model.blocks()):
        for tensor in block.tensors:
            if tensor.is_linear and tensor.part != "head":
                module = tensor.name.removesuffix(".weight")
                d_out, d_in = tensor.shape if model.family != "gpt2" else tensor.shape[::-1]
                where = dict(block=index, repeat=block.repeat)
                found.append(Matrix(module=module, d_in=d_in, d_out=d_out, **where))
                if module.endswith("c_attn"):
                    prefix = module.removesuffix("c_attn")
                    found += [
                        Matrix(module=prefix + name, d_in=d_in, d_out=d_out // 3, **where)
                        for name in ("q_proj", "k_proj", "v_proj")
                    ]
    return tuple(found)


def _wanted_names(targets: Iterable[str]) -> list[str]:
    names = []
    for target in targets:
        for name in _GROUPS.get(target, (target,)):
            names += _ALIASES.get(name, (name,))
    return names


def _is_split(matrix: Matrix) -> bool:
    return ".attn." in matrix.module and matrix.module.endswith(("q_proj", "k_proj", "v_proj"))


def target_matrices(
    model: str | Transformer, targets: Iterable[str] | str = DEFAULT_TARGETS
) -> tuple[Matrix, ...]:
    """The matrices that the targets name, as PEFT matches them: the end of the module's name.

    `q_proj`, `k_proj`, `v_proj`, `o_proj`, `gate_proj`, `up_proj` and `down_proj` are understood for every
    family; `attention`, `mlp` and `all-linear` name groups. ValueError when a target matches nothing."""
    targets = (targets,) if isinstance(targets, str) else tuple(targets)
    return _target_matrices(_shaped(model), targets)


@lru_cache(maxsize=256)
def _target_matrices(model: Transformer, targets: tuple[str, ...]) -> tuple[Matrix, ...]:
    every = matrices(model)
    if "all-linear" in targets:
        return tuple(matrix for matrix in every if not _is_split(matrix))
    chosen: dict[str, Matrix] = {}
    for target in targets:
        endings = tuple("." + name for name in _wanted_names([target]))
        hits = [matrix for matrix in every if ("." + matrix.module).endswith(endings)]
        if target in ("down_proj", "mlp"):
            hits = [matrix for matrix in hits if not _is_other("down_proj", matrix.module)]
        if not hits:
            allowed = sorted({matrix.module.rpartition(".")[2] for matrix in every})
            raise ValueError(f"no matrix is called {target!r}: choose from {', '.join([*allowed, *_GROUPS])}")
        chosen |= {matrix.module: matrix for matrix in hits}
    return tuple(matrix for matrix in every if matrix.module in chosen)


def usual_names(model: str | Transformer, targets: Iterable[str] | str) -> tuple[str, ...]:
    """Which of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj the targets stand for.

    GPT-2's c_attn stands for the first three."""
    modules = ["." + matrix.module for matrix in target_matrices(model, targets)]
    fused = ("q_proj", "k_proj", "v_proj") if any(module.endswith(".c_attn") for module in modules) else ()
    endings = {name: tuple("." + alias for alias in aliases) for name, aliases in _ALIASES.items()}
    return tuple(
        name
        for name, ends in endings.items()
        if name in fused or any(module.endswith(ends) and not _is_other(name, module) for module in modules)
    )


def _is_other(name: str, module: str) -> bool:
    """BERT's attention output ends like its MLP's output."""
    return name == "down_proj" and module.endswith("attention.output.dense")


def check_rank(rank: int, chosen: Iterable[Matrix]) -> None:
    """Raise ValueError unless the rank is at least 1 and no larger than each matrix."""
    for matrix in chosen:
        largest = min(matrix.d_in, matrix.d_out)
        if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= largest:
            name = matrix.module.rpartition(".")[2]
            raise ValueError(
                f"rank {rank!r} does not fit {name} of {matrix.d_out} x {matrix.d_in}: choose 1 to {largest}"
            )


def lora_tensors(matrix: Matrix, rank: int) -> tuple[TensorShape, TensorShape]:
    """LoRA's two matrices beside one linear layer: A of (rank, d_in) and B of (d_out, rank)."""
    return (
        TensorShape(name=f"{matrix.module}.lora_A", part="attention", shape=(rank, matrix.d_in)),
        TensorShape(name=f"{matrix.module}.lora_B", part="attention", shape=(matrix.d_out, rank)),
    )


def lora_parameters(
    model: str | Transformer, rank: int, targets: Iterable[str] | str = DEFAULT_TARGETS
) -> int:
    """How many parameters LoRA trains: rank x (d_in + d_out) a matrix (arXiv 2106.09685, section 4.1)."""
    chosen = target_matrices(model, targets)
    check_rank(rank, chosen)
    return sum(matrix.repeat * rank * (matrix.d_in + matrix.d_out) for matrix in chosen)
