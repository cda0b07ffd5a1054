"""Which files a new lesson begins with: a notebook with every section, and a bank with one question."""

from __future__ import annotations

import argparse
import re
import sys

from nbformat.notebooknode import NotebookNode

from autograder import cells as made
from autograder.course import Course, course

NAME = re.compile(r"lesson-(\d\d)")

BANK = '''"""The questions of lesson {number}: {title}."""

from autograder.kinds import Number, Slip

QUESTIONS = [
    Number(
        name="example_{number_word}_gb",
        points=1,
        prompt="the weights of a 1B model in 2 bytes each",
        right=2.0,
        unit="GB",
        praise="Two bytes for each of 10^9 parameters. (An example: put your own question in its place.)",
        slips=(
            Slip(
                name="fp32",
                value=4.0,
                how="4 bytes for each parameter",
                message="That is 4 bytes for each parameter. How many bytes does a value in 16 bits have?",
            ),
        ),
    ),
]
'''

OPENING = """The question this lesson answers, and why it matters, in two or three sentences.

30 minutes · after lesson ... · no GPU needed · primary source ..."""

TASK = """The sum is parameters times bytes for each. How many GB do the weights
of a 1B model take in 16 bits?

<details><summary>Hint 1</summary>

How many bytes do 16 bits make?

</details>"""

SECTIONS = {
    "Warm-up": "Three short questions about earlier lessons, answered before anything is read.",
    "Know this": "Guess, compute, look, say what we saw. Say here what to look for in the next cell.",
    "What that means": "What follows from it: move this, watch that, and what it comes to.",
    "Practice": "Questions over all of it.",
    "Real-world reps": "- [ ] Measure it on your own device.",
    "Going further": "Papers with their arXiv numbers, and the next lesson.",
    "Not landing?": "Reread the source, look a word up in the [glossary](../glossary.md), or open an issue "
    "and say where you were stuck.",
}


def new_lesson(here: Course, lesson: str, title: str, slug: str | None = None) -> list[str]:
    """Lay a lesson's notebook and bank; returns their paths. ValueError when the name is bad or taken."""
    match = NAME.fullmatch(lesson)
    if not match:
        raise ValueError(f"a lesson is named lesson-NN, such as lesson-07, not {lesson!r}")
    if not title.strip() or "\n" in title:
        raise ValueError("a lesson needs a TITLE of one line")
    slug = slug or re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug):
        raise ValueError(
            f"the notebook's name is made of a-z, 0-9 and hyphens, not {slug!r}; give one with --slug"
        )
    notebook = here.source / lesson / f"{slug}.ipynb"
    bank = here.questions / f"lesson_{match[1]}.py"
    for taken in (here.source / lesson, bank):
        if taken.exists() and (taken.is_file() or any(taken.iterdir())):
            raise ValueError(f"{taken.relative_to(here.root)} is there already")
    bank.parent.mkdir(parents=True, exist_ok=True)
    text = BANK.format(
        number=int(match[1]), number_word=match[1], title=title.replace("\\", "").replace('"', "'")
    )
    bank.write_text(text, encoding="utf-8", newline="\n")
    made.save(template(lesson, title), notebook)
    return [str(path.relative_to(here.root)) for path in (notebook, bank)]


def template(lesson: str, title: str) -> NotebookNode:
    """A source notebook with every section of a lesson and one worked example of a question."""
    name = f"example_{lesson.split('-')[1]}_gb"
    prose = {heading: made.markdown(f"## {heading}\n\n{text}") for heading, text in SECTIONS.items()}
    cells = [
        made.markdown(f"# {title}\n\n{OPENING}", "title"),
        prose["Warm-up"],
        made.code("from autograder import check", "setup"),
        made.markdown(TASK, f"{name}-task"),
        [made.answer(name, f"{name} = 1e9 * 2 / 1e9", comment="GB"), made.check(name, points=1)],
        made.markdown("What we saw, with the number.", f"{name}-seen"),
        prose["Know this"],
        made.code("from memory_budget.units import bytes_text\n\nbytes_text(7 * 10**9)", "know-this-look"),
        *(prose[heading] for heading in list(SECTIONS)[2:]),
    ]
    return made.notebook(cells, lesson=lesson, title=title, minutes=30, after=[], gpu="not needed")


def main(lesson: str, title: str | None = None, slug: str | None = None) -> int:
    """Lay the files of a new lesson and say what comes next; returns 0, or 1 with a line on what is wrong."""
    try:
        laid = new_lesson(course(), lesson, title or "", slug)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print("Laid " + " and ".join(laid))
    print(f"Edit both, then: make build LESSON={lesson}  (CONTRIBUTING.md goes through it step by step)")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m autograder.building.new_lesson", description=__doc__)
    parser.add_argument("lesson")
    parser.add_argument("--title")
    parser.add_argument("--slug")
    sys.exit(main(**vars(parser.parse_args())))
