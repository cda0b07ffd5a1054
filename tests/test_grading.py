"""Three learners from what they handed in to grades.csv, the gradebook and the page they may see."""

from __future__ import annotations

import json
import re

import grading_course as tiny
import nbformat
import pytest
from grading_course import LESSON, hand_in, perfect
from traitlets.config import PyFileConfigLoader

from autograder.__main__ import main
from autograder.grading import export, feedback, replay, sandbox
from autograder.grading import grade as grading
from autograder.grading.gradebook import FEEDBACK_STEPS, Book, Row

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(bool(sandbox.why_no_sandbox()), reason=sandbox.why_no_sandbox() or ""),
]
SLIPS = {
    "tiny_weights_gb": "tiny_weights_gb = 28",
    "tiny_choice": 'tiny_choice = "b"',
    "tiny_double": "def tiny_double(n):\n    return n * n",
    "tiny_total_gb": "tiny_total_gb = 6",
    "tiny_why": 'tiny_why = "No idea <script>alert(1)</script>"',
}


def run(here, **options) -> list[str]:
    """Grade the tiny lesson; what was said."""
    said: list[str] = []
    code = grading.grade(here, LESSON, grading.Options(**{"jobs": 2, "quiet": True, **options}), said.append)
    assert code == 0, said
    return said


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    here = tiny.make_course(tmp_path_factory.mktemp("graded") / "a course")
    hand_in(here, "perfect", perfect(here))
    hand_in(here, "blank", tiny.lesson_notebook(here))
    hand_in(here, "slips", tiny.answered(here, SLIPS))
    run(here, seed=7)
    feedback.feedback(here, LESSON, say=lambda text: None)
    return here


def page(here, student: str) -> str:
    path = here.root / "autograder" / "feedback" / student / LESSON / "tiny-lesson.html"
    return path.read_text(encoding="utf-8")


def test_grades_csv_has_one_row_a_student(here):
    text = (here.root / "autograder" / "grades.csv").read_text(encoding="utf-8")
    assert text.splitlines()[0] == "student,lesson,score,max_score,needs_manual_grade,note"
    rows = tiny.grades(here)
    assert {name: (row["score"], row["max_score"]) for name, row in rows.items()} == {
        "perfect": ("6", "8"),
        "blank": ("0", "8"),
        "slips": ("1", "8"),
    }
    assert {name: row["needs_manual_grade"] for name, row in rows.items()} == {
        "perfect": "True",
        "blank": "False",
        "slips": "True",
    }


def test_the_gradebook_holds_each_questions_score(here):
    with Book(here, here.root / "x").open() as book:
        notebook = book.find_submission_notebook("tiny-lesson", LESSON, "slips")
        scores = {grade.name: grade.auto_score for grade in notebook.grades}
    assert scores == {
        "tiny_weights_gb": 0.0,
        "tiny_choice": 1.0,
        "tiny_double": 0.0,
        "tiny_total_gb": 0.0,
        "tiny_why": None,
    }


def test_feedback_shows_the_learners_work_and_the_cards_words(here):
    shown = page(here, "slips")
    assert "That grows too fast. Is it twice or itself?" in shown
    assert "How many bytes has a value in 16 bits?" in shown
    assert "you said 28" in shown
    assert "Not yet" in shown


def test_the_mark_scheme_is_there_for_who_marks_and_in_no_feedback(here):
    scheme = "2 points: what is saved"
    assert scheme in tiny.BANK
    for student in ("perfect", "blank"):
        assert scheme in json.dumps(tiny.graded_notebook(here, student), ensure_ascii=False)
        assert scheme not in page(here, student)
        assert "Mark scheme" not in page(here, student)


def test_formgraders_own_feedback_leaves_the_mark_scheme_out_too(root):
    settings = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
    assert settings.GenerateFeedback.preprocessors == FEEDBACK_STEPS


def test_feedback_never_says_what_would_have_been_right(here):
    for student in ("slips", "blank"):
        text = re.sub(r"<style.*?</style>", "", page(here, student), flags=re.S)
        assert "2 * n" not in text
        assert not re.search(r"\b48\b", re.sub(r"data:[^\"]*|&#\d+;", "", text))
        assert "### BEGIN" not in text
        assert "mark_scheme" not in text


