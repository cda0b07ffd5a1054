"""Nonsense in notebooks and in the worker's replies: the grader never dies and never gives a point for it."""

from __future__ import annotations

import base64
import json
import time

import grading_course as tiny
import nbformat
import pytest
from conftest import lesson_names
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autograder import wire
from autograder.grading import apart, grader, sandbox, sanitise, slicing, submissions
from autograder.grading.grader import Job

QUIET = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)
sources = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [*tiny.SOLUTIONS.values(), "check('tiny_choice')", "def f(:", "x = (", "%magic", "!ls", "\ud800"]
    ),
    anything,
)
cells = st.fixed_dictionaries(
    {},
    optional={
        "cell_type": st.sampled_from(["code", "markdown", "raw", "", 7]) | anything,
        "source": sources,
        "id": st.sampled_from(["setup", "tiny-choice", "demo"]) | anything,
        "metadata": anything
        | st.fixed_dictionaries({"nbgrader": anything})
        | st.fixed_dictionaries(
            {
                "nbgrader": st.fixed_dictionaries(
                    {"grade_id": st.sampled_from(["tiny_choice", "tiny_why"]) | anything}
                )
            }
        ),
        "outputs": anything,
    },
)
notebooks = st.fixed_dictionaries(
    {"cells": st.lists(cells | anything, max_size=8)},
    optional={
        "metadata": anything | st.just({"memory_budget": {"lesson": tiny.LESSON}}),
        "nbformat": anything,
        "worksheets": anything,
    },
)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return tiny.make_course(tmp_path_factory.mktemp("fuzz") / "course")


@pytest.fixture(scope="module")
def lesson(course):
    text = (course.lessons / tiny.LESSON / tiny.NOTEBOOK).read_text(encoding="utf-8")
    return submissions.read_lesson(text, tiny.LESSON, "tiny-lesson")


@QUIET
@given(made=notebooks)
def test_any_notebook_is_arranged_with_each_graded_cell_once_or_refused_in_a_line(lesson, made):
    try:
        read = submissions.read(json.dumps(made).encode("utf-8", "surrogatepass"))
    except submissions.Unreadable as reason:
        assert "\n" not in str(reason)  # noqa: PT017  not every notebook is refused
        return
    arranged = submissions.arrange(read, lesson)
    marked = [p.cell.marks["grade_id"] for p in arranged.cells if p.cell.marks]
    assert sorted(marked) == sorted(c.marks["grade_id"] for c in lesson.cells if c.marks)
    steps = [slicing.Step(source=p.cell.source, given=p.untouched) for p in arranged.cells if p.runs]
    plan = slicing.plan(steps)
    assert len(plan.sources) == len(steps)
    assert all(
        source == step.source for source, step in zip(plan.sources, steps, strict=True) if not step.given
    )


@QUIET
@given(body=st.binary(max_size=300))
@example(body=b"\xff\xfe\x00")
@example(body=b'{"cells": [{"cell_type": "code", "source": "\\ud800"}]}')
def test_any_bytes_are_read_or_refused_in_a_line(body):
    try:
        submissions.read(body)
    except submissions.Unreadable as reason:
        assert "\n" not in str(reason)  # noqa: PT017  not every notebook is refused


@pytest.mark.parametrize(
    "source",
    [
        "\n" * 199_000 + "!",
        'check("a")' + " " * 199_000 + "x",
        "check(" + " " * 199_000,
        "\n\t " * 60_000 + "!",
        "def " * 49_000 + "!",
        "a=1\n" * 49_000,
        "-" * 190_000 + "1",
        "[" * 190_000,
    ],
    ids=lambda source: repr(source[:12]),
)
def test_no_source_keeps_the_reader_busy(lesson, source):
    made = {"cells": [{"cell_type": "code", "source": source}] * 9, "metadata": {}}
    body = json.dumps(made).encode()
    began = time.process_time()
    read = submissions.read(body)
    submissions.belongs(read, lesson)
    submissions.answered_count(read, lesson)
    submissions.arrange(read, lesson)
    assert time.process_time() - began < 5


