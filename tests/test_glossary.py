"""The glossary: terms in bold have entries, entries are used, and links open where they should."""

import pytest
import tiny_course
from conftest import ROOT, lesson_names
from tiny_course import cell

from autograder.building import glossary
from autograder.course import course

HERE = course(ROOT)


@pytest.fixture
def here(tmp_path):
    return tiny_course.tiny_course(tmp_path / "a course")


def faults_after(here, cell_id, source) -> list[str]:
    notebook = tiny_course.read(here)
    cell(notebook, cell_id).source = source
    tiny_course.write(here, notebook)
    return [fault.says for fault in glossary.faults(here, ["lesson-03"])]


# the course's own glossary


@pytest.mark.parametrize("lesson", lesson_names())
def test_every_term_in_bold_has_an_entry(lesson):
    assert [str(fault) for fault in glossary.faults(HERE, [lesson])] == []


def test_every_entry_is_used_by_a_lesson():
    assert glossary.unused(HERE) == []


@pytest.mark.parametrize("lesson", lesson_names())
def test_a_lesson_links_a_term_once_where_it_is_first_needed(lesson):
    slugs = [slug for _, _, slug in glossary.uses(HERE, lesson)]
    assert sorted(slugs) == sorted(set(slugs))


@pytest.mark.parametrize("kind", ["lessons", "solutions"])
def test_the_made_glossary_is_current(kind):
    assert (ROOT / kind / "glossary.md").read_text(encoding="utf-8") == glossary.render(HERE), (
        "run make build"
    )


def test_every_entry_says_it_in_one_or_two_sentences():
    _, entries = glossary.read(HERE)
    long = [entry.term for entry in entries if len(entry.text.replace("e.g.", "").split(". ")) > 3]
    assert long == []


# what is noticed


def test_the_tiny_course_is_right(here):
    assert glossary.faults(here, ["lesson-03"]) == []
    assert glossary.unused(here) == []


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("A **moment** is kept.", "**moment** is in bold but is no link"),
        ("A __moment__ is kept.", "**moment** is in bold but is no link"),
        (
            "A [**moment**](../glossary.md#moment).",
            "'moment' links to #moment, which source/glossary.md does",
        ),
        ("A [**gradients**](../glossary.md#gradients).", "'gradients' links to #gradients, which"),
        ("A [**slope**](../glossary.md#gradient).", "'slope' is not a spelling of the glossary's 'gradient'"),
        ("A [gradient](../glossary.md#gradient).", "is not of the form"),
        ("A [**gradient**](../glossary.ipynb#gradient).", "is not of the form"),
        ("A [**gradient**](glossary.md#gradient).", "is not of the form"),
    ],
)
def test_a_term_that_leads_nowhere_is_named(here, source, says):
    assert any(says in fault for fault in faults_after(here, "look", source))


@pytest.mark.parametrize(
    "source",
    [
        "Many [**gradients**](../glossary.md#gradient).",
        "[**Gradient**](../glossary.md#gradient) first.",
        "An *italic* word, `a ** b ** c`, and 2 ** 3 ** 2.",
        "| **row** | 16 |\n| --- | --- |",
        "<details><summary>**Hint**</summary>\n\nThink.\n\n</details>",
        "See the [glossary](../glossary.md).",
        "```\n**not prose**\n```",
    ],
)
def test_what_is_right_passes(here, source):
    assert faults_after(here, "look", source) == []


def test_an_entry_that_no_lesson_uses_is_named(here):
    path = here.source / "glossary.md"
    path.write_text(path.read_text() + "\n## rank\nA width.\n")
    assert glossary.unused(here) == ["rank"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# Glossary\n\n## gradient\n\n## rank\nA width.\n", "entry 'gradient' says nothing"),
        ("# Glossary\n\n## rank\nA width.\n\n## Rank\nA width.\n", "more than one entry for rank"),
    ],
)
def test_a_malformed_glossary_is_a_fault(here, text, says):
    (here.source / "glossary.md").write_text(text)
    (fault,) = glossary.faults(here, ["lesson-03"])
    assert str(fault).startswith("source/glossary.md: ")
    assert says in fault.says


# the made form


@pytest.mark.parametrize(
    ("term", "slug"),
    [
        ("first moment", "first-moment"),
        ("8-bit optimizer", "8-bit-optimizer"),
        ("AdamW", "adamw"),
        ("GiB", "gib"),
    ],
)
def test_a_slug_is_lower_case_with_hyphens(term, slug):
    assert glossary.slug(term) == slug


def test_entries_are_sorted_anchored_and_tell_their_lessons(here):
    assert glossary.render(here) == (
        "# Glossary\n\nWhat the words mean.\n\n"
        '## <a id="adamw"></a>AdamW\n\nAn optimizer with two moments.\n\n'
        "*[Lesson 3](lesson-03/tiny.ipynb)*\n\n"
        "## gradient\n\nHow fast the loss rises with a parameter. Also: gradients.\n\n"
        "*[Lesson 3](lesson-03/tiny.ipynb)*\n"
    )


def test_a_course_without_a_glossary_has_none_made(here):
    (here.source / "glossary.md").unlink()
    assert glossary.render(here) == ""


@pytest.mark.browser
@pytest.mark.parametrize("lesson", lesson_names()[:1])
def test_a_term_opens_rendered_at_its_entry_in_jupyterlab(lab, browser, lesson):
    """A name with capitals too, whose heading's own anchor would not be found."""
    address, _ = lab
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    page.set_default_timeout(60_000)
    name = HERE.source_notebook(lesson).name
    capitals = {entry.slug for entry in glossary.read(HERE)[1] if entry.term != entry.term.lower()}
    used = [(words, slug) for _, words, slug in glossary.uses(HERE, lesson)]
    for text, slug in (used[0], next(pair for pair in used if pair[1] in capitals)):
        page.goto(f"{address}/lab/workspaces/{slug}/tree/{lesson}/{name}?reset")
        page.wait_for_selector(
            ".jp-NotebookPanel-toolbar .jp-Notebook-ExecutionIndicator[data-status='idle']"
        )
        page.locator(f".jp-Notebook a[href$='#{slug}']", has_text=text).first.click()
        entry = page.locator(f".jp-MarkdownViewer [data-jupyter-id='{slug}']").first
        entry.wait_for(state="attached")
        page.wait_for_function(
            "slug => { const at = document.querySelector(`.jp-MarkdownViewer [data-jupyter-id='${slug}']`)"
            ".getBoundingClientRect().top; return at >= 0 && at < 800 }",
            arg=slug,
        )
    page.close()