def test_feedback_names_no_path_of_this_machine_and_runs_no_script_of_theirs(here):
    shown = page(here, "slips")
    assert str(here.root) not in shown
    assert "<script>alert" not in shown
    assert "script-src 'sha256-" in shown


def test_cells_untouched_by_the_learner_show_what_they_show_for_everyone(here):
    for student in ("perfect", "blank"):
        demo = next(c for c in tiny.graded_notebook(here, student).cells if c.id == "demo")
        assert demo.outputs[0]["data"]["text/plain"] == "[0.0, 1.0, 1.4142135623730951]"


def test_a_page_says_what_waits_for_a_person_and_names_the_questions(here):
    shown = page(here, "perfect")
    assert "<strong>Not final:</strong> a person still has to mark <code>tiny_why</code>" in shown
    assert '<a href="#tiny_why"><code>tiny_why</code></a> (not marked yet)' in shown
    assert '<a href="#tiny_choice"><code>tiny_choice</code></a> (Score: 1.0 / 1.0)' in shown
    assert "not marked yet, of 2.0" in shown
    assert "Score: 0.0 / 2.0" not in shown
    assert "Not final" not in page(here, "blank")
    report = (here.root / "autograder" / f"report-{LESSON}.md").read_text(encoding="utf-8")
    assert "- perfect: tiny\\_why" in report


def test_a_page_says_where_a_person_changed_a_score_or_should_look_again(tmp_path):
    here = tiny.make_course(tmp_path / "course")
    hand_in(here, "ann", perfect(here, tiny_total_gb="tiny_total_gb = 6"))
    run(here)
    with Book(here, here.root / "x").open() as book:
        for question, mark in (("tiny_why", 1.5), ("tiny_total_gb", 1)):
            grade = book.find_grade(question, "tiny-lesson", LESSON, "ann")
            grade.manual_score, grade.needs_manual_grade = mark, False
        book.db.commit()
    feedback.feedback(here, LESSON, say=lambda text: None)
    shown = page(here, "ann")
    assert "Your instructor changed the points for this to 1 of 2." in shown
    assert shown.count("Your instructor changed") == 1
    assert "Not final" not in shown
    assert "Score: 1.5 / 2.0" in shown
    hand_in(
        here, "ann", perfect(here, tiny_why='tiny_why = "Another reason."', tiny_total_gb="tiny_total_gb = 6")
    )
    run(here)
    said: list[str] = []
    feedback.feedback(here, LESSON, say=said.append)
    assert "answers of 1 of 1 students wait" in said[0]
    assert "Score: 1.5 / 2.0, to be looked at again" in page(here, "ann")
    assert "(marked before, changed since)" in (here.root / "autograder" / f"report-{LESSON}.md").read_text()


def test_grading_again_changes_nothing(here):
    before = (here.root / "autograder" / "grades.csv").read_bytes()
    run(here, seed=7)
    assert (here.root / "autograder" / "grades.csv").read_bytes() == before


def test_running_every_cell_gives_the_same_notebook(here):
    shared = {s: tiny.graded_notebook(here, s) for s in ("perfect", "slips", "blank")}
    run(here, seed=7, share=False)
    for student, notebook in shared.items():
        again = tiny.graded_notebook(here, student)
        assert [c.get("outputs") for c in again.cells] == [c.get("outputs") for c in notebook.cells]


def test_one_worker_and_many_give_the_same_bytes(tmp_path):
    here = tiny.make_course(tmp_path / "course")
    for number in range(4):
        hand_in(here, f"s{number}", perfect(here, **(SLIPS if number % 2 else {})))
    kept = []
    for jobs in (1, 3):
        run(here, seed=5, jobs=jobs)
        notebooks = [tiny.graded_notebook(here, f"s{n}") for n in range(4)]
        kept.append(((here.root / "autograder" / "grades.csv").read_bytes(), json.dumps(notebooks)))
        for path in (here.root / "autograder" / "results" / LESSON).glob("*.json"):
            path.unlink()
    assert kept[0] == kept[1]