def test_one_file_that_nobody_foresaw_stops_nobody_else(course, lesson, monkeypatch):
    from autograder.grading import inbox

    for student in ("ada", "bo"):
        tiny.hand_in(course, student, tiny.perfect(course))
    real = submissions.read

    def read(body: bytes) -> submissions.Read:
        if b"unforeseen" in body:
            raise KeyError("a\nb")
        return real(body)

    monkeypatch.setattr(submissions, "read", read)
    tiny.hand_in(course, "ada", "unforeseen")
    # in this process, where `read` is the one above
    monkeypatch.setattr(apart, "call", lambda work, *given, **more: work(*given))
    ada, bo = inbox.collect(course.root / "autograder" / "submitted", lesson)
    assert (ada.path, ada.why_not) == (None, r"the file cannot be read (KeyError: 'a\nb')")
    assert bo.body()


class Worker:
    """A worker that says what it likes."""

    def __init__(self, replies: list):
        self.replies = replies

    def ask(self, request, timeout_s):
        reply = self.replies.pop(0) if self.replies else {}
        if isinstance(reply, str):
            raise sandbox.Stopped(reply, "made up")
        return reply

    def said(self):
        return ""

    def close(self):
        pass


wrong = st.one_of(
    st.dictionaries(st.text(max_size=6), anything, max_size=4),
    st.fixed_dictionaries({"ok": anything}),
    st.fixed_dictionaries({"ok": st.fixed_dictionaries({"t": st.text(max_size=6), "v": anything})}),
    st.fixed_dictionaries(
        {"outputs": st.lists(anything, max_size=3), "error": anything, "touched": anything}
    ),
    st.sampled_from(["time", "died", "protocol", "output", "memory"]),
)


@QUIET
@given(replies=st.lists(wrong, max_size=60))
def test_any_replies_are_judged_and_earn_nothing(course, lesson, replies):
    text = (course.lessons / tiny.LESSON / tiny.NOTEBOOK).read_text(encoding="utf-8")
    job = Job(
        student="somebody",
        lesson=tiny.LESSON,
        lesson_name="tiny-lesson",
        lesson_text=text,
        notebook=text.encode(),
        seed=1,
        questions=str(course.questions / "lesson_90.py"),
        shut_in=False,
    )
    grading = grader.Grading(job, lesson, submissions.arrange(submissions.read(job.notebook), lesson))
    left = list(replies)
    grading._restart = lambda: setattr(grading, "worker", Worker(left))
    grading.run()
    result = grading.result()
    json.dumps(result)
    right = {"tiny_weights_gb": (14,), "tiny_total_gb": (48,), "tiny_choice": ("b", "B")}
    for name, judged in result["verdicts"].items():
        given_right = any(
            isinstance(reply, list)
            and reply[1].get("ok", {})
            and reply[1]["ok"].get("v") in right.get(name, ())
            for reply in result["asked"][name]
            if isinstance(reply[1].get("ok"), dict)
        )
        assert judged["score"] in (0, None) or given_right


@QUIET
@given(
    made=anything
    | st.lists(st.fixed_dictionaries({"output_type": st.just("display_data"), "data": anything}))
)
def test_any_outputs_are_cleaned(made):
    json.dumps(sanitise.outputs(made))


@QUIET
@given(
    text=st.lists(
        st.sampled_from(
            [
                "<script>",
                "</script>",
                "<svg",
                " onload=alert(1)",
                ">",
                "<img src=x ",
                "onerror=alert(1)",
                "<style>",
                "</style>",
                "<a href='javascript:alert(1)'>",
                "<!--",
                "-->",
                "<![CDATA[",
                "]]>",
                "<math><mi//xlink:href='data:x'>",
                "'",
                '"',
                "<foreignObject>",
                "<iframe src=//x>",
                "<div style='position:fixed;top:0'>",
                "&lt;script&gt;",
                "<noscript>",
                "<p title='",
            ]
        ),
        max_size=14,
    ).map("".join)
)
@example(text="<noscript><p title='</noscript><img src=x onerror=alert(1)>'>")
@example(text="<svg></p><style><a id='</style><img src=1 onerror=alert(1)>'>")
@example(
    text="<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>"
)
def test_no_html_keeps_a_script_or_a_handler(text):
    from html.parser import HTMLParser

    class Look(HTMLParser):
        def handle_starttag(self, tag, attributes):
            assert tag not in (
                "script",
                "style",
                "iframe",
                "foreignobject",
                "object",
                "embed",
                "base",
                "meta",
                "form",
            )
            for name, value in attributes:
                assert not name.startswith("on")
                assert "javascript:" not in (value or "")
                assert name != "style" or "position" not in (value or "")

    for clean in (sanitise.html(text), sanitise.markdown(text)):
        Look().feed(clean)


