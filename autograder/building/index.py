"""Which lessons there are: the notebook that JupyterLab opens on, and the README's table of lessons."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nbformat.notebooknode import NotebookNode

from autograder import cells as made
from autograder.course import PICTURE, Course, course
from autograder.how_far import number

BEGIN, END = "<!-- lessons: begin -->", "<!-- lessons: end -->"
PICTURE_BEGIN, PICTURE_END = "<!-- picture: begin -->", "<!-- picture: end -->"


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What the index says of one lesson; `path` is relative to lessons/."""

    id: str
    title: str
    minutes: int
    after: tuple[str, ...]
    gpu: str
    questions: int
    path: str

    @property
    def number(self) -> str:
        """The number a reader calls it by."""
        return number(self.id)


def lessons(here: Course) -> list[Lesson]:
    """What every lesson's source says of itself, in order; a lesson without a notebook is left out."""
    return [found for lesson in here.lesson_ids() if (found := _lesson(here, lesson))]


def _lesson(here: Course, lesson: str) -> Lesson | None:
    try:
        path = here.source_notebook(lesson)
    except ValueError:
        return None
    notebook = made.read(path)
    about = made.lesson_about(notebook)
    names = {made.question_name(cell) for cell in notebook.cells if made.is_graded(cell)}
    return Lesson(
        id=lesson,
        title=about.get("title", lesson),
        minutes=about.get("minutes", 0),
        after=tuple(about.get("after", ())),
        gpu=about.get("gpu", ""),
        questions=len(names),
        path=f"{lesson}/{path.name}",
    )


def table(here: Course, folder: str = "") -> str:
    """The lessons as a markdown table; `folder` goes before each link (README: "lessons/")."""
    found = lessons(here)
    known = {lesson.id: lesson for lesson in found}
    head = "| lesson | questions | minutes | after | GPU |\n| --- | ---: | ---: | --- | --- |"
    return "\n".join([head, *(_row(lesson, known, folder) for lesson in found)])


def _row(lesson: Lesson, known: dict[str, Lesson], folder: str) -> str:
    before = [
        f"[{number(other)}]({folder}{known[other].path})" if other in known else number(other)
        for other in lesson.after
    ]
    title = f"[{lesson.number}. {lesson.title}]({folder}{lesson.path})"
    return f"| {title} | {lesson.questions} | {lesson.minutes} | {', '.join(before) or '-'} | {lesson.gpu} |"


def notebook(here: Course) -> NotebookNode:
    """The index as a notebook: the table, and one line that shows the learner's own progress."""
    index = made.notebook(
        [
            made.markdown(_introduction(here), "lessons"),
            made.markdown(_PROGRESS, "how-far-you-are"),
            made.code("from autograder.how_far import how_far\n\nhow_far()", "progress"),
        ],
        lesson="index",
        title="Memory Budget",
        minutes=0,
        after=[],
        gpu="",
    )
    del index.metadata["memory_budget"]
    return index


_PROGRESS = """## How far you are

Run the cell below (Shift+Enter): it shows the questions you have right so far in each lesson. The count is \
kept in a file of yours on this computer, and no grade depends on it."""


def _introduction(here: Course) -> str:
    text = (
        "# Memory Budget\n\nHow much memory does it take to train a language model, and why? "
        "Open a lesson by its link and work through it from top to end."
    )
    if (here.source / "glossary.md").exists():
        text += " The words in bold are in the [glossary](glossary.md)."
    text += f"\n\n{table(here)}"
    found = lessons(here)
    unwritten = sorted({o for lesson in found for o in lesson.after} - {lesson.id for lesson in found})
    if unwritten:
        names = ", ".join(number(lesson) for lesson in unwritten)
        text += (
            f"\n\nLessons named without a link ({names}) are still to be written; you can begin without them."
        )
    return text


def with_table(readme: str, here: Course) -> str:
    """The README's text with its table made anew between the two marks; ValueError when one is missing."""
    return _between(readme, BEGIN, END, table(here, "lessons/"))


def with_picture(readme: str, words: str) -> str:
    """The README's text with the picture of the bars and what it says, where the README has a place for it."""
    if PICTURE_BEGIN not in readme:
        return readme
    return _between(readme, PICTURE_BEGIN, PICTURE_END, f"![{words}](lessons/{PICTURE})")


def _between(text: str, begin: str, end: str, new: str) -> str:
    pattern = re.compile(f"({re.escape(begin)}).*?({re.escape(end)})", re.S)
    if not pattern.search(text):
        raise ValueError(f"the README has no {begin} ... {end}")
    return pattern.sub(lambda found: f"{found[1]}\n{new}\n{found[2]}", text)


def main() -> int:
    """Write lessons/index.ipynb and the README's table of lessons; returns 0."""
    here = course()
    here.lessons.mkdir(exist_ok=True)
    made.save(notebook(here), here.lessons / "index.ipynb")
    write_readme(here)
    return 0


def write_readme(here: Course) -> None:
    """Bring the README's table of lessons and its picture up to date, where the README has marks for them."""
    readme = here.root / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    if BEGIN not in text:
        return
    fresh = with_table(text, here)
    if PICTURE_BEGIN in text:
        words, drawing = picture()
        fresh = with_picture(fresh, words)
        (here.lessons / PICTURE).write_text(drawing, encoding="utf-8", newline="\n")
    if fresh != text:
        readme.write_text(fresh, encoding="utf-8", newline="\n")


def picture() -> tuple[str, str]:
    """What the training bars say before anybody moves them, and their drawing as a file of its own."""
    from memory_budget import bars  # only here: it brings ipywidgets, which a README without picture spares
    from memory_budget.drawing.picture import alone

    picture = bars.training().picture
    return picture.words, alone(picture.svg)


if __name__ == "__main__":
    raise SystemExit(main())
