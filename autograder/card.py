"""A verdict as a card: the same words in JupyterLab, in the feedback and in a terminal."""

from __future__ import annotations

import html
import re

from autograder import verdict as v
from autograder.kinds import Question
from autograder.verdict import Verdict

#: the edge of the card; never the only sign, the word beside it says the same (Okabe-Ito, readable on light
#: and dark)
EDGES = {
    v.RIGHT: "#009E73",
    v.PARTLY: "#56B4E9",
    v.NOT_YET: "#D55E00",
    v.UNANSWERED: "#8C8C8C",
    v.BY_HAND: "#CC79A7",
}
#: what a card quotes is no formula, and turns no letters round
NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_CARD = (
    "display:flex;gap:1em;align-items:flex-start;max-width:46em;margin:.3em 0;padding:.5em .9em;"
    "border:1px solid var(--jp-border-color2,#bbb);border-left:6px solid {edge};border-radius:3px;"
    "color:var(--jp-ui-font-color1,inherit);background:transparent;"
    "font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:14px;line-height:1.45"
)


def number_text(value: float) -> str:
    """Return points without idle decimals: 1, 1.5, 0.67."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def points_text(question: Question, verdict: Verdict) -> str:
    """Return the points as they stand: "1 of 2 points", "worth 2 points"."""
    unit = "point" if question.points == 1 else "points"
    if question.manual:
        return f"worth {question.points} {unit}"
    return f"{number_text(question.points * verdict.fraction)} of {question.points} {unit}"


def card_text(question: Question, verdict: Verdict) -> str:
    """Return the card as plain text."""
    head = f"{verdict.word} · {question.name} ({points_text(question, verdict)})"
    return "\n".join([head, verdict.message, *(f"  - {line}" for line in verdict.details)])


def card_html(question: Question, verdict: Verdict) -> str:
    """Return the card as HTML that needs no style sheet and holds no script; every text is escaped."""
    items = "".join(f"<li>{_inline(line)}</li>" for line in verdict.details)
    details = f'<ul style="margin:.3em 0 0;padding-left:1.2em">{items}</ul>' if items else ""
    return (
        f'<div class="memory-budget-card {NO_FORMULAS}" role="status" style="{_CARD.format(edge=EDGES[verdict.status])}">'
        f'<div style="flex:1;min-width:0;overflow-wrap:anywhere"><strong>{verdict.word}</strong> '
        f'<code style="background:transparent;color:inherit">{html.escape(question.name)}</code>'
        f"<div>{_inline(verdict.message)}</div>{details}</div>"
        f'<div style="white-space:nowrap">{points_text(question, verdict)}</div></div>'
    )


def line_html(word: str, message: str) -> str:
    """Return a card for what is no question's verdict, such as a name that no question has."""
    return (
        f'<div class="memory-budget-card {NO_FORMULAS}" role="status" style="{_CARD.format(edge=EDGES[v.UNANSWERED])}">'
        f"<div><strong>{html.escape(word)}</strong><div>{_inline(message)}</div></div></div>"
    )


def _inline(text: str) -> str:
    """Escape a text and show what stands in backticks as code."""
    code = r'<code style="background:transparent;color:inherit">\1</code>'
    return re.sub(r"`([^`]*)`", code, html.escape(_TURNS.sub("", text)))
