"""What happens in one training step, and what is held in memory at each moment of it? Walk through it."""

from typing import Any

import ipywidgets as widgets

from memory_budget.bars.live import LiveBars, dropdown
from memory_budget.drawing import Picture, static_html
from memory_budget.optimizers import OPTIMIZERS
from memory_budget.stepper import scene, walk
from memory_budget.stepper.walk import Model

__all__ = ["Stepper", "training_step"]


def training_step(optimizer: str = "adam") -> "Stepper":
    """One step of a small model, stage by stage: by slider, by the buttons, or by the arrow keys."""
    return Stepper(Model(), optimizer)


class Stepper(LiveBars):
    """The stages of a step behind a slider, with a switch from training to inference."""

    def __init__(self, model: Model, optimizer: str) -> None:
        self.model = model
        self.mode = widgets.ToggleButtons(
            description="What runs", options=["training", "inference"], style={"description_width": "130px"}
        )
        names = [(OPTIMIZERS[name].label, name) for name in walk.OPTIMIZERS]
        self.optimizer = dropdown("Optimizer", names, optimizer)
        self.stage = widgets.IntSlider(
            description="Stage", min=1, max=8, value=1, style={"description_width": "130px"},
            layout=widgets.Layout(width="calc(100% - 8px)", max_width="620px"),
        )  # fmt: skip
        self.mode.observe(self._limit, names="value")
        super().__init__(self._draw, {"mode": self.mode, "optimizer": self.optimizer, "stage": self.stage})
        self.children = (self.mode, self.optimizer, self.stage, self._buttons(), self.canvas)

    def stages(self, mode: str, optimizer: str) -> tuple[walk.Stage, ...]:
        """The stages of what runs."""
        return walk.training(self.model, optimizer) if mode == "training" else walk.inference(self.model)

    def _axis(self) -> int:
        """The longest bar of training with Adam: one axis for both switches, so that bars can be compared."""
        return max(stage.held_bytes for stage in walk.training(self.model, "adam"))

    def _draw(self, mode: str, optimizer: str, stage: int) -> Picture:
        stages = self.stages(mode, optimizer)
        return scene.stage_picture(stages, min(stage, len(stages)) - 1, self._axis(), self._only(mode))

    def _only(self, mode: str) -> tuple[str, ...]:
        return scene.FORWARD_ACTORS if mode == "inference" else ()

    def _limit(self, change: Any) -> None:
        self.stage.max = len(self.stages(self.mode.value, self.optimizer.value))
        self.optimizer.disabled = self.mode.value == "inference"

    def _buttons(self) -> widgets.HBox:
        back = widgets.Button(description="Back", icon="arrow-left", tooltip="one stage back")
        onward = widgets.Button(description="Next", icon="arrow-right", tooltip="one stage on")
        back.on_click(lambda _: self.move(-1))
        onward.on_click(lambda _: self.move(1))
        return widgets.HBox([back, onward], layout=widgets.Layout(margin="0 0 0 134px"))

    def move(self, by: int) -> None:
        """Go `by` stages on, and stop at either end."""
        self.stage.value = min(max(self.stage.value + by, self.stage.min), self.stage.max)

    def overview(self) -> Picture:
        """All stages side by side, for a page that cannot be moved."""
        stages = self.stages(self.mode.value, self.optimizer.value)
        most = max(stages, key=lambda stage: stage.held_bytes)
        title = f"One step of {self.mode.value} in {len(stages)} stages; most is held at '{most.name}'"
        return scene.small_multiples(stages, self._axis(), title, self._only(self.mode.value))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        return {**super()._repr_mimebundle_(**kwargs), "text/html": static_html(self.overview())}