TANGLES = [
    "<?", "<!DOCTYPE", "<div>", "<g/>", "<svg><g/>", "<div><table></div></table>", "<p style='/*'>",
    """<div a='"' b="></div>">""", "<!--", "<script ", "\\begin{a}", "\\\\[", "\\\\(", "$", "![a](attachment:b)",
]  # fmt: skip


@pytest.mark.parametrize("unit", TANGLES)
def test_no_html_and_no_prose_keeps_the_parser_busy(unit):
    began = time.process_time()
    sanitise.html(unit * (200_000 // len(unit)))
    sanitise.markdown(unit * (100_000 // len(unit)))
    sanitise.markdown(unit * (sanitise.MARKDOWN_CAP // len(unit)))
    sanitise.html(f"<p style='{'/*' * 50_000}'>x")
    assert time.process_time() - began < 12


def drawing(svg: str) -> str:
    return f'<img alt="x" src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}">'


@pytest.mark.parametrize("lesson", lesson_names())
def test_every_picture_of_the_lessons_stays_when_a_learner_draws_it(root, lesson):
    (path,) = (root / "solutions" / lesson).glob("*.ipynb")
    shown = [
        body
        for cell in nbformat.read(path, as_version=4).cells
        for output in cell.get("outputs", [])
        if "<img" in (body := output.get("data", {}).get("text/html", ""))
    ]
    assert shown
    for body in shown:
        assert sanitise.html(body).count(' src="data:image/') == body.count("<img")


def test_a_tag_of_many_attributes_is_text_at_once():
    began = time.process_time()
    shown = sanitise.html("<p " + " ".join(f"a{i}" for i in range(200_000)) + ">x</p>")
    assert shown.startswith("<pre")
    assert time.process_time() - began < 3
    assert sanitise.html("<p " + " ".join(f"a{i}=1" for i in range(100)) + ">x</p>").count("<p>") == 1


SVG = 'xmlns="http://www.w3.org/2000/svg"'


@pytest.mark.parametrize(
    "svg",
    [
        f"<svg {SVG}><script>alert(1)</script></svg>",
        f'<svg onload="alert(1)" {SVG}/>',
        f'<svg {SVG}><a href="javascript:alert(1)"><text>x</text></a></svg>',
        f"<svg {SVG}><foreignObject/></svg>",
        f'<!DOCTYPE a [<!ENTITY b "c">]><svg {SVG}><text>&b;</text></svg>',
        f'<svg {SVG}><image href="http://x/y.png"/></svg>',
        f'<svg {SVG}><style>@import "//x"</style></svg>',
        f'<svg {SVG} xmlns:xlink="http://www.w3.org/1999/xlink"><use xlink:href="http://a"/></svg>',
        f'<svg {SVG}><text style="fill: url(http://x)">a</text></svg>',
        f'<?xml-stylesheet href="//x"?><svg {SVG}><set attributeName="href" to="javascript:alert(1)"/></svg>',
        f'<?xml version="1.0"?><?xml-stylesheet type="text/css" href="http://x"?><svg {SVG}/>',
        f"<svg {SVG}><style>@im<desc/>port 'http://x'</style></svg>",
        f"<svg {SVG}><style>svg{{background-image:image-set('http://x' 1x)}}</style></svg>",
        f"""<svg {SVG}><rect mask="image-set('http://x' 1x)"/></svg>""",
        f'<!DOCTYPE svg SYSTEM "http://x"><svg {SVG}/>',
        "<html><script>alert(1)</script></html>",
        "no svg",
    ],
)
def test_a_drawing_that_is_more_than_shapes_is_not_shown(svg):
    assert "src=" not in sanitise.html(drawing(svg))
    assert "src=" in sanitise.html(drawing(f'<svg {SVG}><rect width="1" style="fill: red"/></svg>'))


def bomb(refers: str) -> str:
    """SVG of a few lines that draws 20 things of 20 things of ..."""
    levels = [f'<g id="a{i}">' + refers.format(i + 1) * 20 + "</g>" for i in range(7)]
    return f'<svg {SVG} viewBox="0 0 9 9"><defs>{"".join(levels)}<path id="a7" d="M0 0"/></defs><use href="#a0"/></svg>'


@pytest.mark.parametrize(
    "refers", ['<use href="#a{}"/>', '<rect fill="url(#a{})"/>', '<g style="clip-path: url(#a{})"/>']
)
def test_what_is_drawn_by_reference_refers_to_nothing_itself(refers):
    made = bomb(refers)
    for shown in (sanitise.html(made), sanitise.markdown(made)):
        assert "#shown-a" not in shown
    assert "src=" not in sanitise.html(drawing(made))


def test_a_large_table_and_a_large_figure_stay_what_they_are():
    table = "<table>" + "<tr><td class='x'>1</td><td>2</td></tr>" * 2_000 + "</table>"
    figure = '<svg viewBox="0 0 9 9"><defs><path id="m" d="M0 0"/></defs>' + '<use href="#m" x="1"/>' * 3_000
    figure += '<g style="clip-path: url(#m)"/></svg>'
    assert sanitise.html(table).count("<td>") == 4_000
    shown = sanitise.html(figure)
    assert shown.count('href="#shown-m"') == 3_000
    assert 'id="shown-m"' in shown
    assert "url(#shown-m)" in shown


@given(codes=st.text("0123458;", max_size=14) | st.sampled_from(["38", "48;5", "38;2;1;2", "38;5;300", ";"]))
@example(codes="38")
@example(codes="0;038")
def test_any_colours_can_be_shown(codes):
    from nbconvert.filters import ansi2html

    said = sanitise.text(f"a\x1b[{codes}mb")
    assert said.startswith("a")
    assert said.endswith("b")
    ansi2html(said)
    assert sanitise.text("\x1b[1;31mb\x1b[0m\x1b[38;5;9mc\x1b[m") == "\x1b[1;31mb\x1b[0m\x1b[38;5;9mc\x1b[m"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ("ValueError: (4, 17)", "ValueError"),
        ("NameError: name 'n17' is not defined", "NameError: a name in it"),
        ("ZeroDivisionError: division by zero", "ZeroDivisionError"),
        ("AttributeError: 'Parameter' object has no attribute 'n17'", "AttributeError"),
        ("KeyError: 17", "KeyError"),
        ("In17: a", "an error"),
        ("IsADirectoryError: one of many kinds", "an error"),
    ],
)
def test_an_error_on_a_hidden_input_does_not_quote_it(error, shown):
    made = {"error": error, "line": 17, "code": "if n == 17: raise"}
    assert sanitise.reply(made) == {"error": shown}


@pytest.mark.parametrize(
    "made",
    [
        {"ok": wire.encode("17")},
        {"ok": wire.encode([(1, "17")])},
        {"value": wire.encode(type("In17", (), {})())},
        {"ok": {"t": "refused", "v": "too long: 17"}},
        {"refused": "17"},
    ],
)
def test_no_result_on_a_hidden_input_quotes_it(made):
    assert "17" in json.dumps(made)
    assert "17" not in json.dumps(sanitise.reply(made))


def test_no_shown_text_turns_the_order_of_letters_round():
    for shown in (sanitise.html("a\u202eb&#8238;c&#x202E;d"), sanitise.markdown("a\u2066b&#x2067;cd")):
        assert "abcd" in shown


@pytest.mark.parametrize(
    "said", ["!" * 19_999 + "x", "no x" + ", x" * 6_000, "x. " * 6_000, "\n" * 19_999 + "x", "x " * 9_999]
)
def test_no_answer_keeps_the_reader_of_texts_busy(said):
    from autograder.kinds import text

    began = time.process_time()
    text.Idea(name="x", all_of=(text.Said("x"), text.denied("y"))).found_in(said)
    text.Idea(name="x", all_of=(text.either(text.denied("x"), text.Said("y")),)).found_in(said)
    assert time.process_time() - began < 3
