"""Runs a learner's cells and answers requests about their names; all of this process belongs to the learner.

It holds nothing worth stealing and nothing it says is believed: a trusted process starts it shut in, sends one JSON
line at a time on its standard input, and takes one JSON line back for each. It may import the standard library, IPython
and `wire`; never the question bank, which is not even on its disk.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import importlib
import importlib.util
import inspect
import io
import json
import linecache
import os
import pickle
import signal
import sys
import types
from typing import Any

TEXT_CAP = 100_000
DATA_CAP = 6_000_000
OUTPUTS_CAP = 100
SNAPSHOT_CAP = 200_000


class OutOfTime(BaseException):
    """The time for this cell or call is used up; no `except Exception` of the learner's swallows it."""


# ---------------------------------------------------------------- outputs


class Outputs:
    """What the running cell has shown so far, capped while it is shown."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.made: list[dict] = []
        self.text_left = TEXT_CAP
        self.data_left = DATA_CAP
        self.dropped = 0
        self.clear_next = False

    def add(self, output: dict) -> None:
        if self.clear_next:
            self.made.clear()
            self.clear_next = False
        if len(self.made) >= OUTPUTS_CAP:
            self.dropped += 1
        else:
            self.made.append(output)

    def write(self, name: str, text: str) -> None:
        kept = text[: self.text_left]
        self.text_left -= len(kept)
        self.dropped += len(text) - len(kept)
        last = self.made[-1] if self.made and not self.clear_next else {}
        if not kept:
            return
        if last.get("output_type") == "stream" and last["name"] == name:
            last["parts"].append(kept)
        else:
            self.add({"output_type": "stream", "name": name, "parts": [kept]})

    def rich(
        self, kind: str, data: dict, metadata: dict | None = None, display_id: str | None = None
    ) -> None:
        data = plain_bundle(data)
        size = sum(len(text) for text in data.values() if isinstance(text, str))
        if size > self.data_left:
            self.dropped += size
            data = {"text/plain": "[an output too large to keep]"}
        else:
            self.data_left -= size
        output = {"output_type": kind, "data": data, "metadata": plain(metadata or {})}
        if display_id:
            output["display_id"] = display_id
        self.add(output)

    def replace(self, display_id: str, data: dict, metadata: dict | None) -> None:
        for output in self.made:
            if output.get("display_id") == display_id:
                output["data"], output["metadata"] = plain_bundle(data), plain(metadata or {})

    def finished(self) -> list[dict]:
        """The outputs as nbformat has them."""
        if self.dropped:
            self.text_left = 200
            self.write("stderr", f"\n[output cut here: {self.dropped:,} more characters were not kept]\n")
        for output in self.made:
            output.pop("display_id", None)
            if "parts" in output:
                output["text"] = "".join(output.pop("parts"))
        return self.made


def plain_bundle(data: Any) -> dict:
    """A mimebundle with text for text and base64 for bytes; what is neither is left out."""
    kept = {}
    for kind, body in dict(data).items() if isinstance(data, dict) else ():
        if type(body) is bytes:
            kept[str(kind)] = base64.b64encode(body).decode("ascii")
        elif type(body) is str:
            kept[str(kind)] = body
    return kept


def plain(value: Any) -> Any:
    """`value` if JSON can hold it, else an empty dict."""
    try:
        return json.loads(json.dumps(value))
    except Exception:
        return {}


class Stream:
    """Standard output or error of the learner's cells."""

    encoding, errors, closed = "utf-8", "replace", False

    def __init__(self, outputs: Outputs, name: str, descriptor: int) -> None:
        self._outputs, self._name, self._descriptor = outputs, name, descriptor

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._outputs.write(self._name, text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._descriptor


# ---------------------------------------------------------------- the notebook's shell


def make_shell(outputs: Outputs) -> Any:
    """An IPython shell, so that `get_ipython`, `display`, magics and inline figures are what learners know."""
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **more):
            display_id = (transient or {}).get("display_id")
            if update:
                outputs.replace(display_id, data, metadata)
            else:
                outputs.rich("display_data", data, metadata, display_id)

        def clear_output(self, wait=False):
            if wait:
                outputs.clear_next = True
            else:
                outputs.made.clear()

    class Shell(InteractiveShell):
        def init_display_pub(self):
            self.display_pub = Publisher(parent=self, shell=self)

        def init_virtualenv(self):
            pass

        def enable_gui(self, gui=None):
            pass

        def ask_exit(self):
            raise SystemExit

    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    shell = Shell.instance(config=config)
    # as in the notebook's kernel: every expression's rich forms, not only its text
    shell.display_formatter.active_types = shell.display_formatter.format_types
    return shell


