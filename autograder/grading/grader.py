"""Grades one submission: a pure job, from the bytes handed in to scores, cards, outputs and incidents as plain data.

The learner's cells run in a worker that holds no answer (`worker.py`, shut in by `sandbox.py`); the questions are asked
from here, and judged here. A cell that ends its worker, breaks a limit or writes to the grader's channel is left out,
and all others are run again in a new worker, so that only the questions that depend on it lose.
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import json
import pickletools
import platform
import random
import re
import tempfile
import time
import traceback
import types
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from autograder import card, verdict, wire
from autograder.grading import apart, sandbox, sanitise, slicing, submissions, suspicion
from autograder.grading.sandbox import Limits, Material, Stopped, Usage, Worker
from autograder.grading.submissions import Arranged, Lesson, Placed
from autograder.verdict import Verdict

VERSION = 2
#: a longer reply is not kept with the grade, only that it was too long
KEPT_REPLY = 20_000
#: more of one kind is not worth anybody's reading
INCIDENTS = 50
#: words of ours and of the instructor's, in what a learner's cell shows
_SPEAKS_AS_GRADER = re.compile(r"mark\W+scheme|your\W+instructor|not\W+final", re.I)


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that one grade depends on, as plain data that can be sent to another machine.

    `lesson_text` is the released notebook's JSON; `reference` holds what the lesson's own cells show and make
    (`reference_run`), or is None to run every cell; `questions` is the path of a question bank, or None for the course's own.
    """

    student: str
    lesson: str
    lesson_name: str
    lesson_text: str
    notebook: bytes
    seed: int
    reference: dict[str, dict] | None = None
    questions: str | None = None
    limits: dict = field(default_factory=dict)
    shut_in: bool = True


def grade_submission(job: Job) -> dict:
    """Grade one submission; plain data that JSON can hold, whatever was handed in."""
    started = time.monotonic()
    result = ungraded(job, None)
    lesson = submissions.read_lesson(job.lesson_text, job.lesson, job.lesson_name)
    try:
        read = submissions.read(job.notebook)
        if not submissions.belongs(read, lesson):
            raise submissions.Unreadable(_other_lesson(read, lesson))
        arranged = submissions.arrange(read, lesson)
    except submissions.Unreadable as reason:
        return {**result, "unreadable": str(reason)}
    except Exception as error:
        return {**result, "unreadable": f"the notebook cannot be read ({type(error).__name__})"}
    grading = Grading(job, lesson, arranged)
    try:
        grading.run()
    finally:
        grading.close()
    result |= grading.result()
    result["seconds"] = round(time.monotonic() - started, 3)
    return result


def ungraded(job: Job, why: str | None) -> dict:
    """A result in which nothing is graded, with the reason in one line."""
    return {
        "version": VERSION,
        "student": job.student,
        "lesson": job.lesson,
        "seed": job.seed,
        "shut_in": job.shut_in,
        "unreadable": why,
        "notes": [],
        "incidents": [],
    }


def share(job: Job) -> apart.Share:
    """What a job may take when it is done apart: the wait is for the learner's cells, the computing is the grader's own."""
    limits = Limits(**job.limits)
    return apart.Share(
        cpu_s=limits.judge_s, wall_s=3 * limits.total_s + 600.0, memory_bytes=limits.judge_bytes
    )


def _other_lesson(read: submissions.Read, lesson: Lesson) -> str:
    return (
        f"this is the notebook of {read.lesson}"
        if read.lesson
        else f"none of the questions of {lesson.id} is in it"
    )


@dataclass(frozen=True, kw_only=True)
class Incident:
    """Something an instructor should know: what kind, in which cell or question, and one line.

    A `hidden` one is not for the learner: it came about when what is drawn was known, and its words could hold that.
    """

    kind: str
    where: str
    says: str
    hidden: bool = False


@dataclass(kw_only=True)
class Asking:
    """One question while it is asked.

    For each request, `drawn` says whether it holds what was drawn for this grading, and `hides` whether its reply could.
    """

    name: str
    requests: list
    drawn: list[bool]
    hides: list[bool]
    replies: dict[int, dict] = field(default_factory=dict)
    last: dict = field(default_factory=dict)
    stopped: Stopped | None = None


