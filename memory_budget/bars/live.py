"""How does a slider move a picture without redrawing the cell, and what is left when nobody runs it?"""

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets

from memory_budget.drawing import Picture, alive_html, static_html

LABEL = "130px"  # wide enough for every description we use: none is cut

# JupyterLab takes arrows and letters pressed in a drop-down for commands to the notebook, and ipywidgets gives a
# slider's handle no name. The page runs this once, when the image that leads nowhere fails: it asks JupyterLab
# to leave keys in our controls alone, and names each handle and the stop it is on. Where it cannot run, nothing
# is lost but that.
_ON_SHOW = """
const box = this.closest('.memory-budget-bars');
for (const control of box.querySelectorAll('select, .noUi-handle')) control.dataset.lmSuppressShortcuts = 'true';
for (const slider of box.querySelectorAll('.widget-slider')) {
  const handle = slider.querySelector('.noUi-handle');
  const say = () => {
    const read = slider.querySelector('.widget-readout');
    if (read && handle.getAttribute('aria-valuetext') !== read.textContent)
      handle.setAttribute('aria-valuetext', read.textContent);
  };
  handle.setAttribute('aria-label', slider.querySelector('.widget-label').textContent);
  new MutationObserver(say).observe(slider, {subtree: true, childList: true, attributes: true, characterData: true});
  say();
}
"""
_KEYS = f'<img alt="" src="data:," style="display:none" onerror="{_ON_SHOW}">'


class LiveBars(widgets.VBox):
    """Controls above one picture: moving a control puts a new drawing in the same place.

    `draw(**values)` is called with the value of every control by its name and returns a Picture. The picture
    and its sentence travel in one message. Displayed, the cell also keeps the picture of the moment for
    viewers without widgets, and its sentence as plain text.
    """

    def __init__(self, draw: Callable[..., Picture], controls: Mapping[str, widgets.Widget]) -> None:
        self.draw, self.controls = draw, dict(controls)
        self.canvas = widgets.HTML(layout=widgets.Layout(width="100%", margin="4px 0"))
        on_show = widgets.HTML(_KEYS, layout=widgets.Layout(display="none"))
        super().__init__([*self.controls.values(), self.canvas, on_show], layout=widgets.Layout(width="100%"))
        self.add_class("memory-budget-bars")
        for control in self.controls.values():
            control.observe(self.refresh, names="value")
        self.refresh()

    @property
    def values(self) -> dict[str, Any]:
        """What every control stands on, by name."""
        return {name: control.value for name, control in self.controls.items()}

    @property
    def words(self) -> str:
        """The sentence under the picture, as it stands now."""
        return self.picture.words

    def refresh(self, change: object = None) -> None:
        """Draw the picture of the controls' present values."""
        self.picture = self.draw(**self.values)
        self.canvas.value = alive_html(self.picture)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(**kwargs) or {}
        return {**bundle, "text/html": static_html(self.picture), "text/plain": self.picture.words}


def _layout() -> widgets.Layout:
    return widgets.Layout(width="calc(100% - 8px)", max_width="620px")


def slider(
    description: str, options: list[tuple[str, Any]], value: Any, *, readout: bool = True
) -> widgets.SelectionSlider:
    """A slider with named stops, starting on `value`; `readout` only where the names are short."""
    return widgets.SelectionSlider(
        description=description,
        options=options,
        readout=readout,
        value=value,
        layout=_layout(),
        style={"description_width": LABEL},
    )


def dropdown(description: str, options: list[tuple[str, Any]], value: Any) -> widgets.Dropdown:
    """A list to choose one from; `value` is the one it starts on."""
    return widgets.Dropdown(
        description=description,
        options=options,
        value=value,
        layout=_layout(),
        style={"description_width": LABEL},
    )
