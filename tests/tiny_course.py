"""A made-up course of one lesson that builds in seconds without torch, for tests that break it on purpose."""

from pathlib import Path

from nbformat.notebooknode import NotebookNode

from autograder import cells as made
from autograder.course import Course

BANK = """
from autograder.kinds import Choice, Function, Idea, Number, Text

QUESTIONS = [
    Number(name="weights_gb", points=1, prompt="weights of 7B in 2 bytes", right=14.0, unit="GB"),
    Choice(name="why_bf16", points=1, prompt="why bf16", options={"a": "smaller", "b": "range"}, right="b"),
    Function(
        name="training_gb",
        points=2,
        prompt="memory to train",
        signature="training_gb(trainable)",
        reference=lambda trainable: trainable * 16 / 1e9,
        inputs=lambda rng: [(rng.uniform(1e6, 1e9),)],
        example=(1.5e9,),
    ),
    Text(
        name="in_words",
        points=2,
        prompt="why frozen is cheap",
        ideas=(Idea(name="gradient", all_of=("gradient",)),),
        mark_scheme="Two points for gradients and moments.",
    ),
]
"""

GLOSSARY = """# Glossary

What the words mean.

## gradient
Also: gradients
How fast the loss rises with a parameter.

## AdamW
An optimizer with two moments.
"""

HEAD = 'def training_gb(trainable: float) -> float:\n    """GB to train: training_gb(1.5e9) is 24.0."""'


def source_cells() -> list:
    """The cells of the lesson, right in every respect."""
    return [
        made.markdown(
            "# A tiny lesson\n\nWhat does a [**gradient**](../glossary.md#gradient) cost?", "title"
        ),
        made.code("from autograder import check", "setup"),
        made.markdown("## Weights\n\nHow many GB? With [**AdamW**](../glossary.md#adamw).", "weights"),
        [made.answer("weights_gb", "weights_gb = 7e9 * 2 / 1e9", comment="GB"), made.check("weights_gb", 1)],
        made.markdown("Which letter?", "letter"),
        [made.answer("why_bf16", 'why_bf16 = "b"', comment='"a" or "b"'), made.check("why_bf16", 1)],
        made.markdown("About 1 line.", "about-one-line"),
        [made.answer("training_gb", "return trainable * 16 / 1e9", stub=HEAD), made.check("training_gb", 2)],
        made.markdown("In your own words.", "own-words"),
        made.written("in_words", "A frozen parameter has no gradient and so no moments either.", 2),
        made.markdown("Look: the sum.", "look"),
        made.code("sum([2, 2, 4, 4, 4])", "sum"),
    ]


def tiny_course(root: Path) -> Course:
    """Lay the course under `root`; its lesson is lesson-03, its notebook tiny.ipynb."""
    here = Course(root=root)
    here.questions.mkdir(parents=True)
    (here.questions / "lesson_03.py").write_text(BANK, encoding="utf-8")
    write(here, made.notebook(source_cells(), **about()))
    (here.source / "glossary.md").write_text(GLOSSARY, encoding="utf-8")
    return here


def about() -> dict:
    """What the lesson says of itself."""
    return {
        "lesson": "lesson-03",
        "title": "A tiny lesson",
        "minutes": 5,
        "after": ["lesson-02"],
        "gpu": "no",
    }


def read(here: Course) -> NotebookNode:
    """The source notebook."""
    return made.read(here.source / "lesson-03" / "tiny.ipynb")


def write(here: Course, notebook: NotebookNode) -> None:
    """Put the source notebook in place."""
    made.save(notebook, here.source / "lesson-03" / "tiny.ipynb")


def cell(notebook: NotebookNode, cell_id: str) -> NotebookNode:
    """The cell with this id."""
    return next(cell for cell in notebook.cells if cell.id == cell_id)
