"""The kinds of question a lesson may ask; `autograder/questions/__init__.py` tells how to write one."""

from autograder.kinds.base import Question, Slip, ask
from autograder.kinds.choice import Choice, Set
from autograder.kinds.function import Function
from autograder.kinds.number import Number
from autograder.kinds.order import Match, Order
from autograder.kinds.relation import Relation
from autograder.kinds.rep import Rep
from autograder.kinds.table import Table
from autograder.kinds.text import Idea, Text

__all__ = [
    "Choice",
    "Function",
    "Idea",
    "Match",
    "Number",
    "Order",
    "Question",
    "Relation",
    "Rep",
    "Set",
    "Slip",
    "Table",
    "Text",
    "ask",
]
