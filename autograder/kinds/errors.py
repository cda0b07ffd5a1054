"""Which question does a Python error of a learner's most often answer to?"""

from __future__ import annotations

import re

#: errors that beginners meet, and the question each one asks
LEADS = {
    "ZeroDivisionError": "What can be zero there?",
    "KeyError": "Which keys does that dict have on the inputs that the check tries?",
    "IndexError": "How many items are there?",
    "RecursionError": "Does the function call itself without an end?",
    "TypeError": "Which value there is not of the kind you expect?",
    "AttributeError": "Is the name after the dot one that this kind of value has?",
    "NameError": "Where is it made, and is it spelt the same there? A word of text needs quotes.",
    "UnboundLocalError": "Which line of the function gives it its first value?",
    "ModuleNotFoundError": "Is that library part of the course?",
    "SystemExit": "A function hands back a value; what is the exit for?",
    "KeyboardInterrupt": "Was it interrupted?",
    "SyntaxError": "Is a bracket, a quote or a colon missing there?",
    "IndentationError": "Do the lines that belong together begin at the same place?",
}

#: what to ask where the check brings a model or an optimizer of its own
ELSEWHERE = (
    "The check brings another model and optimizer, whose groups and entries have other names: does your code "
    "count on a name of the lesson's?"
)
_ATTRIBUTE = re.compile(r"'([\w.]+)' object has no attribute '(\w+)'")
#: what only a tensor has, of the names this course uses
_OF_TENSORS = ("numel", "nelement", "shape", "grad", "dim", "requires_grad", "element_size", "nbytes", "item")


def lead_on(said: str, elsewhere: bool = False) -> str:
    """Return the question for an error's line ("KeyError: 'a'"); `elsewhere`: the inputs are the check's own."""
    if "NoneType" in said:
        return "What there is still None?"
    if re.search(r"unsupported operand type\(s\) for \^", said):
        return "In Python a power is written with two stars; what does `^` do?"
    kind = said.partition(":")[0]
    if kind == "AttributeError":
        return _of_attribute(said, elsewhere)
    if kind == "KeyError" and elsewhere:
        return ELSEWHERE
    return LEADS.get(kind, "What does that line need that it does not have?")


def _of_attribute(said: str, elsewhere: bool) -> str:
    found = _ATTRIBUTE.search(said)
    if found and found[2] in _OF_TENSORS and found[1] not in ("Tensor", "Parameter"):
        return f"You have an object of type {found[1]} there, not a tensor: where in it are the tensors?"
    if found and elsewhere and found[1] not in ("Tensor", "Parameter", "dict", "list", "str", "tuple"):
        return ELSEWHERE
    return LEADS["AttributeError"]
