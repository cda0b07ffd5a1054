"""`check("name")`: is this answer right, and if not, which slip does it look like?"""

from __future__ import annotations

import difflib
import os
import random
import sys
import textwrap
from typing import Any

from autograder import card, progress, questions, stopwatch, stumbles, verdict, wire
from autograder.kinds import Question, ask
from autograder.verdict import Verdict

#: seconds enough for any call once a slow import is behind: torch itself, and what its optimizers load
WARM_S = (("torch._dynamo", 8.0), ("torch", 15.0))


class CheckFailed(Exception):
    """A check that nbgrader must count as failed; shown as its message alone, without a stack trace.

    Lines are short because `nbgrader validate` cuts long ones.
    """

    def __init__(self, message: str) -> None:
        lines = (textwrap.fill(line, 76, subsequent_indent="    ") for line in message.splitlines())
        super().__init__("\n".join(lines))

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def check(name: str) -> None:
    """Show a card for the answer that the notebook holds under `name`.

    The card is right, partly right, not yet (with the slip it looks like, as a question) or not answered yet.
    While nbgrader runs the notebook (NBGRADER_EXECUTION is set), whatever is not right raises CheckFailed
    instead.
    """
    found = _find(name)
    if isinstance(found, str):
        _say("No such question", found)
        return
    lesson, question = found
    stumble = stumbles.message_for(name)
    if stumble:
        decided = verdict.not_yet(stumble, slip="cell failed")
    else:
        decided = decide(question, _namespace(sys._getframe(1)))
    _show(question, decided)
    if not under_nbgrader():
        progress.record(lesson, question.name, _counts_as_right(question, decided))


def decide(question: Question, namespace: dict[str, Any], rng: random.Random | None = None) -> Verdict:
    """Return the verdict on the answer in `namespace`, on fresh inputs, stopping code that runs too long."""
    replies: list[dict] = []

    def reply(request: dict) -> dict:
        late = any(given.get("timeout") for given in replies)
        replies.append({"timeout": True} if late else _reply(request, namespace))
        return replies[-1]

    return ask(question, reply, rng or random.Random())


def _reply(request: dict, namespace: dict[str, Any]) -> dict:
    if request["ask"] == "value":
        return wire.reply_to(request, namespace)
    output = sys.stdout
    try:
        finished, reply = stopwatch.run(lambda: _guarded(request, namespace), _seconds(request))
    except KeyboardInterrupt:
        return {"refused": "it was interrupted before it had finished"}
    finally:
        # code that was left behind may still hold the notebook's output
        sys.stdout = output
    return reply if finished else {"timeout": True}


def _seconds(request: dict) -> float:
    """Return how long a call may take here: time for a first import is not needed once it has happened."""
    allowed = request.get("timeout_s", 5.0)
    return min([allowed, *(seconds for module, seconds in WARM_S if module in sys.modules)])


def _guarded(request: dict, namespace: dict[str, Any]) -> dict:
    """Answer a request; whatever a learner's function raises, KeyboardInterrupt too, is its error."""
    try:
        return wire.reply_to(request, namespace)
    except stopwatch.OutOfTime:
        raise
    except BaseException as error:
        return {"error": wire.one_line(f"{type(error).__name__}: {error}").removesuffix(":")}


def under_nbgrader() -> bool:
    """Is the notebook run by `nbgrader validate` or autograde?"""
    return bool(os.environ.get("NBGRADER_EXECUTION"))


def _counts_as_right(question: Question, decided: Verdict) -> bool:
    """A text counts as done, for the learner's own progress, when every key idea was found."""
    if decided.status == verdict.BY_HAND:
        return len(decided.details) == len(getattr(question, "ideas", ()))
    return decided.status == verdict.RIGHT


def _find(name: Any) -> tuple[str, Question] | str:
    """Return the lesson and question, or one line that says what is wrong with the name."""
    if type(name) is not str:
        return 'Write the name of the question in quotes, as in `check("name")`.'
    try:
        return questions.find(name)
    except KeyError:
        return _no_such(name)


def _no_such(name: str) -> str:
    near = difflib.get_close_matches(name, questions.names(), n=3, cutoff=0.6)
    guess = (
        f" Did you mean {' or '.join(f'`{item}`' for item in near)}?"
        if near
        else " Compare it with the lesson."
    )
    return f"There is no question `{wire.one_line(name, 60)}`.{guess}"


def _namespace(frame: Any) -> dict[str, Any]:
    """Return the notebook's names: IPython's where it runs, else those of the caller."""
    shell = _shell()
    return shell.user_ns if shell is not None else {**frame.f_globals, **frame.f_locals}


def _shell() -> Any:
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return get_ipython()


def _show(question: Question, decided: Verdict) -> None:
    if under_nbgrader() and decided.status not in (verdict.RIGHT, verdict.BY_HAND):
        raise CheckFailed(card.card_text(question, decided)) from None
    _display(card.card_html(question, decided), card.card_text(question, decided))


def _say(word: str, message: str) -> None:
    if under_nbgrader():
        raise CheckFailed(message) from None
    _display(card.line_html(word, message), f"{word}: {message}")


def _display(as_html: str, as_text: str) -> None:
    if _shell() is None:
        print(as_text)
        return
    from IPython.display import display

    display({"text/html": as_html, "text/plain": as_text}, raw=True)


def _name_blank_texts(result: Any) -> None:
    """Say of a text left blank that it is not answered yet, in its own cell, while nbgrader validates.

    nbgrader looks at a text's cell, not at its check, and of one that is as it was given out and says nothing
    it would tell that it "passed some but not all of the tests".
    """
    for name in stumbles.bound_names(result.info.raw_cell or ""):
        found = _find(name) if name in questions.names() else ""
        if isinstance(found, tuple) and found[1].manual:
            decided = decide(found[1], _shell().user_ns)
            if decided.status == verdict.UNANSWERED:
                print(card.card_text(found[1], decided), file=sys.stderr)


stumbles.watch(_shell())
if _shell() is not None and os.environ.get("NBGRADER_EXECUTION") == "validate":
    _shell().events.register("post_run_cell", _name_blank_texts)
