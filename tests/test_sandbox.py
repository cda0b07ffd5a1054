"""What a worker can see and use, and that nothing is left of it."""

from __future__ import annotations

import os
import signal
import time

import pytest

from autograder.grading import sandbox
from autograder.grading.sandbox import Limits, Stopped, Usage, Worker

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(bool(sandbox.why_no_sandbox()), reason=sandbox.why_no_sandbox() or ""),
]


@pytest.fixture(scope="module")
def given():
    with sandbox.material() as made:
        yield made


@pytest.fixture
def worker(given):
    usage = Usage()
    worker = Worker(given, Limits(cell_s=5.0, scratch_bytes=10**7), usage)
    yield worker
    worker.close()
    assert usage.peak_bytes > 10**7
    assert usage.cpu_s > 0


def run(worker: Worker, source: str, timeout_s: float = 10.0) -> str:
    """What a cell printed or showed."""
    reply = worker.ask({"do": "cell", "source": source, "number": 1}, timeout_s)
    parts = [o.get("text") or o.get("data", {}).get("text/plain") or o["evalue"] for o in reply["outputs"]]
    return "".join(parts)


def test_it_has_no_network_but_its_own_loopback(worker):
    said = run(worker, "import socket\nsocket.create_connection(('192.0.2.1', 80), 1)")
    assert "unreachable" in said


def test_the_disk_is_read_only_but_for_the_scratch(worker):
    said = run(
        worker,
        "for place in ('/', '/usr', '/grader', '/library', '/library/memory_budget', '/dev', '/proc/sys/kernel'):\n"
        "    try:\n        open(place + '/x', 'w'); print('WROTE', place)\n    except OSError as e: pass\n"
        "open('x', 'w').write('mine'); open('/tmp/y', 'w').write('mine'); print('done')",
    )
    assert said == "done\n"


def test_its_environment_and_arguments_are_its_own(worker, monkeypatch):
    monkeypatch.setenv("SECRET", "hidden")
    said = run(
        worker,
        "import os\nprint(sorted(os.environ))\nprint(open('/proc/1/environ').read(), open('/proc/1/cmdline').read())",
    )
    assert "SECRET" not in said
    assert os.getcwd() not in said


def test_the_scratch_is_small_and_files_are_limited(worker):
    said = run(worker, "open('big', 'wb').write(b'0' * 2 * 10**7)")
    assert "No space left" in said


def test_memory_is_limited(worker):
    assert "MemoryError" in run(
        worker, "try: x = bytearray(5 * 10**9)\nexcept MemoryError as e: print('MemoryError')"
    )


def test_inputs_are_empty(worker):
    assert "EOF" in run(worker, "input()")


def test_a_reply_longer_than_allowed_ends_it(given):
    worker = Worker(given, Limits(reply_bytes=100_000), Usage())
    try:
        with pytest.raises(Stopped) as stopped:
            run(worker, "from IPython.display import HTML\nHTML('x' * 10**6)")
        assert stopped.value.kind == "output"
    finally:
        worker.close()


def test_rich_outputs_are_what_a_notebook_shows(worker):
    shown = worker.ask(
        {
            "do": "cell",
            "source": "from IPython.display import display, HTML\ndisplay(HTML('<b>1</b>'))\n{'a': [1, 2]}",
            "number": 3,
        },
        10.0,
    )["outputs"]
    assert shown[0]["data"]["text/html"] == "<b>1</b>"
    assert shown[1]["data"]["text/plain"] == "{'a': [1, 2]}"
    assert shown[1]["execution_count"] == 3


def test_an_error_is_shown_from_the_learners_line_on(worker):
    reply = worker.ask({"do": "cell", "source": "def f():\n    return 1 / 0\nf()", "number": 2}, 10.0)
    trace = "\n".join(reply["outputs"][-1]["traceback"])
    assert reply["error"] == "ZeroDivisionError"
    assert "worker.py" not in trace
    assert "In[2]" in trace


def test_nothing_is_left_when_it_is_closed(given):
    worker = Worker(given, Limits(), Usage())
    run(
        worker,
        "import subprocess\nfor _ in range(5): subprocess.Popen(['sleep', '60'], start_new_session=True)",
    )
    pids = sandbox.tree(worker.process.pid)
    assert len(pids) >= 7
    worker.close()
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


def test_without_bubblewrap_the_reason_is_one_line(monkeypatch):
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    assert "apt install bubblewrap" in sandbox.why_no_sandbox.__wrapped__()
    monkeypatch.setattr(sandbox.sys, "platform", "darwin")
    assert "Linux only" in sandbox.why_no_sandbox.__wrapped__()


WRITABLE = """
import os
import signal
import time
found = []
for top, folders, files in os.walk('/proc'):
    if top == '/proc':
        folders[:] = [f for f in folders if not f.isdigit() and f not in ('self', 'thread-self')]
    for name in files:
        try:
            os.close(os.open(os.path.join(top, name), os.O_WRONLY | os.O_NONBLOCK))
            found.append(os.path.join(top, name))
        except OSError:
            pass
print(found[:5])
"""


def test_no_setting_of_the_kernel_can_be_written(worker):
    assert run(worker, WRITABLE) == "[]\n"


def test_dripping_bytes_on_the_channel_does_not_switch_the_limits_off(given):
    """The channel is among the first open files; each byte comes sooner than the grader would grow impatient."""
    worker = Worker(given, Limits(cell_s=1.0, patience=1.0), Usage())
    drip = (
        "import os, signal, time\nfor number in (signal.SIGALRM, signal.SIGPROF): signal.signal(number, signal.SIG_IGN)\n"
        "while True:\n    for n in range(3, 12):\n        try: os.write(n, b' ')\n        except OSError: pass\n"
        "    time.sleep(0.005)"
    )
    started = time.monotonic()
    try:
        with pytest.raises(Stopped) as stopped:
            worker.ask({"do": "cell", "source": drip, "number": 1}, 1.0)
        assert worker._buffer.startswith(b" ")
    finally:
        worker.close()
    assert stopped.value.kind == "time"
    assert time.monotonic() - started < 10


def test_a_worker_that_reads_no_more_does_not_hold_the_grader_up(given):
    worker = Worker(given, Limits(patience=1.0), Usage())
    started = time.monotonic()
    try:
        run(worker, "1")
        os.kill(sandbox.tree(worker.process.pid)[-1], signal.SIGSTOP)
        with pytest.raises(Stopped) as stopped:
            run(worker, "#" * 10**6, 1.0)
    finally:
        worker.close()
    assert stopped.value.kind == "time"
    assert time.monotonic() - started < 10


def test_an_answer_too_large_is_refused_and_costs_no_worker(worker):
    run(worker, "big = [1.5] * 19_000")
    reply = worker.ask({"do": "ask", "request": {"ask": "value", "name": "big"}}, 5.0)
    assert "too large" in reply["refused"]


def test_reloading_modules_is_no_tampering(worker):
    source = "%load_ext autoreload\n%autoreload 2"
    assert worker.ask({"do": "cell", "source": source, "number": 1}, 10.0)["touched"] == []