def test_a_replay_shows_the_same_inputs_and_verdicts(here):
    said: list[str] = []
    assert replay.replay(here, "slips", LESSON, 7, say=said.append) == 0
    text = "\n".join(said)
    assert "tiny_double(3)" in text
    assert "seed 7" in text
    assert "same verdicts" in text


LEAKS = {
    "raises": "raise ValueError(f'the input {n}')",
    "names the error": "raise type(f'In{n}', (Exception,), {})()",
    "says it in text": "return f'the input {n}'",
    "says it by type": "return type(f'In{n}', (), {})()",
    "says it by length": "return [0] * n",
    "says it by exit": "import os; os._exit(n % 128)",
    "looks it up in the notebook": "eval('q%d' % n)",
    "sends what it likes": "import sys; sys.modules['wire'].encode = lambda v: {'t': 'refused', 'v': f'In{n}'}; return 0",
}
SPY = """def tiny_double(n):
    try:
        seen.append(n)
    except NameError:
        pass
    open("/tmp/seen", "a").write(f"{n} ")
    return 0
seen = []"""


@pytest.fixture(scope="module")
def spied(tmp_path_factory) -> dict[str, tuple[str, set[str]]]:
    """Pages of learners who would like to know what is drawn, each with the numbers that were drawn for them."""
    here = tiny.make_course(tmp_path_factory.mktemp("spied") / "course")
    for how, deed in LEAKS.items():
        source = f"def tiny_double(n):\n    if n == 3: return 6\n    {deed}"
        hand_in(here, how, perfect(here, tiny_double=source))
    raw = nbformat.v4.new_raw_cell
    book = perfect(
        here, tiny_double=f"k = 2\ndef tiny_double(n):\n    {LEAKS['looks it up in the notebook']}"
    )
    book.cells += [raw(" ".join(f"q{i}" for i in range(k, k + 100_000))) for k in range(0, 10**6, 10**5)]
    hand_in(here, "looks it up in the notebook", book)
    for how, later in (("list", "print(seen)"), ("file", "print(open('/tmp/seen').read())")):
        notebook = perfect(here, tiny_double=SPY, tiny_total_gb=f"{later}\ntiny_total_gb = seen")
        hand_in(here, how, notebook)
    run(here, seed=3)
    feedback.feedback(here, LESSON, say=lambda text: None)
    found = {}
    for how in (*LEAKS, "list", "file"):
        said: list[str] = []
        replay.replay(here, how, LESSON, say=said.append)
        drawn = set(re.findall(r"tiny_double\((\d\d+)\)", "\n".join(said)))
        found[how] = (re.sub(r"<style.*?</style>", "", page(here, how), flags=re.S), drawn)
    return found


@pytest.mark.parametrize("how", [*LEAKS, "list", "file"])
def test_neither_a_card_nor_a_later_cell_hands_on_the_inputs_that_were_drawn(spied, how):
    shown, drawn = spied[how]
    assert len(drawn) == 3
    assert "tiny_double" in shown
    assert not [number for number in drawn if number in re.sub(r"<pre>q\d+ .*?</pre>", "", shown)]
    assert not [number for number in drawn if f"exit {int(number) % 128})" in shown]


