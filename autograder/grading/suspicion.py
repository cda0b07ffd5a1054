"""Lines in a learner's code that an instructor may want to look at. They change no score: the sandbox does the work."""

from __future__ import annotations

import ast
import re

_PATTERNS = (
    (r"\bget_ipython\s*\(", "works on the notebook's shell (get_ipython)"),
    (r"\bInteractiveShell\b", "works on the notebook's shell (InteractiveShell)"),
    (r"\bast_transformers\b|\bNodeTransformer\b", "rewrites code before it runs"),
    (r"\bset_custom_exc\b|\bshowtraceback\b", "changes how errors are shown"),
    (r"\bctypes\b", "calls into the C library (ctypes)"),
    (
        r"\bsubprocess\b|\bos\.(?:system|popen|fork|exec\w*|spawn\w*)\b|\bmultiprocessing\b",
        "starts processes",
    ),
    (r"\bos\.(?:_exit|kill|abort)\b", "ends the process"),
    (r"\bsocket\b|\burllib\b|\brequests\.(?:get|post)\b|\bhttp\.client\b", "uses the network"),
    (r"/proc/|\bptrace\b", "looks at the system's processes"),
    (
        r"\bgc\.get_|\bsys\._getframe\b|\binspect\.(?:stack|currentframe)\b|\bf_back\b",
        "looks at the grader's own frames",
    ),
    (r"\bos\.(?:write|read|dup2?|fdopen)\s*\(", "uses file descriptors directly"),
    (r"gradebook|\bsqlite3\b", "looks for the gradebook"),
    (r"(?:\.\./)+|\bsource/|solutions?/|questions/|\btests/", "looks for files of the course"),
    (r"\.ipynb\b", "looks for notebooks"),
    (r"\bglob\b|\bos\.(?:walk|listdir|scandir)\b", "lists files"),
    (
        r"\bautograder\.(?!check\b)\w+|from\s+autograder\s+import\s+(?!check\b)|\bwire\b\s*\.",
        "reaches for the grader",
    ),
    (
        r"\b__eq__\b|\b__instancecheck__\b|\b__float__\b|\b__int__\b|\b__reduce",
        "makes an object that lies about itself",
    ),
    (r"<script|javascript:|\bonerror\s*=|\bonload\s*=", "puts a script into an output"),
    (r"\bsignal\.signal\b|\bsetitimer\b", "changes how signals are handled"),
    (
        r"\bmath\.isclose\s*=|\ballclose\s*=|\bassert_allclose\s*=|\bbuiltins\b",
        "replaces functions that checks use",
    ),
    (r"\bNBGRADER|\bos\.environ\b", "looks at the environment"),
    (r"\bresource\.|\bprlimit\b", "looks at limits"),
    (r"[\u202a-\u202e\u2066-\u2069]", "holds signs that show letters in another order than they have"),
)
_CHECKED = frozenset(
    [
        "abs",
        "all",
        "any",
        "float",
        "int",
        "isinstance",
        "len",
        "max",
        "min",
        "print",
        "round",
        "sorted",
        "str",
        "sum",
        "type",
        "check",
    ]
)


def look(source: str) -> list[str]:
    """One line for each thing in a cell that is unusual for an exercise; empty for ordinary work."""
    found = [says for pattern, says in _PATTERNS if re.search(pattern, source)]
    shadowed = sorted(_stored(source) & _CHECKED)
    if shadowed:
        found.append(f"gives a new meaning to {', '.join(shadowed)}")
    return found


def _stored(source: str) -> set[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
            names |= {
                n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
    return names
