"""Answers a complaint: grades one submission again from its seed, and shows every question asked and every reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autograder import wire
from autograder.course import Course
from autograder.grading import apart, grader, inbox
from autograder.grading.grade import Options, Places, Refused, Store, base_job, reference, released
from autograder.grading.gradebook import Book


def replay(
    here: Course,
    student: str,
    lesson_id: str,
    seed: int | None = None,
    *,
    shut_in: bool = True,
    say: Callable[[str], None] = print,
) -> int:
    """Show how a submission was graded; 0 when it comes out as before, 1 when it does not."""
    places = Places(root=here.root)
    lesson, text = released(here, lesson_id)
    handed_in = inbox.collect(places.submitted, lesson, Book(here, places.staged).students(), only=[student])
    if not handed_in:
        raise Refused(f"{student} has handed in nothing for {lesson_id}")
    one = handed_in[0]
    store = Store(places.results / lesson.id)
    noted = store.noted(one.student) or {}
    if one.path is None:
        say(f"{one.student}: not graded: {one.why_not}")
        return 0
    seed = noted.get("seed", 0) if seed is None else seed
    options = Options(seed=seed, shut_in=shut_in, quiet=True)
    job = base_job(here, lesson, text, options, seed)
    job = replace(
        job, reference=reference(store, job, options, say), student=one.student, notebook=one.body()
    )
    try:
        result = apart.call(grader.grade_submission, job, share=grader.share(job))
    except (apart.Ended, apart.Failed) as why:
        raise Refused(f"the grader had to stop on it: {why}") from None
    say(f"{one.student}, {lesson_id}, seed {seed}")
    for name, asked in result.get("asked", {}).items():
        judged = result["verdicts"][name]
        say(f"\n{judged['text']}")
        for request, reply in asked:
            say(f"  {_request(request)} -> {_reply(reply)}")
    return _compare(result, noted, say)


def _compare(result: dict, noted: dict, say: Callable[[str], None]) -> int:
    before = noted.get("scores")
    if before is None:
        say("\nIt was not graded before.")
        return 0
    now = scores(result)
    if now == before:
        say("\nThe same verdicts as when it was graded.")
        return 0
    for name in now:
        if now[name] != before.get(name):
            say(f"\n{name}: {before.get(name)} when it was graded, {now[name]} now")
    return 1


def scores(result: dict) -> dict[str, float | None]:
    """Score of each question, None for one that a person marks."""
    return {name: judged["score"] for name, judged in result.get("verdicts", {}).items()}


def _request(request: dict) -> str:
    if request["ask"] == "value":
        return request["name"]
    return f"{request['name']}({', '.join(repr(wire.decode(a)) for a in request['args'])})"


def _reply(reply: dict) -> str:
    clean = wire.clean_reply(reply)
    if "ok" in clean:
        return wire.one_line(repr(wire.decode(clean["ok"])), 200)
    return ", ".join(f"{key}: {value}" if value is not True else key for key, value in clean.items())