class Notebook:
    """The learner's names and the means to run one cell after another among them.

    Cells are compiled and run here and not by `shell.run_cell`, so that a learner who replaces a method of the shell,
    or adds a transformer or a hook, changes nothing about which cells run.
    """

    def __init__(self) -> None:
        self.outputs = Outputs()
        sys.stdout = Stream(self.outputs, "stdout", 1)
        sys.stderr = Stream(self.outputs, "stderr", 2)
        self.shell = make_shell(self.outputs)
        self.names = self.shell.user_ns
        self._format = self.shell.display_formatter.format
        self._transform = self.shell.input_transformer_manager.transform_cell
        self._cache = self.shell.compile.cache
        self._trace = self.shell.InteractiveTB.structured_traceback
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self.untouched = touched_parts(self.shell)

    def run(self, source: str, number: int) -> dict:
        """Run one cell; what it showed, and the error it ended with."""
        self.outputs.start()
        self.shell.execution_count = number
        error = self._guarded(source, number)
        self._flush_figures()
        return {
            "outputs": self.outputs.finished(),
            "error": error,
            "touched": sorted({part.split("=")[0] for part in touched_parts(self.shell) - self.untouched}),
        }

    def _guarded(self, source: str, number: int) -> str | None:
        try:
            code = self._transform(source)
            name = self._cache(code, number, source)
            self._execute(code, name, shows=not source.rstrip().endswith(";"), number=number)
        except BaseException as error:
            signal_off()
            self._show_error(error)
            return type(error).__name__
        return None

    def _execute(self, code: str, name: str, shows: bool, number: int) -> None:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(code, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        last = tree.body.pop() if shows and tree.body and isinstance(tree.body[-1], ast.Expr) else None
        self._step(compile(tree, name, "exec", flags, dont_inherit=True))
        if last is not None:
            value = self._step(compile(ast.Expression(last.value), name, "eval", flags, dont_inherit=True))
            if value is not None:
                self._show_value(value, number)

    def _step(self, code: Any) -> Any:
        value = eval(code, self.names)
        return self._loop.run_until_complete(value) if code.co_flags & inspect.CO_COROUTINE else value

    def _show_value(self, value: Any, number: int) -> None:
        data, metadata = self._format(value)
        self.names["_"] = value
        if data:
            self.outputs.rich("execute_result", data, metadata)
            self.outputs.made[-1]["execution_count"] = number

    def _show_error(self, error: BaseException) -> None:
        kind = type(error).__name__
        try:
            says = str(error)
        except BaseException:
            says = ""
        try:
            render = getattr(error, "_render_traceback_", None)
            lines = render() if render else self._trace_of(error)
        except BaseException:
            lines = [f"{kind}: {says}"]
        lines = [str(line)[:TEXT_CAP] for line in lines][:100]
        self.outputs.add({"output_type": "error", "ename": kind, "evalue": says[:2000], "traceback": lines})

    def _trace_of(self, error: BaseException) -> list[str]:
        """The traceback from the learner's cell on, without our own frames."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        if trace is None and isinstance(error, SyntaxError):
            return self.shell.SyntaxTB.structured_traceback(type(error), error, [])
        if trace is None:
            return [f"{type(error).__name__}: {error}"]
        return self._trace(type(error), error, trace, tb_offset=0)

    def _flush_figures(self) -> None:
        """Show what pyplot still holds, as the notebook does after each cell."""
        backend = sys.modules.get("matplotlib_inline.backend_inline")
        if backend is None or "matplotlib.pyplot" not in sys.modules:
            return
        try:
            backend.flush_figures()
        except BaseException as error:
            self._show_error(error)


def touched_parts(shell: Any) -> set[str]:
    """Names of the parts of Python and IPython that are no longer what they were; a hint, not a proof."""
    import builtins
    import math

    found = {f"builtins.{name}={id(value)}" for name, value in vars(builtins).items() if name != "_"}
    found.add(f"math.isclose={id(math.isclose)}")
    for part in type(shell).__mro__:
        if part.__name__ in ("InteractiveShell", "Shell"):
            found |= {
                f"{part.__name__}.{name}={id(value)}" for name, value in vars(part).items() if callable(value)
            }
    found |= {f"shell.ast_transformers={len(shell.ast_transformers)}"}
    found |= {f"shell.custom_exceptions={len(shell.custom_exceptions)}"}
    found |= {
        f"shell.events.{name}={sum(not _is_autoreload(call) for call in calls)}"
        for name, calls in shell.events.callbacks.items()
        if "pre" in name
    }
    return found


def _is_autoreload(call: Any) -> bool:
    """Whether a hook is that of `%load_ext autoreload`, which many notebooks begin with."""
    return getattr(call, "__module__", "") == "IPython.extensions.autoreload"


# ---------------------------------------------------------------- values that the lesson's own cells made


def snapshot(names: dict, wanted: list[str]) -> dict[str, str]:
    """Values as text, for other workers of the same class; what cannot be kept is left out."""
    kept = {}
    for name in wanted:
        try:
            body = pickle.dumps(names[name], protocol=4)
        except Exception:
            continue
        if len(body) <= SNAPSHOT_CAP:
            kept[name] = base64.b64encode(body).decode("ascii")
    return kept


def restore(names: dict, values: dict[str, str]) -> dict:
    """Bind names to values that the lesson's own cells made in another worker."""
    for name, text in values.items():
        names[name] = _Light(io.BytesIO(base64.b64decode(text))).load()
    return {}


class _Light(pickle.Unpickler):
    """Finds a class in its own module without running the package around it, which may import torch."""

    def find_class(self, module: str, name: str) -> Any:
        made = []
        parts = module.split(".")
        for end in range(1, len(parts)):
            package = ".".join(parts[:end])
            if package not in sys.modules:
                spec = importlib.util.find_spec(package)
                stub = types.ModuleType(package)
                stub.__path__ = list(spec.submodule_search_locations)
                sys.modules[package] = stub
                made.append(package)
        try:
            found = importlib.import_module(module)
        finally:
            for package in made:
                del sys.modules[package]
        return getattr(found, name)


# ---------------------------------------------------------------- limits and the channel


def set_limits(limits: dict) -> None:
    """Limit this process and its children, where the system has such limits, before any code of the learner's runs."""
    try:
        import resource
    except ImportError:
        return
    wanted = {
        "RLIMIT_AS": limits.get("memory_bytes"),
        "RLIMIT_FSIZE": limits.get("file_bytes"),
        "RLIMIT_NOFILE": 256,
        "RLIMIT_CORE": 0,
    }
    for name, most in wanted.items():
        kind = getattr(resource, name, None)
        if kind is None or most is None:
            continue
        try:
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):
            pass


