"""A card: the same words in HTML and in text, safe and readable everywhere."""

import re
from html.parser import HTMLParser

import pytest

from autograder import card, verdict
from autograder.kinds import Number, Text
from autograder.verdict import Verdict

QUESTION = Number(name="size_gb", points=2, prompt="A size", right=1)
BY_HAND = Text(name="why", points=1, prompt="Why", ideas=(), mark_scheme="")
SAMPLES = [
    verdict.right("That is it."),
    verdict.not_yet("What about `x`?", slip="x"),
    verdict.by_rows(0.6, "3 of 5 rows are right.", ("a: right.", "b: which?")),
    verdict.unanswered(),
    Verdict(status="by hand", message="A person gives the points."),
]


class Texts(HTMLParser):
    def __init__(self):
        super().__init__()
        self.words, self.tags, self.roles = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.roles += [value for name, value in attrs if name == "role"]

    def handle_data(self, data):
        self.words.append(data)


def parsed(markup):
    reader = Texts()
    reader.feed(markup)
    reader.close()
    return reader


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda v: v.status)
def test_html_and_text_say_the_same(sample):
    in_html = " ".join(" ".join(parsed(card.card_html(QUESTION, sample)).words).split())
    for line in [sample.word, sample.message.replace("`", " "), *sample.details, QUESTION.name]:
        assert " ".join(line.split()) in in_html
    in_text = card.card_text(QUESTION, sample)
    for line in [sample.word, sample.message, *sample.details, QUESTION.name]:
        assert line in in_text


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda v: v.status)
def test_a_card_is_announced_and_never_colour_alone(sample):
    markup = card.card_html(QUESTION, sample)
    assert parsed(markup).roles == ["status"]
    assert card.EDGES[sample.status] in markup
    assert sample.word in parsed(markup).words


def test_each_status_has_its_own_edge_and_word():
    assert len(set(card.EDGES.values())) == len(verdict.STATUSES) == len(set(verdict.WORDS.values()))


def test_text_colours_come_from_the_theme():
    markup = card.card_html(QUESTION, SAMPLES[0])
    own = re.findall(r"(?<!-)\bcolor:([^;\"]+)", markup)
    assert own
    assert all(colour.startswith("var(--jp-") or colour == "inherit" for colour in own)
    assert "background:transparent" in markup


@pytest.mark.parametrize(
    ("sample", "points"),
    [
        (SAMPLES[0], "2 of 2 points"),
        (SAMPLES[1], "0 of 2 points"),
        (SAMPLES[2], "1.2 of 2 points"),
    ],
)
def test_the_points_are_said(sample, points):
    assert points in card.card_text(QUESTION, sample)


def test_points_by_hand_are_left_open():
    assert "worth 1 point" in card.card_text(BY_HAND, SAMPLES[4])


@pytest.mark.parametrize(
    "evil", ["<script>alert(1)</script>", "`<img src=x onerror=y>`", "<b>&", "'\"><svg/onload=x>"]
)
def test_what_a_learner_wrote_is_never_markup(evil):
    sample = Verdict(status="not yet", message=f"Your code stopped with {evil}", details=(evil,))
    assert set(parsed(card.card_html(QUESTION, sample)).tags) <= {"div", "strong", "code", "ul", "li"}
    assert set(parsed(card.line_html("No such question", evil)).tags) <= {"div", "strong", "code"}


def test_a_verdict_checks_its_status_and_fraction():
    with pytest.raises(ValueError, match="must be one of"):
        Verdict(status="fine", message="")
    with pytest.raises(ValueError, match="from 0 to 1"):
        Verdict(status="right", message="", fraction=1.5)
