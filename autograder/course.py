"""Where a course keeps its folders: which is edited, which are made, which an instructor keeps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

# what editors leave behind
PICTURE = "bars.svg"  # in lessons/, for the README
IGNORED = (".ipynb_checkpoints", "__pycache__", ".DS_Store")


@dataclass(frozen=True, kw_only=True)
class Course:
    """The folders of one course; everything else is found from `root`."""

    root: Path

    @property
    def source(self) -> Path:
        """Edited by hand: one folder a lesson, and the glossary."""
        return self.root / "source"

    @property
    def lessons(self) -> Path:
        """Made: what learners open."""
        return self.root / "lessons"

    @property
    def solutions(self) -> Path:
        """Made: answered and run."""
        return self.root / "solutions"

    @property
    def questions(self) -> Path:
        """The question bank: one `lesson_NN.py` a lesson."""
        return self.root / "autograder" / "questions"

    def lesson_ids(self) -> list[str]:
        """Names of the lessons that have a source folder, sorted."""
        if not self.source.is_dir():
            return []
        return sorted(p.name for p in self.source.iterdir() if p.is_dir() and not p.name.startswith("."))

    def source_notebook(self, lesson: str) -> Path:
        """The one notebook of a lesson; ValueError when there is none or more than one."""
        found = sorted((self.source / lesson).glob("*.ipynb"))
        if len(found) != 1:
            names = ", ".join(p.name for p in found) or "none"
            raise ValueError(f"source/{lesson} must hold exactly one notebook, found: {names}")
        return found[0]


def course(root: Path | str | None = None) -> Course:
    """The course at `root`; by default the one MEMORY_BUDGET_COURSE names, else the one this file is in."""
    chosen = root or os.environ.get("MEMORY_BUDGET_COURSE") or Path(__file__).parents[1]
    return Course(root=Path(chosen).resolve())
