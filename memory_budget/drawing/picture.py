"""What does a viewer keep of a picture: a live page, a saved notebook, GitHub, a screen reader?"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

# An image cannot read the page's variables, only its colour scheme, and a page that hides the scheme from it
# (an untrusted notebook in a dark JupyterLab) would show dark ink on a dark page: so the image has paper of
# its own, in the colour that the page has wherever the scheme is known.
_ALONE = (
    "<style>svg{color:#212121}.halo{stroke:#fff}.paper{fill:#fff}@media(prefers-color-scheme:dark)"
    "{svg{color:#eee}.halo{stroke:#111}.paper{fill:#111}}</style>"
    '<rect class="paper" width="100%" height="100%"/>'
)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing, the one sentence that says it, and its numbers as a table.

    Shown in a notebook, it is an image with its alternative text, so that the text survives in JupyterLab, on
    GitHub and in an HTML export, with the numbers folded below it.
    """

    svg: str
    words: str
    table: Sequence[Sequence[str]] = field(default_factory=tuple)  # first row is the heading
    title: str = ""
    caption: str = ""  # what stands below it, where the sentence that says everything is long

    def _repr_html_(self) -> str:
        return static_html(self)

    def __repr__(self) -> str:
        return self.words


def alone(drawing: str) -> str:
    """The same drawing as a file of its own: it follows the page's colour scheme, not its variables."""
    opening, rest = drawing.split(">", 1)
    opening = opening.split(' style="', 1)[0] + ' width="640"'
    return f"{opening}>{_ALONE}{rest}".replace('stroke="var(--jp-layout-color0,#fff)" ', "")


def image(drawing: str, words: str) -> str:
    """The drawing as an image with alternative text: sanitizers that strip inline SVG keep images."""
    data = base64.b64encode(alone(drawing).encode()).decode()
    return (
        f'<img class="memory-budget-picture" alt="{escape(words, quote=True)}" '
        f'src="data:image/svg+xml;base64,{data}" style="width:100%;max-width:760px">'
    )


def table_html(rows: Sequence[Sequence[str]]) -> str:
    """A plain table; the first row is the heading, the first column names the row."""
    head, *body = rows
    top = "".join(f'<th scope="col">{escape(str(cell))}</th>' for cell in head)
    lines = "".join(
        '<tr><th scope="row">'
        + escape(str(row[0]))
        + "</th>"
        + "".join(f"<td>{escape(str(cell))}</td>" for cell in row[1:])
        + "</tr>"
        for row in body
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"


def alive_html(picture: Picture) -> str:
    """A picture inside a page that follows the theme; the sentence is read out politely when it changes."""
    return (
        f'<div>{picture.svg}<div role="status" aria-live="polite" style="min-height:4.5em;line-height:1.5;'
        f'max-width:760px">{escape(picture.words)}</div></div>'
    )


def static_html(picture: Picture) -> str:
    """A picture for any viewer: image, sentence, and the numbers folded away below."""
    style = "<style>[data-jp-theme-light='false'] .memory-budget-picture{color-scheme:dark}</style>"
    title = f"<p><strong>{escape(picture.title)}</strong></p>" if picture.title else ""
    shown = image(picture.svg, picture.words) if picture.svg else ""
    numbers = (
        f"<details><summary>The numbers</summary>{table_html(picture.table)}</details>"
        if picture.table
        else ""
    )
    return f"{style if shown else ''}{title}{shown}<p>{escape(picture.caption or picture.words)}</p>{numbers}"


def message(words: str) -> Picture:
    """One clear line in place of a picture that cannot be drawn."""
    return Picture(svg="", words=words)
