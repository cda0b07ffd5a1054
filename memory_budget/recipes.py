"""What does one parameter keep, in each regime that people mean by "training in 16 bit"?

The answers differ between 8 and 20 bytes because each tool keeps other tensors."""

from __future__ import annotations

from dataclasses import dataclass

from memory_budget.optimizers import optimizer_named


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One regime: the bytes of each tensor that a trainable and a frozen parameter keep.

    `gradient_copy_bytes` is the part of `gradient_bytes` that is a second, fp32 copy of the gradients.
    `moment_bytes` is the width of one value of the optimizer's state (as many values as the optimizer keeps).
    `cast_bytes` are 16-bit copies made for the matrix products of a step; `cast_with_gradients` says whether
    they are alive at the same time as all gradients. `gradients_at_start` says whether the gradients are one
    buffer that is there from the beginning, as Megatron-LM keeps them."""

    name: str
    label: str
    weight_bytes: int
    gradient_bytes: int
    master_bytes: int
    moment_bytes: int
    frozen_bytes: int
    why: str
    who: str
    peak: str
    gradient_copy_bytes: int = 0
    cast_bytes: int = 0
    cast_with_gradients: bool = False
    gradients_at_start: bool = False

    def terms(self, optimizer: str = "adamw") -> dict[str, float]:
        """Bytes of one trainable parameter by tensor class (only the classes that are kept)."""
        moments = optimizer_named(optimizer).moments_per_parameter(self.moment_bytes)
        kept = {
            "weights": self.weight_bytes,
            "master_copy": self.master_bytes,
            "gradients": self.gradient_bytes,
            "first_moment": moments[0],
            "second_moment": moments[1],
            "temporaries": self.cast_bytes if self.cast_with_gradients else 0,
        }
        return {key: value for key, value in kept.items() if value}

    def bytes_per_parameter(self, optimizer: str = "adamw") -> float:
        """Bytes of one trainable parameter: 16 for AdamW in most regimes."""
        return sum(self.terms(optimizer).values())


_ALL = (
    Recipe(
        name="fp32", label="fp32", weight_bytes=4, gradient_bytes=4, master_bytes=0, moment_bytes=4,
        frozen_bytes=4,
        why="Everything is 4 bytes wide: weight, gradient and two moments.",
        who="plain PyTorch",
        peak="inside the step: AdamW's foreach version needs 4 more bytes for its square roots (20)",
    ),
    Recipe(
        name="mixed", label="mixed, 16-bit gradients", weight_bytes=2, gradient_bytes=2, master_bytes=4,
        moment_bytes=4, frozen_bytes=2,
        why="Weight and gradient are halved, an fp32 master copy is added, the moments stay fp32.",
        who="ZeRO (arXiv 1910.02054, section 3.1), the Ultra-Scale Playbook, LOMO's table",
        peak="all 16 are alive from the end of backward to the step",
    ),
    Recipe(
        name="autocast", label="PyTorch autocast", weight_bytes=4, gradient_bytes=4, master_bytes=0,
        moment_bytes=4, frozen_bytes=4, cast_bytes=2,
        why="The fp32 weights are the master copy; 16-bit casts live only while a pass needs them.",
        who="torch.autocast with one micro-batch a step and set_to_none=True",
        peak="before the step: the casts are freed as the gradients come (16.1 measured)",
    ),
    Recipe(
        name="autocast-accumulate", label="autocast, gradients kept", weight_bytes=4, gradient_bytes=4,
        master_bytes=0, moment_bytes=4, frozen_bytes=4, cast_bytes=2,
        cast_with_gradients=True,
        why="The fp32 gradients of one micro-batch are alive while the next one's 16-bit casts are.",
        who="torch.autocast with gradient accumulation or zero_grad(set_to_none=False)",
        peak="at the end of a later forward: 16 + 2 bytes of casts (18.3 measured)",
    ),
    Recipe(
        name="bf16-fp32-gradients", label="bf16, fp32 main gradients", weight_bytes=2, gradient_bytes=4,
        master_bytes=4, moment_bytes=4, frozen_bytes=2, gradients_at_start=True,
        why="Gradients are accumulated in one fp32 buffer, because sums of many bf16 values lose digits.",
        who="Megatron-LM with bf16, EleutherAI's cookbook",
        peak="always: the gradient buffer is there from the beginning",
    ),
    Recipe(
        name="fp16-both-gradients", label="fp16, both gradients", weight_bytes=2, gradient_bytes=6,
        master_bytes=4, moment_bytes=4, frozen_bytes=2, gradient_copy_bytes=4,
        why="The 16-bit gradients of backward and their fp32 copies for the step are alive together.",
        who="Megatron-LM with fp16, DeepSpeed ZeRO-2 on one GPU, nanotron with fp32 accumulation",
        peak="before and inside the step, when the fp32 copies exist",
    ),
    Recipe(
        name="no-master", label="16-bit, fp32 moments, no master", weight_bytes=2, gradient_bytes=2,
        master_bytes=0, moment_bytes=4, frozen_bytes=2,
        why="The master copy is dropped: small updates of a 16-bit weight get lost.",
        who="QLoRA's count of a full fine-tune (arXiv 2305.14314: more than 780 GB for 65B)",
        peak="all 12 are alive from the end of backward to the step",
    ),
    Recipe(
        name="pure-bf16", label="pure bf16", weight_bytes=2, gradient_bytes=2, master_bytes=0, moment_bytes=2,
        frozen_bytes=2,
        why="Everything is 2 bytes wide, the moments too, since they are made like the weight.",
        who="model.to(bfloat16) with torch's AdamW, torchtune, GaLore's baseline",
        peak="inside the step: AdamW's foreach version needs 2 more bytes (10)",
    ),
)  # fmt: skip

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}


def recipe_named(recipe: str | Recipe) -> Recipe:
    """The recipe with that name; ValueError names the ones there are."""
    if isinstance(recipe, Recipe):
        return recipe
    if recipe not in RECIPES:
        raise ValueError(f"unknown recipe {recipe!r}: choose from {', '.join(RECIPES)}")
    return RECIPES[recipe]
