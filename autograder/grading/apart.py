"""Does one piece of work in a process of its own, which may be ended without harm to anything else.

What reads, judges and cleans learners' text is our own code, but the text may be anybody's: a file that makes it
slow, greedy or crash costs its own submission and nothing more. Work is an importable function with arguments that can
be pickled; what it returns comes back as JSON. Such processes are kept and used again, unless the last work left them large.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import queue
import secrets
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil

_START = "import sys; sys.path[:] = sys.argv[1:]; from autograder.grading import apart; apart.serve()"
_LENGTH = struct.Struct("!Q")
_LONGEST = 512 * 10**6
_LOOKS_EVERY_S = 0.2
#: a process that holds more than this after its work does no other, so that nothing of one file meets the next
_HOLDS_BYTES = 400 * 10**6
#: from Linux' prctl.h: processes that lose their parent become this one's children, so that they are found
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one piece of work may use itself, its children not counted: seconds of computing, of waiting, and memory."""

    cpu_s: float = 120.0
    wall_s: float = 3_600.0
    memory_bytes: int = 3 * 2**30


class Ended(Exception):
    """The process had to be ended, or ended by itself, before its work was done; the message says why.

    `by_share` says that the work took more than its share, and would do so again.
    """

    def __init__(self, why: str, *, by_share: bool = False) -> None:
        super().__init__(why)
        self.by_share = by_share


class Failed(Exception):
    """The work raised an exception, whose type and text are the message."""


# ---------------------------------------------------------------- the side that calls


def call(work: Callable, *given: Any, share: Share | None = None, mark: str = "") -> Any:
    """`work(*given)` in a process of its own; Ended when it used more than its share, Failed when it raised.

    `mark` names what it is for, so that `end` can end it.
    """
    place = _take(mark)
    try:
        return place.do(work, given, share or Share())
    finally:
        _give(place)


_idle: list[_Place] = []
_busy: set[_Place] = set()
_stopping: set[str] = set()
_lock = threading.Lock()


def _take(mark: str) -> _Place:
    """A process that waits for work, or a new one; none while what it is for is being stopped."""
    with _lock:
        place = _idle.pop() if _idle else None
    if place is not None and not place.waits():
        place.close()
        place = None
    place = place or _Place()
    place.mark = mark
    with _lock:
        stopped = mark in _stopping
        if not stopped:
            _busy.add(place)
    if stopped:
        place.close()
        raise Ended("the grading was stopped")
    return place


def _give(place: _Place) -> None:
    with _lock:
        _busy.discard(place)
        if place.lives:
            _idle.append(place)
    if not place.lives:
        place.close()


def end(mark: str) -> None:
    """End what is done under a mark, and let nothing begin under it any more."""
    with _lock:
        _stopping.add(mark)
        busy = [place for place in _busy if place.mark == mark]
    for place in busy:  # who called closes it
        place.end()


@atexit.register
def _end_all() -> None:
    with _lock:
        idle, busy = list(_idle), list(_busy)
        _idle.clear()
    for place in busy:
        place.end()
    for place in idle:
        place.close()


@contextmanager
def pool(jobs: int) -> Iterator[Callable]:
    """A function that starts `call` in a thread and returns its future, `jobs` at a time: start(work, *given, share=, then=).

    `then` is called with what came back, and its result is the future's. When the block is left by an exception, nothing
    more begins and what is under way is ended at once.
    """
    mark = secrets.token_hex(8)
    threads = ThreadPoolExecutor(max_workers=jobs)

    def start(work: Callable, *given: Any, share: Share | None = None, then: Callable | None = None):
        def run():
            made = call(work, *given, share=share, mark=mark)
            return then(made) if then else made

        return threads.submit(run)

    try:
        yield start
    except BaseException:
        end(mark)
        raise
    finally:
        threads.shutdown(wait=True, cancel_futures=True)