class Grading:
    """One submission while it is graded."""

    def __init__(self, job: Job, lesson: Lesson, arranged: Arranged) -> None:
        self.job = job
        self.lesson = lesson
        self.arranged = arranged
        self.limits = Limits(**job.limits)
        self.usage = Usage()
        self.bank = question_bank(job.lesson, job.questions)
        self.outputs: dict[int, list[dict]] = {}
        self.errors: dict[int, str] = {}
        self.left_out: dict[int, Stopped] = {}
        self.incidents: list[Incident] = []
        self.verdicts: dict[str, Verdict] = {}
        self.asked: dict[str, list] = {}
        self.worker: Worker | None = None
        self.done: list[int] = []
        self.restarts = 0
        self.drawn_is_known = False
        self.shown_left = self.limits.shown_bytes
        self.outputs_left = self.limits.shown_outputs
        self.prose: dict[int, str] = {}
        self.cleaning = sanitise.Cleaning()
        self.until = time.monotonic() + self.limits.total_s
        self.cells = [i for i, placed in enumerate(arranged.cells) if placed.runs]
        self.requests, self.shared = self._plan()

    # -- running the cells

    def run(self) -> None:
        """Run the cells, each question asked where it is checked; then ask again what was not right there.

        A later cell may use a name anew, and an earlier one may be left out: the better of both verdicts counts. What
        was drawn for this grading is shown to the learner's code only when no output of it is kept any more.
        """
        self._look_for_suspicion()
        self._show_prose()
        for position, placed in enumerate(self.arranged.cells):
            if placed.runs:
                self._run_cell(position)
            elif placed.role == "check" and placed.question in self.bank:
                self._ask_at_check(placed.question)
        self.until = max(self.until, time.monotonic() + self.limits.cell_s)
        self._ask_all([name for name in self.bank if not self._is_settled(name)])
        self._ask_functions_at_checks()
        self.asked = {name: self.asked[name] for name in self.bank}

    def _is_settled(self, name: str) -> bool:
        early = self.verdicts.get(name)
        return early is not None and early.status in (verdict.RIGHT, verdict.BY_HAND)

    def _ask_at_check(self, name: str) -> None:
        # so many workers may be lost this way that as many are left for the end
        if name not in self.verdicts and self.restarts <= self.limits.restarts // 2:
            asking = self._asking(name)
            if not any(asking.drawn):
                self._ask_all([name])

    def _ask_functions_at_checks(self) -> None:
        """Where a function's names are used anew after its check, ask it there, in a worker whose outputs nobody sees."""
        names = [
            name
            for name in self.bank
            if not self._is_settled(name) and any(self._asking(name).drawn) and self._is_touched_after(name)
        ]
        if not names:
            return
        self.close()
        self.done = []
        self.until = time.monotonic() + self.limits.total_s
        for position, placed in enumerate(self.arranged.cells):
            if self.restarts > self.limits.restarts or time.monotonic() > self.until:
                return
            if placed.role == "check" and placed.question in names:
                self._ask_all([placed.question], again=True)
            elif placed.runs and position not in self.left_out:
                try:
                    for request in self.requests[position]:
                        self._request(request, self._cell_time())
                        self.worker.said()
                    self.done.append(position)
                except Stopped as stopped:
                    self._leave_out(position, stopped)

    def _is_touched_after(self, name: str) -> bool:
        """Whether a cell below a question's check may change what the answer above it needs."""
        above: list[slicing.Names] = []
        below: list[slicing.Names] = []
        given: list[slicing.Names] = []
        seen = False
        for placed in self.arranged.cells:
            seen = seen or (placed.role == "check" and placed.question == name)
            if placed.runs and not self._is_stub(placed):
                later = given if placed.untouched else below
                (later if seen else above).append(slicing.names_of(placed.cell.source))
        return slicing.may_change(name, above, below, given)

    def _settle(self, name: str, early: Verdict | None, late: Verdict, asked: list) -> None:
        """Take the later verdict unless the earlier one is worth more, or says more about an answer that is gone."""
        if early is not None and (
            early.fraction > late.fraction
            or (early.fraction == late.fraction and late.status == verdict.UNANSWERED)
        ):
            return
        self.verdicts[name], self.asked[name] = late, asked

    def close(self) -> None:
        """End the worker, if one runs."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def _plan(self) -> tuple[dict[int, list[dict]], dict[int, bool]]:
        """For each code cell what to ask of the worker, and whether what it shows is the class's."""
        placed = [self.arranged.cells[i] for i in self.cells]
        steps = [slicing.Step(source=p.cell.source, given=p.untouched or self._is_stub(p)) for p in placed]
        if self.job.reference is None:
            plan = slicing.run_everything(steps)
        else:
            made = self.job.reference.get("values", {})
            plan = slicing.plan(
                steps, [frozenset(made.get(str(p.index), ()) if p.untouched else ()) for p in placed]
            )
        requests: dict[int, list[dict]] = {}
        shared = {}
        own: set[str] = set()
        for number, (i, p) in enumerate(zip(self.cells, placed, strict=True)):
            stub = self._is_stub(p)
            requests[i] = []
            shared[i] = plan.shared[number] and not stub
            if not p.untouched and not stub:
                own |= submissions.bound_names(p.cell.source)
            if stub and p.question in own and submissions.bound_names(p.cell.source) <= own:
                continue  # answered in a cell of the learner's above, which the empty answer would undo
            if plan.values[number] and not stub:
                values = {name: made[str(p.index)][name] for name in sorted(plan.values[number])}
                requests[i].append({"do": "restore", "values": values})
            source = p.cell.source if stub else plan.sources[number]
            if source:
                requests[i].append({"do": "cell", "source": source, "number": number + 1})
        return requests, shared

    def _is_stub(self, placed: Placed) -> bool:
        own = self.lesson.cells[placed.index].source if placed.index is not None else None
        return placed.role == "answer" and placed.cell.source.strip() == own.strip()

    def _run_cell(self, position: int) -> None:
        if self.shared[position]:
            index = str(self.arranged.cells[position].index)
            self.outputs[position] = list(self.job.reference.get("outputs", {}).get(index, []))
        if not self.requests[position] or self._too_late(position):
            return
        try:
            for request in self.requests[position]:
                reply = self._request(request, self._cell_time())
        except Stopped as stopped:
            self._leave_out(position, stopped)
            return
        self.done.append(position)
        if reply.get("timeout") or reply.get("error") == "OutOfTime":
            self._note("time", self._where(position), f"stopped after {self.limits.cell_s:.0f} s")
        self._keep(position, reply)

    def _keep(self, position: int, reply: dict) -> None:
        """Take over what a cell showed, unless the class's one run shows it already."""
        if type(reply.get("error")) is str:
            self.errors[position] = reply["error"][:80]
        for part in reply["touched"][:20] if type(reply.get("touched")) is list else ():
            if type(part) is str and not any(
                i.kind == "tampering" and part[:60] in i.says for i in self.incidents
            ):
                self._note("tampering", self._where(position), f"changes {sanitise.text(part)[:60]}")
        if not self.shared[position]:
            beside = self.worker.said() if self.worker else ""
            shown = reply.get("outputs") if type(reply.get("outputs")) is list else []
            if beside:
                shown = [*shown, {"output_type": "stream", "name": "stdout", "text": beside}]
            self._show(position, shown)

    def _show(self, position: int, shown: list) -> None:
        """Keep what a cell showed, as long as the notebook's cells together do not show too much."""
        kept = sanitise.outputs(shown, hidden_paths(), self.cleaning)
        if _SPEAKS_AS_GRADER.search(json.dumps(kept)):
            self._note("worth a look", self._where(position), "shows a text that speaks as a grader would")
        if kept and not self._fits(len(json.dumps(kept)), len(kept)):
            says = f"[what this cell showed is left out: all cells together may show {self._most()}]\n"
            kept = [{"output_type": "stream", "name": "stderr", "text": says}]
        self.outputs[position] = kept

    def _show_prose(self) -> None:
        """Keep the learner's own text that is no code, as HTML that may be shown."""
        for position, placed in enumerate(self.arranged.cells):
            if placed.cell.kind == "code" or placed.role == "given":
                continue
            clean = sanitise.as_text if placed.cell.kind == "raw" else self.cleaning.markdown
            shown = clean(placed.cell.source)
            fits = self._fits(len(shown), 0)
            self.prose[position] = shown if fits else f"<p>[left out: all cells may show {self._most()}]</p>"

    def _fits(self, size: int, count: int) -> bool:
        """Whether so much more, in so many outputs, may be shown; what may not is noted."""
        if size > self.shown_left or count > self.outputs_left:
            self._note("output", "notebook", f"it shows more than {self._most()}: the rest was left out")
            return False
        self.shown_left -= size
        self.outputs_left -= count
        return True

    def _most(self) -> str:
        return f"{self.limits.shown_bytes / 1e6:.0f} MB and {self.limits.shown_outputs:,} outputs"

    def _too_late(self, position: int) -> bool:
        if self.restarts > self.limits.restarts:
            stopped = Stopped("given up", "not run: too many cells before it had ended the worker")
        elif time.monotonic() > self.until:
            stopped = Stopped(
                "time", f"not run: the {self.limits.total_s:.0f} s for the whole notebook were used up"
            )
        else:
            return False
        self.left_out[position] = stopped
        self._show_stop(position, stopped)
        return True

    def _leave_out(self, position: int, stopped: Stopped) -> None:
        if self.drawn_is_known:
            self._note(stopped.kind, self._where(position), str(stopped))
            self.left_out[position] = Stopped(stopped.kind, "it did not run to its end once more")
            self._end_worker()
            return
        self.left_out[position] = stopped
        self._note(stopped.kind, self._where(position), str(stopped))
        self._show_stop(position, stopped)
        self._end_worker()

    def _show_stop(self, position: int, stopped: Stopped) -> None:
        said = self.worker.said() if self.worker is not None else ""
        told = [{"output_type": "stream", "name": "stdout", "text": said}] if said else []
        says = f"This cell was left out when the notebook was graded: {stopped}."
        told.append({"output_type": "error", "ename": "LeftOut", "evalue": says, "traceback": [says]})
        self._show(position, told)

    # -- the worker

    def _cell_time(self) -> float:
        return max(1.0, min(self.limits.cell_s, self.until - time.monotonic()))

    def _request(self, request: dict, timeout_s: float) -> dict:
        """Ask the worker, after a restart with all the cells run so far when the last one had to be ended."""
        while self.worker is None:
            if self.restarts > self.limits.restarts:
                raise Stopped("given up", "not run: too many cells before it had ended the worker")
            if time.monotonic() > self.until + self.limits.total_s:
                raise Stopped("time", "not run: the time for the whole notebook was used up")
            self._restart()
        return self.worker.ask(request, timeout_s)

    def _restart(self) -> None:
        self.worker = Worker(material(), self.limits, self.usage, shut_in=self.job.shut_in)
        for position in list(self.done):
            if position in self.left_out:
                continue
            try:
                for request in self.requests[position]:
                    self.worker.ask(request, self._cell_time())
                self.worker.said()
            except Stopped as stopped:
                self._leave_out(position, stopped)
                return

    def _end_worker(self) -> None:
        self.close()
        self.restarts += 1

    # -- the questions

    def _asking(self, name: str, *, again: bool = False) -> Asking:
        question = self.bank[name]
        rng = random.Random(f"{self.job.seed}:{self.job.student}:{name}")
        requests = question.requests(rng)
        example = getattr(question, "example", None)
        drawn = [isinstance(r, wire.Call) and (example is None or r.args != tuple(example)) for r in requests]
        hides = [True] * len(drawn) if again else drawn
        return Asking(name=name, requests=requests, drawn=drawn, hides=hides)

    def _ask_all(self, names: list[str], *, again: bool = False) -> None:
        """Ask some questions and settle their verdicts; whatever goes wrong with one costs this one only.

        What was drawn goes last, so that no other reply can hand it on; asked `again`, any may.
        """
        askings = [self._asking(name, again=again) for name in names]
        for drawn in (False, True):
            for asking in askings:
                self._put(asking, drawn)
        for asking in askings:
            replies = [asking.replies[i] for i in range(len(asking.requests))]
            asked = [[r.to_json(), _kept(reply)] for r, reply in zip(asking.requests, replies, strict=True)]
            early = self.verdicts.get(asking.name)
            self._settle(asking.name, early, self._judged(asking, replies), asked)

    def _put(self, asking: Asking, drawn: bool) -> None:
        """Put those requests of a question that hold, or do not hold, what was drawn."""
        for i, request in enumerate(asking.requests):
            if asking.drawn[i] != drawn:
                continue
            self.drawn_is_known = self.drawn_is_known or drawn
            # what hung or died once is not asked again
            if not (asking.last.get("timeout") or asking.last.get("died")):
                asking.last, stopped = self._reply(request)
                asking.stopped = stopped or asking.stopped
            asking.replies[i] = asking.last

    def _judged(self, asking: Asking, replies: list[dict]) -> Verdict:
        name, stopped = asking.name, asking.stopped
        if stopped is not None:
            self._note(stopped.kind, name, str(stopped))
            if stopped.kind in ("protocol", "output"):
                return verdict.not_yet(
                    "Something was written to the grader's channel while it asked for this answer."
                )
        try:
            judged = self._without_inputs(asking, self.bank[name].judge(replies, asking.requests), replies)
        except Exception:
            self._note(
                "grader", name, f"the verdict could not be reached: {traceback.format_exc(limit=1)[-300:]}"
            )
            return verdict.not_yet("This answer could not be read. Your instructor has been told.")
        return self._explained(name, judged, replies)

    def _without_inputs(self, asking: Asking, judged: Verdict, replies: list[dict]) -> Verdict:
        """The verdict in words that quote nothing which could hold an input that was drawn for this grading."""
        if judged.status in (verdict.RIGHT, verdict.BY_HAND) or not any(asking.hides):
            return judged
        told = [
            sanitise.reply(reply) if hides else reply
            for reply, hides in zip(replies, asking.hides, strict=True)
        ]
        try:
            blind = self.bank[asking.name].judge(told, asking.requests)
        except Exception:
            blind = None
        if blind is not None and (blind.status, blind.slip) == (judged.status, judged.slip):
            return replace(judged, message=blind.message, details=blind.details)
        return replace(judged, message="It is not right yet on inputs other than the example.", details=())

    def _reply(self, request: Any) -> tuple[dict, Stopped | None]:
        if self.restarts > self.limits.restarts or time.monotonic() > self.until + self.limits.total_s:
            return {"died": True}, None
        timeout_s = float(getattr(request, "timeout_s", 5.0))
        try:
            asked = {"do": "ask", "request": request.to_json()}
            reply = wire.clean_reply(self._request(asked, timeout_s))
            if reply.get("timeout"):
                self._note("time", request.name, f"a call did not end in {timeout_s:.0f} s")
            return reply, None
        except Stopped as stopped:
            self._end_worker()
            return ({"timeout": True} if stopped.kind == "time" else {"died": True}), stopped

    def _explained(self, name: str, judged: Verdict, replies: list[dict]) -> Verdict:
        """Where a name is missing because its cell failed, say that in place of "not answered yet"."""
        if not any(reply.get("missing") for reply in replies):
            return judged
        for position in self.cells:
            placed = self.arranged.cells[position]
            if placed.untouched or self._is_stub(placed):
                continue
            if name not in submissions.bound_names(placed.cell.source):
                continue
            if position in self.left_out:
                return verdict.not_yet(
                    f"The cell that sets `{name}` was left out: {self.left_out[position]}."
                )
            if position in self.errors:
                return verdict.not_yet(
                    f"The cell above ended with {self.errors[position]}, so `{name}` was never set."
                )
        return judged

    # -- what is reported

    def _where(self, position: int) -> str:
        placed = self.arranged.cells[position]
        return placed.question or f"cell {position + 1}"

    def _note(self, kind: str, where: str, says: str) -> None:
        incident = Incident(
            kind=kind, where=where, says=sanitise.text(says)[:300], hidden=self.drawn_is_known
        )
        known = {(i.where, i.says) for i in self.incidents if i.kind == kind}
        if (incident.where, incident.says) not in known and len(known) < INCIDENTS:
            self.incidents.append(incident)

    def _look_for_suspicion(self) -> None:
        for i, placed in enumerate(self.arranged.cells):
            if placed.cell.kind != "code" or placed.role in ("given", "check"):
                continue
            for says in suspicion.look(placed.cell.source):
                self._note("worth a look", self._where(i), says)
            if line := submissions.stub_raises(placed.cell.source):
                self._note("stub", self._where(i), line)

    def result(self) -> dict:
        """What this grading came to."""
        notes = list(self.arranged.notes)
        for incident in self.incidents:
            if incident.kind == "stub":
                notes.append(f"{incident.where}: {incident.says}")
        return {
            "cells": [self._cell_result(i) for i in range(len(self.arranged.cells))],
            "verdicts": {name: self._verdict_result(name) for name in self.bank},
            "asked": self.asked,
            "notes": notes,
            "incidents": [asdict(i) for i in self.incidents],
            "usage": {
                "peak_bytes": self.usage.peak_bytes,
                "cpu_s": round(self.usage.cpu_s, 2),
                "wall_s": round(self.usage.wall_s, 2),
                "workers": self.usage.workers,
            },
        }

    def _cell_result(self, position: int) -> dict:
        placed = self.arranged.cells[position]
        return {
            "kind": placed.cell.kind,
            "source": placed.cell.source,
            "id": placed.cell.id,
            "marks": placed.cell.marks,
            "role": placed.role,
            "question": placed.question,
            "shown": self.prose.get(position, ""),
            "outputs": self.outputs.get(position, []),
        }

    def _verdict_result(self, name: str) -> dict:
        question, judged = self.bank[name], self.verdicts[name]
        return {
            **asdict(judged),
            "points": question.points,
            "manual": question.manual,
            "mark_scheme": question.mark_scheme if question.manual else "",
            "score": None if question.manual else round(question.points * judged.fraction, 4),
            "html": card.card_html(question, judged),
            "text": card.card_text(question, judged),
        }


