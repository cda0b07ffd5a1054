"""What is alive at each moment of a training step?

`after loading` comes before the first step. The others are of a later step, when the optimizer's state is
there from the start (of the first step where the set-up says so). Forward, backward and the step are told by
the most that each holds: forward's is reached at its end, with the logits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from memory_budget import adapters
from memory_budget.architectures import Transformer
from memory_budget.inventory import Kept
from memory_budget.palette import add, in_order
from memory_budget.setup import Setup
from memory_budget.stepping import ADAMS, in_backward_temporary_bytes, step_temporary_bytes

if TYPE_CHECKING:
    from memory_budget.activations import Pass

MOMENTS = ("after loading", "end of forward", "backward peak", "before step", "inside step", "after step")
Sizes = dict[str, int]


GPT2_NAMES = {
    "q_proj": "c_attn", "k_proj": "c_attn", "v_proj": "c_attn", "o_proj": "attn.c_proj",
    "gate_proj": "c_fc", "up_proj": "c_fc", "down_proj": "mlp.c_proj",
}  # fmt: skip


def _as_decoder(shape: Transformer, targets: tuple[str, ...]) -> tuple[Transformer, tuple[str, ...]]:
    """The decoder whose layers stand for this model's in the reckoning of activations, and its targets.

    BERT's and RoBERTa's layers are taken as GPT-2's, T5's as Llama's; an adapter on a part of GPT-2's fused
    matrix as one on the whole."""
    names = adapters.usual_names(shape, targets) if targets else ()
    if shape.norm == "rmsnorm":
        family = shape if shape.family != "t5" else replace(shape, family="llama")
        return family, tuple(name for name in names if family.gated or name != "gate_proj")
    family = shape if shape.family == "gpt2" else replace(shape, family="gpt2")
    return family, tuple(dict.fromkeys(GPT2_NAMES[name] for name in names))


def _pass(setup: Setup) -> Pass | None:
    """What forward and backward hold beside the states; None where activations are not counted."""
    if not setup.batch or setup.shape is None:
        return None
    from memory_budget.activations import Run, one_pass  # here, so that the package is imported quickly

    recipe, lora = setup.chosen_recipe, setup.lora_rank is not None
    shape, targets = _as_decoder(setup.shape, setup.targets if lora else ())
    run = Run(
        weight_bytes=4 if setup.chosen_base == "fp32" else 2,
        autocast=recipe.cast_bytes > 0,
        attention=setup.attention,
        checkpointing=setup.checkpointing,
        lora_rank=setup.lora_rank,
        lora_targets=targets,
        adapter_bytes=setup.trained_recipe.weight_bytes if lora else None,
        last_layers=setup.last_layers,
        gradients_exist=setup.keeps_gradients or setup.optimizer_in_backward,
        quantised=setup.chosen_base in ("int8", "nf4", "nf4-dq"),
        device=setup.device,
    )
    return one_pass(shape, run, setup.batch, setup.sequence)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One training step on one device: `states` are what it holds, sharded and without what is offloaded.

    `gradient_copy` is how many of the gradients' bytes are second copies, made for the step."""

    setup: Setup
    kept: Kept
    states: Sizes
    gradient_copy: int

    @cached_property
    def passing(self) -> Pass | None:
        """What forward and backward hold beside the states."""
        return _pass(self.setup)

    def _of(self, *keys: str) -> Sizes:
        return {key: self.states[key] for key in keys}

    @property
    def loaded(self) -> Sizes:
        """The weights, and a master copy that is made with them."""
        return self._of("weights", "frozen_weights", "master_copy")

    @property
    def resting(self) -> Sizes:
        """What stays from one step to the next: weights and the optimizer's state, and the batch."""
        state = {} if self.setup.first_step else self._of("first_moment", "second_moment")
        return self.loaded | state | self._batch()

    def _batch(self) -> Sizes:
        return {"activations": self.passing.batch_bytes if self.passing else 0}

    def _all_gradients(self) -> Sizes:
        """Every gradient, without the second copies that some regimes make for the step."""
        return {"gradients": self.states["gradients"] - self.gradient_copy}

    def _gathered(self) -> int:
        """Weights of one layer that ZeRO-3 brings together for its turn."""
        return self.kept.largest_layer_bytes if self.setup.zero == 3 else 0

    @property
    def activations(self) -> int:
        """Activations alive between forward and backward."""
        return self.passing.end_of_forward["activations"] if self.passing else 0

    def after_loading(self) -> Sizes:
        """Before anything has run."""
        at_start = self.setup.chosen_recipe.gradients_at_start
        return self.loaded | (self._of("gradients") if at_start else {})

    def end_of_forward(self) -> Sizes:
        """All activations, autocast's copies, and gradients of earlier micro-batches if there are any."""
        passed = {"temporaries": self.kept.casts}
        if self.passing:
            passed = {key: self.passing.forward_peak[key] for key in ("activations", "temporaries")}
        passed["temporaries"] += self._gathered()
        gradients = self._of("gradients") if self.setup.keeps_gradients else {}
        return self.resting | gradients | passed

    def backward_peak(self) -> Sizes:
        """The most in backward: activations on their way out, gradients on their way in."""
        gathered = {"temporaries": 2 * self._gathered()}
        update = add([self.resting, self._arriving(self._all_gradients()["gradients"]), self._in_backward()])
        if self.passing is None:
            return add([update, gathered])
        passed = dict(self.passing.backward_peak)
        arriving = self._arriving(passed.pop("gradients"))
        resting = {key: size for key, size in self.resting.items() if key != "activations"}
        moving = add([resting, passed, arriving, gathered])
        if not self.setup.optimizer_in_backward:
            return moving
        return max(moving, update, key=lambda sizes: sum(sizes.values()))

    def _arriving(self, counted: int) -> Sizes:
        """Gradients at backward's peak: those that have come, or all where they are kept."""
        if self.setup.optimizer_in_backward or self.setup.keeps_gradients:
            return self._of("gradients")
        return {"gradients": min(counted, self._all_gradients()["gradients"])}

    def _in_backward(self) -> Sizes:
        """What an update inside backward needs beside the gradient."""
        if not self.setup.optimizer_in_backward:
            return {}
        kept = self.setup.trained_recipe
        keeps = self.setup.chosen_optimizer.name in ADAMS
        widths = (kept.gradient_bytes, kept.moment_bytes if keeps else 0)
        return {"temporaries": in_backward_temporary_bytes(self.kept.largest_tensor, *widths)}

    def before_step(self) -> Sizes:
        """All gradients and no activation."""
        if self.setup.optimizer_in_backward:
            return self.resting
        kept = self._of("gradients") if self.setup.keeps_gradients else self._all_gradients()
        return self.resting | kept

    def inside_step(self) -> Sizes:
        """All states, and what the optimizer needs while it steps."""
        state = self._of("first_moment", "second_moment")
        if self.setup.optimizer_in_backward:
            return self.resting | state
        return self.resting | state | self._of("gradients") | {"temporaries": self._step_temporaries()}

    def _step_temporaries(self) -> int:
        if "optimizer" in self.setup.offloaded:
            return 0
        kept, shared = self.setup.trained_recipe, self.setup.gpus if self.setup.zero else 1
        whole = step_temporary_bytes(
            self.setup.chosen_optimizer,
            self.setup.chosen_implementation,
            self.kept.tensors,
            elements=self.kept.trainable,
            moment_bytes=kept.moment_bytes,
            weight_bytes=kept.weight_bytes,
            master_bytes=kept.master_bytes,
        )
        return -(-whole // shared)

    def after_step(self) -> Sizes:
        """What is left when the step is done, before the gradients are cleared."""
        state = self._of("first_moment", "second_moment")
        return self.before_step() | state

    def moments(self) -> dict[str, Sizes]:
        """Bytes by class at each of the six moments, every class present."""
        sizes = (
            self.after_loading(), self.end_of_forward(), self.backward_peak(), self.before_step(),
            self.inside_step(), self.after_step(),
        )  # fmt: skip
        return {name: in_order(each) for name, each in zip(MOMENTS, sizes, strict=True)}