#: a right function, and what a cell further down does that spoils it for who asks at the end
SPOILED = {
    "a constant": ("factor = 2\ndef tiny_double(n): return factor * n", "factor = 16"),
    "a builtin": ("def tiny_double(n): return sum([n, n])", "sum = 0"),
    "a print of its own": ("def tiny_double(n):\n    print(n)\n    return 2 * n", "print = 3"),
    "a module of the lesson": ("def tiny_double(n): return math.floor(2 * n)", "math = 5"),
    "a part of a module": ("def tiny_double(n): return math.floor(2 * n)", "math.floor = math.ceil = None"),
    "a table": ("by = {'x': 2}\ndef tiny_double(n): return by['x'] * n", "by['x'] = 3"),
    "a list": ("facts = [2]\ndef tiny_double(n): return facts[-1] * n", "facts.append(9)"),
    "a class": ("class C: f = 2\ndef tiny_double(n): return C.f * n", "C.f = 10"),
    "an import": (
        "from operator import add as plus\ndef tiny_double(n): return plus(n, n)",
        "from operator import mul as plus",
    ),
    "a helper": (
        "def helper(n): return 2 * n\ndef tiny_double(n): return helper(n)",
        "if True:\n    def helper(n): return 0",
    ),
    "an exception's name": (
        "e = 2\ndef tiny_double(n): return e * n",
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    pass",
    ),
    "a deleted name": ("k = 2\ndef tiny_double(n): return k * n", "del k"),
    "a global": ("k = 2\ndef tiny_double(n): return k * n", "def f():\n    global k\n    k = 9\nf()"),
    "a setter": (
        "F = 2\ndef set_f(k):\n    global F\n    F = k\ndef tiny_double(n): return F * n",
        "set_f(3)",
    ),
    "a class's list": ("class C:\n    f = [2]\ndef tiny_double(n): return C.f[0] * n", "C.f.insert(0, 9)"),
    "a setting": (
        "from decimal import Decimal\ndef tiny_double(n): return int(Decimal(n) * 2)",
        "from decimal import getcontext\ngetcontext().prec = 2",
    ),
    "everything": ("def tiny_double(n): return 2 * n", "%reset -f"),
    "itself": ("def tiny_double(n): return 2 * n", "del tiny_double"),
    "a cell that dies when it runs again": (
        "k = 2\ndef tiny_double(n): return k * n",
        "k = 3\nimport os\nos.path.exists('/tmp/x') and os._exit(3)\nopen('/tmp/x', 'w').close()",
    ),
}


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory) -> dict[str, str]:
    """The scores of people who use a name again."""
    here = tiny.make_course(tmp_path_factory.mktemp("spoiled") / "course")
    for what, (function, later) in SPOILED.items():
        hand_in(here, what, perfect(here, tiny_double=function, tiny_total_gb=f"{later}\ntiny_total_gb = 48"))
    lucky = {
        "tiny_double": "factor = 3\ndef tiny_double(n): return factor * n",
        "tiny_total_gb": "factor = 2",
    }
    hand_in(here, "right at the end only", perfect(here, **lucky))
    hand_in(here, "wrong always", perfect(here, **{**lucky, "tiny_total_gb": "factor = 4"}))
    run(here)
    return {name: row["score"] for name, row in tiny.grades(here).items()}


@pytest.mark.parametrize("what", SPOILED)
def test_a_right_function_keeps_its_marks_whatever_is_done_further_down(spoiled, what):
    assert spoiled[what] == "6"


def test_a_function_that_is_right_at_the_end_is_right_and_a_wrong_one_is_wrong(spoiled):
    assert (spoiled["right at the end only"], spoiled["wrong always"]) == ("4", "2")


def test_an_error_on_the_worked_example_is_told_in_full(tmp_path):
    here = tiny.make_course(tmp_path / "course")
    hand_in(here, "honest", perfect(here, tiny_double="def tiny_double(n):\n    return {}[n]"))
    run(here)
    feedback.feedback(here, LESSON, say=lambda text: None)
    shown = page(here, "honest")
    assert "Your code stopped in line 2" in shown
    assert "return {}[n]</code> with KeyError: 3." in shown


def test_no_cell_is_a_formula_where_a_semicolon_parts_them():
    assert grading.safe_cell("ada;=1+1") == "ada;'=1+1"
    assert grading.safe_cell('a; "@x";-1; b') == "a;' \"@x\";'-1; b"