class _Place:
    """One process, and the folder for temporary files that is all its own."""

    def __init__(self) -> None:
        self.scratch = tempfile.mkdtemp(prefix="memory-budget-")
        there = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self.scratch)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **there},
        )
        self.about = psutil.Process(self.process.pid)
        self.lives = True
        self.mark = ""
        self.why = ""

    def waits(self) -> bool:
        """Whether it is there for the next piece of work."""
        return self.lives and self.process.poll() is None

    def do(self, work: Callable, given: tuple, share: Share) -> Any:
        self.lives = False  # until its reply is there whole: no other work may get it
        done = threading.Event()
        watch = threading.Thread(target=self._watch, args=(share, done), daemon=True)
        watch.start()
        try:
            _write(self.process.stdin, pickle.dumps((work, given, share.memory_bytes)))
            body = _read(self.process.stdout)
        except (OSError, ValueError):
            body = None
        finally:
            done.set()
            watch.join()
        if body is None:
            raise Ended(self.why or self._how_it_ended(), by_share=bool(self.why))
        reply = json.loads(body)
        self.lives = not reply["last"]
        if "raised" in reply:
            raise Failed(reply["raised"])
        return reply["made"]

    def _watch(self, share: Share, done: threading.Event) -> None:
        """End the process when it uses more than its share."""
        until, cpu_until = time.monotonic() + share.wall_s, None
        while not done.wait(_LOOKS_EVERY_S):
            try:
                with self.about.oneshot():
                    times, held = self.about.cpu_times(), self.about.memory_info().rss
            except psutil.Error:
                return
            used = times.user + times.system
            if cpu_until is None:
                cpu_until = used + share.cpu_s
            if used > cpu_until:
                self.why = f"it took the grader more than {share.cpu_s:.0f} s of computing"
            elif time.monotonic() > until:
                self.why = f"it took the grader more than {share.wall_s:.0f} s"
            elif held > share.memory_bytes:
                self.why = f"it took the grader more than {share.memory_bytes / 2**30:.1f} GiB of memory"
            else:
                continue
            self._kill()
            return

    def _how_it_ended(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5.0)
        code = self.process.returncode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"the grader's own process was ended by {signal.Signals(-code).name}"
        return f"the grader's own process ended (exit {code})"

    def _kill(self) -> None:
        """End the process and all below it; what runs in the sandbox dies with its parent, what runs outside is sought."""
        below = []
        with suppress(psutil.Error):
            below = self.about.children(recursive=True)
        self.process.kill()
        for child in below:
            with suppress(psutil.Error):
                child.kill()

    def end(self) -> None:
        self.lives = False
        self._kill()
        self.process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def close(self) -> None:
        self.end()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                pipe.close()


def _write(pipe: Any, body: bytes) -> None:
    pipe.write(_LENGTH.pack(len(body)) + body)
    pipe.flush()


def _read(pipe: Any) -> bytes | None:
    """One message, None at the end of the channel."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    if size > _LONGEST:
        return None
    body = pipe.read(size)
    return body if len(body) == size else None


# ---------------------------------------------------------------- the side that works


def serve() -> None:
    """Do what comes on standard input, one piece of work after another, until it closes."""
    jobs = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # whatever prints does not write into the channel
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who called, who ends this process
    _adopt_orphans()
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs, waiting), daemon=True).start()
    while True:
        reply = _done(waiting.get())
        _end_children()
        _bury()
        with suppress(OSError):  # who called is gone: the listener ends this process
            _write(replies, reply)


def _listen(jobs: Any, waiting: queue.SimpleQueue) -> None:
    """Pass work on; when the caller is gone, however it went, end what was started and leave no file."""
    while (body := _read(jobs)) is not None:
        waiting.put(body)
    _end_children()
    shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)
    os._exit(0)


def _done(body: bytes) -> bytes:
    try:
        work, given, memory_bytes = pickle.loads(body)
        _limit_memory(memory_bytes)
        made = json.dumps(work(*given))
        last = psutil.Process().memory_info().rss > _HOLDS_BYTES
        return f'{{"last": {json.dumps(last)}, "made": {made}}}'.encode()
    except MemoryError:
        says = "MemoryError: it needs more memory than the grader takes for it"
    except Exception as error:
        says = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return json.dumps({"last": True, "raised": says}).encode()


def _limit_memory(most: int) -> None:
    """Let an allocation beyond `most` fail; workers, which inherit this, set their own limit."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(
            resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
        )


def _adopt_orphans() -> None:
    """On Linux, become the parent of processes that a worker outside the sandbox leaves behind."""
    if sys.platform.startswith("linux"):
        import ctypes

        with suppress(OSError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_children() -> None:
    for _ in range(50):
        left = [child for child in psutil.Process().children(recursive=True) if runs(child)]
        if not left:
            return
        for child in left:
            with suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(left, timeout=1.0)


def _bury() -> None:
    """Take leave of adopted processes that have ended."""
    with suppress(ChildProcessError, AttributeError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def runs(process: psutil.Process) -> bool:
    """Whether a process is there and is no mere entry of one that has ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
