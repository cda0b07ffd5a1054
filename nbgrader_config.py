"""nbgrader's steps on this course's folders. nbgrader reads this file when it is started in this folder."""

import os
from pathlib import Path

root = Path(__file__).resolve().parent
made_while_grading = "autograder"

c = get_config()  # noqa: F821  nbgrader puts it here
c.CourseDirectory.course_id = "memory-budget"
c.CourseDirectory.root = str(root)
c.CourseDirectory.source_directory = "source"
c.CourseDirectory.release_directory = "lessons"
c.CourseDirectory.solution_directory = "solutions"
c.CourseDirectory.submitted_directory = f"{made_while_grading}/submitted"
c.CourseDirectory.autograded_directory = f"{made_while_grading}/autograded"
c.CourseDirectory.feedback_directory = f"{made_while_grading}/feedback"
# Three slashes and an absolute path: SQLAlchemy takes the rest as it stands, spaces and all.
c.CourseDirectory.db_url = os.environ.get(
    "MEMORY_BUDGET_DB_URL", f"sqlite:///{(root / made_while_grading / 'gradebook.db').as_posix()}"
)
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", ".DS_Store"]

# What a learner sees where a solution was: a comment, so that a fresh lesson runs to its end.
c.ClearSolutions.code_stub = {"python": "# your answer here"}
c.ClearSolutions.text_stub = "*Your answer here.*"

# Submissions are run by `make grade`, in a sandbox; nbgrader's own autograde would run them unprotected.
c.Autograde.autograde_preprocessors = ["autograder.grading.gradebook.LayVerdicts"]
# What only the person who marks may see does not go into feedback (formgrader's button too).
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.GetGrades",
    "autograder.grading.gradebook.ForLearners",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