def test_two_people_of_one_name_are_two_for_moodle(tmp_path):
    here = tiny.make_course(tmp_path / "course")
    hand_in(here, "Jane Doe_4711", perfect(here))
    hand_in(here, "Jane Doe_4713", tiny.lesson_notebook(here))
    hand_in(here, "Li Wei_4712", perfect(here))
    run(here)
    roster = tmp_path / "roster.csv"
    roster.write_text(
        "Identifier,Full name,Email address\nParticipant 4711,Jane Doe,j@x\nParticipant 4713,Jane Doe,d@x\n"
        "Participant 4714,Jane Doe,e@x\n,Li Wei,LI@x\n"
    )
    to = tmp_path / "moodle.csv"
    said: list[str] = []
    assert export.export(here, "moodle", str(to), str(roster), say=said.append) == 0
    lines = to.read_text(encoding="utf-8").splitlines()[1:]
    assert [line.split(",")[:4] for line in lines] == [
        ["j@x", "Participant 4711", "Jane Doe", "6"],
        ["d@x", "Participant 4713", "Jane Doe", "0"],
        ["e@x", "Participant 4714", "Jane Doe", ""],
        ["LI@x", "", "Li Wei", "6"],
    ]
    assert "graded here but not in the file" not in "".join(said)


def test_moodle_numbers_people_anew_in_each_lesson(tmp_path):
    def row(student: str, lesson: str, score: float) -> Row:
        return Row(student=student, lesson=lesson, score=score, max_score=8, needs_manual_grade=False)

    rows = [row("Zoë Q_47", "lesson-01", 1), row("Zoë Q_58", "lesson-06", 2), row("Jo_61", "lesson-06", 3)]
    people = [
        {"First name": "Zoë", "Last name": "Q", "Email address": "z@x"},
        {"First name": "Jo", "Last name": "", "Email address": "jo@x"},
        {"First name": "Jo", "Last name": "", "Email address": "jo2@x"},
    ]
    lessons = ["lesson-01", "lesson-06"]
    places = grading.Places(root=tmp_path)
    titles = {lesson: lesson for lesson in lessons}
    table, used = export._moodle(lessons, titles, export._found(rows, people), people, places)
    assert [line[3:5] for line in table[1:]] == [["1", "2"], ["", ""], ["", ""]]  # one of the two Jos
    assert ("Jo_61", "lesson-06") not in used


def test_a_column_of_the_lms_may_be_named_and_who_is_not_in_the_roster_is_told(here, tmp_path):
    roster = tmp_path / "roster.csv"
    roster.write_text("Student,ID,SIS User ID,SIS Login ID,Section\nPerfect,7,,perfect,A\n")
    said: list[str] = []
    columns = {LESSON: "Homework (99)"}
    export.export(here, "canvas", str(tmp_path / "c.csv"), str(roster), columns, say=said.append)
    assert (tmp_path / "c.csv").read_text().splitlines()[0].endswith("Homework (99)")
    assert f"not in the file: blank ({LESSON}), slips ({LESSON})" in said[1]
    assert "not final: 2 submissions" in said[2]
    with pytest.raises(grading.Refused, match="graded are lesson-90"):
        export.export(here, "canvas", None, None, {"lesson-1": "x"}, say=said.append)


def test_nobody_gets_anothers_grade_by_choosing_a_name(tmp_path):
    def row(student: str, score: float) -> Row:
        return Row(student=student, lesson=LESSON, score=score, max_score=8, needs_manual_grade=False)

    def marks(rows: list[Row], people: list[dict]) -> list[str]:
        theirs = export._theirs(export._found(rows, people), people, [LESSON])
        return [export._score(own, LESSON) for own in theirs]

    carl, eve = {"username": "carl", "Full name": "Carl C"}, {"username": "eve", "Full name": "carl"}
    assert marks([row("carl", 6)], [eve, carl]) == ["", "6"]
    bob = {"Email address": "bob@a", "Full name": "Bob Smith"}
    mallory = {"Email address": "mallory@a", "Full name": "bob@a"}
    assert marks([row("Bob Smith_12", 6), row("bob@a_99", 0)], [bob, mallory]) == ["6", ""]
    canvas = [{"Student": "Participant 12", "ID": "1"}, {"Student": "Bob Smith", "ID": "2"}]
    assert marks([row("Bob Smith_12", 6)], canvas) == ["", "6"]
    twice = [{"Full name": "Jo Li", "username": "a"}, {"Full name": "Jo  Li", "username": "b"}]
    assert marks([row("Jo Li_3", 6)], twice) == ["", ""]