def signal_on(seconds: float, wall_s: float) -> None:
    """Raise OutOfTime here after `seconds` of computing or `wall_s` of waiting; who ignores it is killed from outside."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, _out_of_time)
        signal.signal(signal.SIGALRM, _out_of_time)
        signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.01))
        signal.setitimer(signal.ITIMER_REAL, max(wall_s, 0.01))


def signal_off() -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _out_of_time(number: int, frame: Any) -> None:
    raise OutOfTime("the time allowed is used up")


def open_channel() -> tuple[Any, Any]:
    """Take standard input and output for the channel; the learner's cells get an empty input and the error stream."""
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8", newline="\n")
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdin = os.fdopen(0, "r", closefd=False)
    return requests, replies


def answer(notebook: Notebook, request: dict, reply_to: Any) -> dict:
    """Do what one request asks."""
    signal_on(request["timeout_s"], request["wall_s"])
    try:
        if request["do"] == "cell":
            return notebook.run(request["source"], request["number"])
        if request["do"] == "snapshot":
            return {"values": snapshot(notebook.names, request["names"])}
        if request["do"] == "restore":
            return restore(notebook.names, request["values"])
        return reply_to(request["request"], notebook.names)
    except OutOfTime:
        return {"timeout": True}
    finally:
        signal_off()


def main() -> None:
    """Answer requests until the channel closes."""
    requests, replies = open_channel()
    start = json.loads(requests.readline())
    sys.path[:] = start["path"] + [entry for entry in sys.path if entry] + [""]
    set_limits(start["limits"])
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from wire import reply_to

    del sys.path[0]

    notebook = Notebook()
    most = start["limits"]["answer_bytes"]
    dumps, loads = json.dumps, json.loads
    while line := requests.readline():
        request = loads(line)
        reply = answer(notebook, request, reply_to)
        body = dumps({"nonce": request["nonce"], "reply": reply}).encode() + b"\n"
        if request["do"] == "ask" and len(body) > most:
            refused = {"refused": "too large to be an answer"}
            body = dumps({"nonce": request["nonce"], "reply": refused}).encode() + b"\n"
        while body:
            body = body[replies.write(body) :]
        linecache.checkcache(os.devnull)


if __name__ == "__main__":
    main()
