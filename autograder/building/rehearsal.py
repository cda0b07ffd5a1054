"""What happens when a notebook is run from top to end, and what its answers are then worth.

Only for notebooks of the course's own authors: nothing here is sandboxed. Submissions go through the grader.
"""

from __future__ import annotations

import copy
import json
import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat.notebooknode import NotebookNode

CELL_TIMEOUT_S = 300
_ASKED = "MEMORY-BUDGET-REPLIES "


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """A notebook that was run: with its outputs, where it stopped, and the verdict on each question."""

    notebook: NotebookNode
    stopped_at: str = ""
    error: str = ""
    verdicts: dict


def rehearse(
    notebook: NotebookNode,
    folder: Path,
    bank: dict,
    *,
    questions_folder: Path,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Rehearsal:
    """Run a copy of `notebook` in `folder` with a kernel of its own, then judge every question of `bank`."""
    notebook = copy.deepcopy(notebook)
    count = len(notebook.cells)
    with tempfile.TemporaryDirectory() as home:
        client = _client(notebook, folder)
        with client.setup_kernel(env=_environment(home, questions_folder), cleanup_kc=True):
            for number, cell in enumerate(notebook.cells):
                progress(number, count)
                stopped = _run(client, cell, number)
                if stopped:
                    return Rehearsal(notebook=notebook, stopped_at=cell.id, error=stopped, verdicts={})
            progress(count, count)
            verdicts = {name: _judge(client, question) for name, question in bank.items()}
    return Rehearsal(notebook=notebook, verdicts=verdicts)


def _client(notebook: NotebookNode, folder: Path) -> NotebookClient:
    # no kernel_dirs: the kernel is this very Python, whatever "python3" means in the user's own folders
    manager = AsyncKernelManager(
        kernel_name="python3",
        kernel_spec_manager=KernelSpecManager(kernel_dirs=[], ensure_native_kernel=True),
    )
    return NotebookClient(
        notebook,
        km=manager,
        timeout=CELL_TIMEOUT_S,
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
        allow_errors=False,
        # a warning about local sockets on each start says nothing to an author
        extra_arguments=["--IPKernelApp.log_level=40"],
    )


def _environment(home: str, questions_folder: Path) -> dict[str, str]:
    outer = ("NBGRADER_EXECUTION", "PYTHONSTARTUP", "PYTHONWARNINGS")
    kept = {name: value for name, value in os.environ.items() if name not in outer}
    package = str(Path(__file__).parents[2])
    return kept | {
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")])),
        "PYTHONHASHSEED": "0",
        "IPYTHONDIR": home,
        "MEMORY_BUDGET_PROGRESS": os.path.join(home, "progress.json"),
        "MEMORY_BUDGET_QUESTIONS": str(questions_folder),
    }


def _run(client: NotebookClient, cell: NotebookNode, number: int) -> str:
    """Run one cell; "" when it went well, else one line that says how it failed."""
    if cell.cell_type != "code" or not cell.source.strip():
        return ""
    try:
        client.execute_cell(cell, number)
    except CellExecutionError as error:
        return f"raises {error.ename}: {_one_line(error.evalue)}"
    except CellTimeoutError:
        return f"takes more than {CELL_TIMEOUT_S} seconds"
    except DeadKernelError:
        return "ends the Python it runs in"
    return ""


def _judge(client: NotebookClient, question):
    requests = question.requests(random.Random(0))
    return question.judge(_replies(client, [request.to_json() for request in requests]), requests)


def _replies(client: NotebookClient, requests: list[dict]) -> list[dict]:
    """Ask the kernel, in a cell that is no part of the notebook."""
    source = (
        "def _memory_budget_replies():\n"
        "    import json\n"
        "    from autograder import stopwatch, wire\n"
        "    replies = []\n"
        f"    for request in json.loads({json.dumps(requests)!r}):\n"
        "        ask = lambda: wire.reply_to(request, globals())\n"
        "        finished, reply = stopwatch.run(ask, request.get('timeout_s', 5.0))\n"
        "        replies.append(reply if finished else {'timeout': True})\n"
        f"    print({_ASKED!r} + json.dumps(replies))\n"
        "_memory_budget_replies()\n"
        "del _memory_budget_replies"
    )
    cell = nbformat.v4.new_code_cell(source)
    client.nb.cells.append(cell)
    try:
        client.execute_cell(cell, len(client.nb.cells) - 1, store_history=False)
    except (CellExecutionError, CellTimeoutError, DeadKernelError):
        return [{"died": True} for _ in requests]
    finally:
        client.nb.cells.pop()
    printed = "".join(output.get("text", "") for output in cell.outputs)
    return json.loads(printed.split(_ASKED, 1)[1].split("\n", 1)[0])


def _one_line(text: object) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= 200 else words[:199] + "…"