def _kept(reply: dict) -> dict:
    """A reply as it is kept with the grade."""
    return reply if len(json.dumps(reply)) <= KEPT_REPLY else {"refused": "longer than is kept here"}


# ---------------------------------------------------------------- what is the same for all submissions


@cache
def material() -> Material:
    """The worker's files, laid out once for this process."""
    folder = tempfile.TemporaryDirectory(prefix="memory-budget-")
    atexit.register(folder.cleanup)
    return sandbox.lay_out(Path(folder.name))


def question_bank(lesson: str, path: str | None) -> dict:
    """The questions of a lesson by name, from a file of a course of one's own or from this course."""
    if path is None:
        from autograder import questions

        return questions.bank(lesson)
    return _bank_of(path, Path(path).read_bytes())


@lru_cache(maxsize=64)
def _bank_of(path: str, body: bytes) -> dict:
    space = types.ModuleType(f"autograder_questions_{Path(path).stem}")
    space.__file__ = path
    exec(compile(body, path, "exec"), vars(space))
    return {question.name: question for question in space.QUESTIONS}


@cache
def hidden_paths() -> tuple[str, ...]:
    """Paths of this machine that no output may show."""
    import sys

    course = Path(__file__).resolve().parents[2]
    found = {str(course), str(Path.home()), sys.prefix, sys.base_prefix, tempfile.gettempdir()}
    found |= {str(Path(entry).resolve()) for entry in sys.path if entry}
    return tuple(path for path in found if path not in ("/", "/usr", "/usr/local", "/root", "/tmp"))