def test_what_a_learner_wrote_is_no_formula_and_turns_no_letters_round():
    made = feedback._notes({"notes": ["$x$ \u202egnp.exe\nb"]})
    assert 'class="container tex2jax_ignore mathjax_ignore"' in made
    assert "<li>$x$ gnp.exe b</li>" in made


def test_exports_are_what_canvas_and_moodle_import(here, tmp_path):
    roster = tmp_path / "roster.csv"
    roster.write_text(
        "Student,ID,SIS User ID,SIS Login ID,Section\nPoints Possible,,,,\n"
        "Perfect Person,101,P1,perfect,A\nBlank Person,102,P2,blank,A\nAbsent,103,P3,absent,A\n"
    )
    to = tmp_path / "canvas.csv"
    assert export.export(here, "canvas", str(to), str(roster), say=lambda text: None) == 0
    lines = to.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "Student,ID,SIS User ID,SIS Login ID,Section,A tiny lesson (lesson-90)"
    assert "Perfect Person,101,P1,perfect,A,6" in lines
    assert "Absent,103,P3,absent,A," in lines
    to = tmp_path / "moodle.csv"
    assert export.export(here, "moodle", str(to), None, say=lambda text: None) == 0
    lines = to.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "username,A tiny lesson (lesson-90),Feedback comments"
    assert any(line.startswith("perfect,6,") for line in lines)


def test_what_cannot_start_is_one_line_and_an_honest_exit_code(here, monkeypatch, capsys):
    monkeypatch.setenv("MEMORY_BUDGET_COURSE", str(here.root))
    assert main(["grade", "lesson-77"]) == 1
    assert "run `make build`" in capsys.readouterr().err
    monkeypatch.setattr(sandbox, "why_no_sandbox", lambda: "bubblewrap is not installed")
    assert main(["grade", LESSON]) == 1
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "SANDBOX=off" in said.err
    assert main(["grade", LESSON, "--scheduler", "tcp://127.0.0.1:1"]) in (0, 1)


def test_without_a_sandbox_every_report_says_so(tmp_path):
    here = tiny.make_course(tmp_path / "course")
    hand_in(here, "perfect", perfect(here))
    said = run(here, shut_in=False)
    row = tiny.grades(here)["perfect"]
    assert row["score"] == "6"
    assert "sandbox was off" in row["note"]
    assert "OFF" in said[-2]
    assert "sandbox was OFF" in (here.root / "autograder" / f"report-{LESSON}.md").read_text()


def test_a_corrected_question_grades_everyone_again(tmp_path):
    here = tiny.make_course(tmp_path / "course")
    hand_in(here, "early", perfect(here, tiny_total_gb="tiny_total_gb = 54"))
    run(here)
    assert tiny.grades(here)["early"]["score"] == "4"
    bank = here.questions / "lesson_90.py"
    bank.write_text(bank.read_text().replace("right=48", "right=54"))
    run(here)
    assert tiny.grades(here)["early"]["score"] == "6"


def test_results_of_files_that_were_handed_in_anew_are_not_kept(tmp_path):
    here = tiny.make_course(tmp_path / "course")
    results = here.root / "autograder" / "results" / LESSON
    for total in (6, 48):
        hand_in(here, "ann", perfect(here, tiny_total_gb=f"tiny_total_gb = {total}"))
        hand_in(here, "bob", perfect(here))
        run(here)
        kept = [path for path in results.glob("*.json") if re.fullmatch("[0-9a-f]{40}", path.stem)]
        assert len(kept) == 2
    assert replay.replay(here, "ann", LESSON, say=lambda text: None) == 0


def test_a_broken_question_bank_is_one_line(tmp_path):
    here = tiny.make_course(tmp_path / "course")
    hand_in(here, "early", perfect(here))
    (here.questions / "lesson_90.py").write_text("1 / 0")
    with pytest.raises(grading.Refused, match="ZeroDivisionError"):
        run(here)
