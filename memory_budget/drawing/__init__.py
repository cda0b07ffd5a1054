"""How do numbers become a picture that is right in both themes and can be read aloud?

Everything here is text in, text out: no widgets, no plotting library. Ink is always `currentColor`, so the
same drawing sits on a light or a dark page; colours come from the palette, and no piece is told by colour
alone: it has a label, a place in the legend, hatching or a marker of its own.
"""

from memory_budget.drawing.picture import Picture, alive_html, message, static_html
from memory_budget.drawing.stacked import Line, Row, axis_top, stacked_bars

__all__ = ["Line", "Picture", "Row", "alive_html", "axis_top", "message", "stacked_bars", "static_html"]