def reference_run(job: Job) -> dict[str, dict]:
    """What the lesson's own cells show when nothing is answered, and the plain values they make, by index.

    No learner's code runs here. The values are for workers only, and nothing here ever unpickles them.
    """
    lesson = submissions.read_lesson(job.lesson_text, job.lesson, job.lesson_name)
    read = submissions.Read(cells=lesson.cells, lesson=lesson.id)
    grading = Grading(replace(job, reference=None), lesson, submissions.arrange(read, lesson))
    shown: dict[str, list] = {}
    values: dict[str, dict] = {}
    try:
        for position in grading.cells:
            placed = grading.arranged.cells[position]
            for request in grading.requests[position]:
                reply = grading._request(request, grading._cell_time())
                shown[str(placed.index)] = sanitise.outputs(reply.get("outputs"), hidden_paths(), ours=True)
            names = slicing.names_of(placed.cell.source)
            if placed.untouched and (wanted := sorted(names.binds - names.imports)):
                kept = grading._request({"do": "snapshot", "names": wanted}, grading._cell_time())["values"]
                values[str(placed.index)] = {name: text for name, text in kept.items() if is_plain(text)}
    finally:
        grading.close()
    return {"outputs": shown, "values": values}


def is_plain(text: str) -> bool:
    """Whether a pickled value is made of builtin containers and the library's own records, and of nothing else."""
    strings: list[str] = []
    for code, argument, _ in pickletools.genops(base64.b64decode(text)):
        if isinstance(argument, str):
            strings.append(argument)
        if code.name in ("GLOBAL", "INST", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"):
            return False
        if code.name == "STACK_GLOBAL" and not any(s.startswith("memory_budget.") for s in strings[-2:]):
            return False
    return "memory_budget.measure.small" not in "".join(strings)


def digest(*parts: Any) -> str:
    """A hash of bytes and texts, each kept apart from the next."""
    made = hashlib.sha256()
    for part in parts:
        body = part if isinstance(part, bytes) else str(part).encode()
        made.update(len(body).to_bytes(8, "big") + body)
    return made.hexdigest()


@cache
def code_digest() -> str:
    """A hash of all the code a grade depends on, so that a corrected question or library grades everyone again."""
    here = Path(__file__).resolve().parents[1]
    parts: list[Any] = [platform.python_version()]
    for folder in (here, sandbox.package_folder("memory_budget")):
        for path in sorted(folder.rglob("*.py")):
            parts += [path.relative_to(folder).as_posix(), path.read_bytes()]
    return digest(*parts)
