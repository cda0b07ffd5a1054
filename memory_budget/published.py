"""What do other people's rules and estimators say, and what do they leave out?

The model in `budget` does not use these. They are here so that a figure from a paper or a tool can be
reproduced as it was reckoned, and its difference from a real step explained."""

from __future__ import annotations

from dataclasses import dataclass


def zero_paper_activation_bytes(
    batch: int, sequence: int, hidden: int, layers: int, bytes_each: int = 2
) -> int:
    """ZeRO's rule of thumb, 12 values a token, layer and hidden unit (arXiv 1910.02054, footnote 3).

    It counts about a third of what a layer keeps in 16 bit: compare `layer_activation_bytes`."""
    return 12 * batch * sequence * hidden * layers * bytes_each


def attention_coefficient(heads: int, sequence: int, hidden: int) -> float:
    """The attention scores' share in bytes of 16-bit activations a token and hidden unit: 5 a s / h."""
    return 5 * heads * sequence / hidden


def layer_activation_bytes(
    batch: int,
    sequence: int,
    hidden: int,
    heads: int,
    *,
    scores: bool = True,
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
) -> float:
    """16-bit activations of one layer: s b h (34 + 5 a s / h) (arXiv 2205.05198, equations 1 to 4).

    Dropout, GELU and a feed-forward width of 4 h are assumed. Without `scores` the second term is dropped:
    selective recomputation, or a fused attention. Tensor parallelism divides 24 of the 34 and the scores;
    with sequence parallelism all is divided."""
    extra = attention_coefficient(heads, sequence, hidden) if scores else 0.0
    whole = 0 if sequence_parallel else 10
    return batch * sequence * hidden * (whole + (34 - whole + extra) / tensor_parallel)


def selective_saving(heads: int, sequence: int, hidden: int) -> float:
    """The share of a layer's activations that selective recomputation saves (arXiv 2205.05198, section 5)."""
    extra = attention_coefficient(heads, sequence, hidden)
    return extra / (34 + extra)


def hidden_state_bytes(batch: int, sequence: int, hidden: int, bytes_each: int = 2) -> int:
    """One tensor of hidden states: what full checkpointing keeps of each layer."""
    return batch * sequence * hidden * bytes_each


def logits_bytes(batch: int, sequence: int, vocabulary: int, bytes_each: int = 4) -> int:
    """One tensor of logits, fp32 unless told; a step often holds two or three of them."""
    return batch * sequence * vocabulary * bytes_each


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What DeepSpeed's estimators print, in bytes for each GPU and each node's RAM: model states only."""

    gpu_bytes: int
    host_bytes: int


def deepspeed_zero2(
    parameters: float, gpus: int = 1, nodes: int = 1, *, offload: bool = False, before_2024: bool = False
) -> Estimate:
    """`estimate_zero2_model_states_mem_needs`, with its 1.5 for RAM buffers.

    Current code has 2 P + 18 P / N; its documentation still shows the older 4 P + 16 P / N, `before_2024`."""
    total = gpus * nodes
    whole, shared = (4, 16) if before_2024 else (2, 18)
    gpu = 2 * parameters if offload else whole * parameters + shared * parameters / total
    each = max(4 * total, 16) if offload else 4 * gpus
    return Estimate(gpu_bytes=int(gpu), host_bytes=int(parameters * each * 1.5))


def deepspeed_zero3(
    parameters: float,
    largest_layer: float,
    gpus: int = 1,
    nodes: int = 1,
    *,
    offload_optimizer: bool = False,
    offload_parameters: bool = False,
    zero_init: bool = True,
) -> Estimate:
    """`estimate_zero3_model_states_mem_needs`: 18 P / N and 4 bytes for the largest layer, gathered whole.

    `offload_parameters` moves the weights too. Activations, buffers and fragmentation are left out, which is
    why a real run can hold 20 times as much (DeepSpeed issues 4527 and 4093)."""
    total, gathered, factor = gpus * nodes, 4 * largest_layer, 1.5
    offload_optimizer = offload_optimizer or offload_parameters
    if not offload_optimizer:
        gpu = gathered + 18 * parameters / total
        host = (gathered if zero_init else 4 * parameters) * gpus
        return Estimate(gpu_bytes=int(gpu), host_bytes=int(host * factor))
    moved = 18 if offload_parameters else 16
    gpu = gathered + (0 if offload_parameters else 2 * parameters / total)
    each = moved / nodes if zero_init else max(4 * gpus, moved / nodes)
    return Estimate(gpu_bytes=int(gpu), host_bytes=int(parameters * each * factor))


@dataclass(frozen=True, kw_only=True)
class AccelerateEstimate:
    """The four columns of `accelerate estimate-memory` for training with Adam, in bytes."""

    model: int
    gradients: int
    optimizer: int
    step: int

    @property
    def printed(self) -> int:
        """What the tool prints: the largest of the four, although they are alive together."""
        return max(self.model, self.gradients, self.optimizer, self.step)

    @property
    def alive_together(self) -> int:
        """What is alive at once: model, gradients and optimizer, added up."""
        return self.model + self.gradients + self.optimizer


def accelerate_training(parameters: float, half: bool = False) -> AccelerateEstimate:
    """`estimate_training_usage` of accelerate: fp32, or `half` for 16-bit mixed precision.

    In fp32 the step column is the sum (4 P x 4), and the maximum is right. In 16 bit the step column is the
    optimizer alone, so that the maximum (8 P) stands where a sum (18 P) belongs."""
    fp32 = int(4 * parameters)
    gradients = fp32 + fp32 // 2 if half else fp32
    return AccelerateEstimate(
        model=fp32, gradients=gradients, optimizer=2 * fp32, step=2 * fp32 if half else 4 * fp32
    )
