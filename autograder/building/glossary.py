"""What the course's words mean: the glossary's source, its made form, and whether the lessons agree with it.

The rule. `source/glossary.md` holds `# Glossary`, an introduction, and one `## term` per entry, with an
optional line `Also: other spelling, another` and one or two sentences. A lesson sets a term in bold where it
first needs it, as a link: `[**first moment**](../glossary.md#first-moment)`. What follows `#` is the term in
lower case with one hyphen for everything that is neither a letter nor a digit. JupyterLab opens that link as
rendered text at the entry, and GitHub does too. Bold in a lesson's prose is for terms alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from autograder import cells as made
from autograder.building.fault import Fault
from autograder.course import Course

LINK = re.compile(r"\[\*\*(?P<words>[^*\]]+)\*\*\]\(\.\./glossary\.md#(?P<slug>[^)\s]*)\)")
ANY_LINK = re.compile(r"\[(?P<words>[^\]]*)\]\([^)\s]*glossary[^)\s]*\)")
BOLD = re.compile(r"(?<![\w*])(?:\*\*|__)(?=\S)(?P<words>[^*\n]+?)(?<=\S)(?:\*\*|__)(?![\w*])")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One term, the other ways to write it, and what it means."""

    term: str
    also: tuple[str, ...]
    text: str

    @property
    def slug(self) -> str:
        """What a link to this entry ends in."""
        return slug(self.term)


def slug(term: str) -> str:
    """The end of a link to `term`: lower case, one hyphen for what is neither letter nor digit."""
    return re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


def parse(text: str) -> tuple[str, list[Entry]]:
    """The introduction and the entries of a glossary; ValueError says which entry is malformed."""
    head, *blocks = re.split(r"^## +", text, flags=re.M)
    entries = [_entry(block) for block in blocks]
    slugs = [entry.slug for entry in entries]
    twice = sorted({slug for slug in slugs if slugs.count(slug) > 1})
    if twice:
        raise ValueError(f"has more than one entry for {', '.join(twice)}")
    return re.sub(r"^# .*\n", "", head).strip(), entries


def _entry(block: str) -> Entry:
    term, _, rest = block.partition("\n")
    also = re.match(r"\s*Also: (.+)\n?", rest)
    text = rest[also.end() :].strip() if also else rest.strip()
    if not term.strip() or not text:
        raise ValueError(f"entry {term.strip()!r} says nothing")
    spellings = tuple(word.strip() for word in also[1].split(",")) if also else ()
    return Entry(term=term.strip(), also=spellings, text=text)


def read(here: Course) -> tuple[str, list[Entry]]:
    """The course's glossary: introduction and entries, none when it has no glossary."""
    path = here.source / "glossary.md"
    return parse(path.read_text(encoding="utf-8")) if path.is_file() else ("", [])


def uses(here: Course, lesson: str) -> list[tuple[str, str, str]]:
    """(cell id, words in bold, slug) of every link from a lesson to the glossary, in reading order."""
    notebook = made.read(here.source_notebook(lesson))
    prose = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    return [
        (cell.id, found["words"], found["slug"]) for cell in prose for found in LINK.finditer(cell.source)
    ]


def loose_bold(source: str) -> Iterator[str]:
    """Words in bold in a cell's prose that are no link to the glossary; tables, code and summaries aside."""
    prose = re.sub(r"```.*?```|`[^`\n]*`|<summary>.*?</summary>|^\s*\|.*$", "", source, flags=re.S | re.M)
    for found in BOLD.finditer(LINK.sub("", prose)):
        yield found["words"]


def faults(here: Course, lessons: list[str]) -> list[Fault]:
    """Bold words without an entry, links that lead nowhere, malformed entries."""
    try:
        _, entries = read(here)
    except ValueError as error:
        return [Fault(where="source/glossary.md", says=str(error))]
    found = []
    for lesson in lessons:
        try:
            found += _lesson_faults(here, lesson, entries)
        except ValueError:  # said already by the lint: there is not exactly one notebook
            continue
    return found


def _lesson_faults(here: Course, lesson: str, entries: list[Entry]) -> list[Fault]:
    path = here.source_notebook(lesson)
    where, known = f"source/{lesson}/{path.name}", {entry.slug: entry for entry in entries}
    found, linked = [], set()
    for cell in made.read(path).cells:
        if cell.cell_type != "markdown":
            continue
        for says in _cell_faults(cell.source, known, linked):
            found.append(Fault(where=where, cell=cell.id, says=says))
    return found


def _cell_faults(source: str, known: dict[str, Entry], linked: set[str]) -> Iterator[str]:
    for link in ANY_LINK.finditer(source):
        if not LINK.fullmatch(link[0]) and not link[0].endswith("](../glossary.md)"):
            yield f"link {link[0]} is not of the form [**term**](../glossary.md#term)"
    for link in LINK.finditer(source):
        linked.add(link["slug"])
        if link["slug"] not in known:
            yield f"{link['words']!r} links to #{link['slug']}, which source/glossary.md does not have"
        elif not _spells(link["words"], known[link["slug"]]):
            yield f"{link['words']!r} is not a spelling of the glossary's {known[link['slug']].term!r}"
    for words in loose_bold(source):
        yield f"**{words}** is in bold but is no link to the glossary (bold is for terms)"


def _spells(words: str, entry: Entry) -> bool:
    return words.casefold() in {spelling.casefold() for spelling in (entry.term, *entry.also)}


def unused(here: Course) -> list[str]:
    """Terms of the glossary that no lesson links to."""
    linked = {slug for lesson in here.lesson_ids() for _, _, slug in uses(here, lesson)}
    return [entry.term for entry in read(here)[1] if entry.slug not in linked]


def render(here: Course) -> str:
    """The glossary as learners open it: sorted, each entry with its lessons; "" when empty."""
    introduction, entries = read(here)
    if not entries:
        return ""
    where = {entry.slug: _lessons_that_use(here, entry.slug) for entry in entries}
    ordered = sorted(entries, key=lambda entry: entry.slug)
    parts = ["# Glossary", introduction, *(_rendered(entry, where[entry.slug]) for entry in ordered)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _rendered(entry: Entry, where: list[str]) -> str:
    # a heading's own anchor keeps its capitals in JupyterLab and loses them on GitHub: ours serves both
    anchor = "" if entry.slug == entry.term.replace(" ", "-") else f'<a id="{entry.slug}"></a>'
    also = f" Also: {', '.join(entry.also)}." if entry.also else ""
    return f"## {anchor}{entry.term}\n\n{entry.text}{also}" + (f"\n\n*{', '.join(where)}*" if where else "")


def _lessons_that_use(here: Course, slug: str) -> list[str]:
    links = []
    for lesson in here.lesson_ids():
        if any(used == slug for _, _, used in uses(here, lesson)):
            number = lesson.split("-")[-1].lstrip("0") or lesson
            links.append(f"[Lesson {number}]({lesson}/{here.source_notebook(lesson).name})")
    return links
