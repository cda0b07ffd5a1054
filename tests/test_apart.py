"""Work in a process of its own: it comes back, or there is one line that says why, and nothing is left of it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import grading_course as tiny
import psutil
import pytest
from grading_course import LESSON, hand_in, perfect

from autograder.grading import apart, sandbox
from autograder.grading import grade as grading

ROOT = Path(__file__).resolve().parents[1]
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux' process table")
shut_in = pytest.mark.skipif(bool(sandbox.why_no_sandbox()), reason=sandbox.why_no_sandbox() or "")


def add(a: int, b: int) -> dict:
    print("this does not reach the channel")
    os.write(1, b"nor does this")
    return {"sum": a + b, "folder": tempfile.gettempdir()}


def turn_forever() -> None:
    while True:
        pass


def wait_long() -> None:
    time.sleep(600)


def take_memory() -> int:
    return len(bytearray(8 * 2**30))


def crash() -> None:
    ctypes.string_at(0)


def raise_with_lines() -> None:
    raise ValueError("one\ntwo")


def leave_a_process(path: str) -> None:
    """Start a process that leaves its session and loses its parent."""
    script = f"import os, time; os.setsid(); os.fork() and os._exit(0); open({path!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    subprocess.run([sys.executable, "-c", script], check=True)
    while not Path(path).exists() or not Path(path).read_text():
        time.sleep(0.01)


def test_work_comes_back_as_json_whatever_it_prints():
    first, second = apart.call(add, 1, 2), apart.call(add, 3, 4)
    assert (first["sum"], second["sum"]) == (3, 7)
    assert first["folder"] == second["folder"] != tempfile.gettempdir()  # one process for both


@pytest.mark.parametrize(
    ("work", "share", "says"),
    [
        (turn_forever, apart.Share(cpu_s=0.5), "more than 0 s of computing"),
        (wait_long, apart.Share(wall_s=0.5), "more than 0 s"),
        (crash, apart.Share(), "SIG|exit"),
    ],
)
def test_work_that_takes_more_than_its_share_is_ended_and_the_next_is_done(work, share, says):
    with pytest.raises(apart.Ended, match=says):
        apart.call(work, share=share)
    assert apart.call(add, 1, 1)["sum"] == 2


@linux
def test_memory_beyond_the_share_is_refused():
    with pytest.raises(apart.Failed, match="memory"):
        apart.call(take_memory, share=apart.Share(memory_bytes=2 * 2**30))


def test_an_exception_is_one_line():
    with pytest.raises(apart.Failed, match="ValueError: one two"):
        apart.call(raise_with_lines)


@linux
def test_a_process_that_left_its_parent_is_ended_with_the_work(tmp_path):
    apart.call(leave_a_process, str(tmp_path / "pid"))
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def hold(size: int) -> int:
    HELD.append(bytearray(size))
    return os.getpid()


HELD: list = []


def test_a_process_that_was_left_large_does_no_other_work():
    first = apart.call(hold, 10)
    assert apart.call(hold, 500 * 10**6) == first
    assert apart.call(hold, 10) != first


def test_a_process_that_ends_while_it_waits_is_replaced():
    os.kill(apart.call(hold, 10), signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    time.sleep(0.2)
    assert apart.call(add, 1, 1)["sum"] == 2


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_an_interrupted_call_hands_its_reply_to_nobody_else():
    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            apart.call(time.sleep, 2)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert apart.call(add, 2, 3)["sum"] == 5


def test_a_pool_that_is_left_by_an_exception_ends_what_runs_and_begins_nothing(tmp_path):
    began = time.monotonic()
    with pytest.raises(RuntimeError), apart.pool(2) as start:  # noqa: PT012
        futures = [start(time.sleep, 60) for _ in range(8)]
        time.sleep(0.5)
        raise RuntimeError
    assert time.monotonic() - began < 15
    assert all(future.done() for future in futures)


BANK_THAT_HANGS = """
class Treacherous(Number):
    def judge(self, replies, requests):
        import autograder.wire as wire, ctypes
        value = wire.decode(replies[0]["ok"]) if "ok" in replies[0] else None
        while value == 13:
            pass
        if value == 15:
            ctypes.string_at(0)
        if value == 17:
            bytearray(2**40)
        return super().judge(replies, requests)
