"""What an instructor reads after grading: the note of a row in grades.csv, and the report of a lesson."""

from __future__ import annotations

import re
from pathlib import Path

_QUIET = ("worth a look", "stub")


def note(noted: dict | None) -> str:
    """One line for a student's row: why it was not graded, what was put right, what stopped."""
    if not noted:
        return ""
    says = []
    if noted.get("unreadable"):
        says.append(f"not graded: {noted['unreadable']}")
    says += noted.get("notes") or []
    stops = [i for i in noted.get("incidents") or [] if i["kind"] not in _QUIET]
    says += sorted({f"{i['where']}: {i['kind']} ({i['says']})" for i in stops})
    if noted.get("shut_in") is False:
        says.append("sandbox was off")
    return one_line("; ".join(says))


def one_line(text: str) -> str:
    """Printable text on one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:2000]


def write(
    path: Path, lesson: str, noted: dict[str, dict | None], to_mark: dict[str, dict[str, bool]]
) -> None:
    """Write the report of a lesson: what waits for a person, every incident, everyone's seed and use."""
    from autograder.grading.grade import write_whole

    write_whole(path, render(lesson, noted, to_mark))


def render(lesson: str, noted: dict[str, dict | None], to_mark: dict[str, dict[str, bool]]) -> str:
    """The report as Markdown."""
    there = {student: n for student, n in noted.items() if n}
    off = any(n.get("shut_in") is False for n in there.values())
    lines = [f"# Grading of {lesson}", ""]
    if off:
        lines += ["**The sandbox was OFF: submissions could read and change what the grader could.**", ""]
    bad = {s: n for s, n in there.items() if n.get("unreadable")}
    lines += [f"{len(there) - len(bad)} graded, {len(bad)} not graded.", ""]
    if bad:
        lines += (
            ["## Not graded", ""] + [f"- {cell(s)}: {cell(n['unreadable'])}" for s, n in bad.items()] + [""]
        )
    lines += _to_mark(to_mark) + _incidents(there) + _table(there)
    return "\n".join(lines) + "\n"


def _to_mark(to_mark: dict[str, dict[str, bool]]) -> list[str]:
    if not to_mark:
        return []
    lines = ["## To mark by hand", ""]
    for student, questions in to_mark.items():
        said = [
            f"{cell(q)} (marked before, changed since)" if again else cell(q)
            for q, again in questions.items()
        ]
        lines.append(f"- {cell(student)}: {', '.join(said)}")
    return [*lines, ""]


def _incidents(there: dict[str, dict]) -> list[str]:
    flagged = {s: n["incidents"] for s, n in there.items() if n.get("incidents")}
    if not flagged:
        return []
    lines = ["## To look at", ""]
    lines.append(
        "A line here is a reason to read a submission, not a proof of anything; no score depends on it."
    )
    lines.append("")
    for student, incidents in flagged.items():
        lines += [f"### {cell(student)}", ""]
        lines += [f"- {cell(i['where'])}: **{cell(i['kind'])}**, {cell(i['says'])}" for i in incidents] + [""]
    return lines


def _table(there: dict[str, dict]) -> list[str]:
    lines = [
        "## Everyone",
        "",
        "The seed is what a grading is replayed from (`python -m autograder replay`).",
        "",
        "| student | seed | seconds | peak MB | note |",
        "| --- | --- | --- | --- | --- |",
    ]
    for student, n in there.items():
        usage = n.get("usage") or {}
        peak = f"{usage.get('peak_bytes', 0) / 1e6:.0f}" if usage else ""
        seconds = f"{n['seconds']:.1f}" if n.get("seconds") is not None else ""
        lines.append(f"| {cell(student)} | {n.get('seed', '')} | {seconds} | {peak} | {cell(note(n))} |")
    return lines


def cell(text: str) -> str:
    """Text that stays text in Markdown, in a table or out of it."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", one_line(str(text)))