"""


@pytest.mark.sandbox
@shut_in
def test_judging_that_hangs_or_crashes_costs_that_submission_only(tmp_path):
    here = tiny.make_course(tmp_path / "course")
    bank = here.questions / "lesson_90.py"
    text = bank.read_text().replace("QUESTIONS = [", BANK_THAT_HANGS + "\n\nQUESTIONS = [")
    bank.write_text(
        text.replace('Number(\n        name="tiny_total_gb"', 'Treacherous(\n        name="tiny_total_gb"')
    )
    for value in (13, 15, 17, 48):
        hand_in(here, f"s{value}", perfect(here, tiny_total_gb=f"tiny_total_gb = {value}"))
    said: list[str] = []
    options = grading.Options(jobs=2, quiet=True, limits={"judge_s": 3.0})
    assert grading.grade(here, LESSON, options, said.append) == 0
    rows = tiny.grades(here)
    assert {name: row["score"] for name, row in rows.items()} == {
        "s13": "0",
        "s15": "0",
        "s17": "4",
        "s48": "6",
    }
    assert (
        "the grader had to stop on it: it took the grader more than 3 s of computing" in rows["s13"]["note"]
    )
    assert "the grader had to stop on it" in rows["s15"]["note"]
    assert "2 not graded" in said[0]


@pytest.mark.sandbox
@shut_in
@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_however_a_grading_is_stopped_it_leaves_no_process_and_no_temporary_file(tmp_path, number):
    here = tiny.make_course(tmp_path / "course")
    for student in ("a", "b"):
        hand_in(
            here, student, perfect(here, tiny_total_gb="import time; time.sleep(300)\ntiny_total_gb = 48")
        )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "MEMORY_BUDGET_COURSE": str(here.root), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "autograder", "grade", LESSON, "--jobs", "2"],
        env={**environment, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 120
    below: list[psutil.Process] = []
    while sum(p.name() == "bwrap" for p in below) < 2 and time.monotonic() < until:
        time.sleep(0.2)
        below = psutil.Process(process.pid).children(recursive=True)
        if list((here.root / "autograder" / "results").glob(f"{LESSON}/reference-*")) == []:
            below = []
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert "run the same command to go on" in said
    gone, alive = psutil.wait_procs(below, timeout=20)
    assert (len(gone), alive) == (len(below), [])
    until = time.monotonic() + 20
    while list(scratch.iterdir()) and time.monotonic() < until:
        time.sleep(0.1)
    assert list(scratch.iterdir()) == []


@pytest.mark.sandbox
@shut_in
def test_a_class_larger_than_what_may_be_under_way_is_graded_bit_by_bit(tmp_path, monkeypatch):
    here = tiny.make_course(tmp_path / "course")
    for student in ("a", "b", "c"):
        hand_in(here, student, perfect(here))
    held = []
    body = grading.inbox.Submitted.body
    monkeypatch.setattr(grading.inbox.Submitted, "body", lambda one: held.append(one.student) or body(one))
    settled = grading.Run._settled

    def note(run, one, future):
        held.append(f"{one.student} entered")
        return settled(run, one, future)

    monkeypatch.setattr(grading.Run, "_settled", note)
    monkeypatch.setattr(grading, "UNDER_WAY", 1)
    assert grading.grade(here, LESSON, grading.Options(jobs=2, quiet=True), lambda text: None) == 0
    assert held == ["a", "a entered", "b", "b entered", "c", "c entered"]
    assert {row["score"] for row in tiny.grades(here).values()} == {"6"}


@pytest.mark.sandbox
@shut_in
def test_a_file_that_changes_under_way_gets_a_line_and_its_row(tmp_path, monkeypatch):
    here = tiny.make_course(tmp_path / "course")
    for student in ("a", "b"):
        hand_in(here, student, perfect(here))
    read = grading.inbox.Submitted.body

    def body(one):
        if one.student == "a":
            hand_in(here, "a", json.dumps(perfect(here, tiny_total_gb="tiny_total_gb = 1")))
        return read(one)

    monkeypatch.setattr(grading.inbox.Submitted, "body", body)
    options = grading.Options(jobs=2, quiet=True)
    assert grading.grade(here, LESSON, options, lambda text: None) == 1
    rows = tiny.grades(here)
    assert (rows["a"]["score"], rows["b"]["score"]) == ("0", "6")
    assert "was changed while the class was graded" in rows["a"]["note"]
    monkeypatch.undo()
    assert grading.grade(here, LESSON, options, lambda text: None) == 0
    assert tiny.grades(here)["a"]["score"] == "4"
