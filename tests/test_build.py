"""The build: what it makes, that it stops on every fault it promises, that the copies are current."""

import json
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
import tiny_course
from conftest import ROOT, lesson_names
from nbgrader.preprocessors import ClearSolutions
from tiny_course import cell

from autograder import cells as made
from autograder.building import answered, build, leaks, making, stamps
from autograder.building.fault import BuildStopped
from autograder.building.release import release
from autograder.course import course


@pytest.fixture
def here(tmp_path):
    return tiny_course.tiny_course(tmp_path / "a course")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A tiny course that was built once, for tests that only look."""
    here = tiny_course.tiny_course(tmp_path_factory.mktemp("built") / "a course")
    build.build(here)
    return here


def notebook_of(here, kind: str):
    return made.read(here.root / kind / "lesson-03" / "tiny.ipynb")


def edit(here, cell_id, change):
    notebook = tiny_course.read(here)
    change(notebook if cell_id is None else cell(notebook, cell_id))
    tiny_course.write(here, notebook)


def faults_of(here) -> list[str]:
    with pytest.raises(BuildStopped) as caught:
        build.build(here)
    return [str(fault) for fault in caught.value.faults]


# what is made


def test_the_lesson_keeps_the_stub_and_loses_the_solution(built):
    lesson = notebook_of(built, "lessons")
    assert cell(lesson, "weights-gb-answer").source == "weights_gb = None  # GB\n# your answer here"
    assert cell(lesson, "training-gb-answer").source == tiny_course.HEAD + "\n    # your answer here"
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in lesson.cells)


def test_the_lesson_keeps_valid_nbgrader_metadata_with_checksums(built):
    lesson = notebook_of(built, "lessons")
    about = cell(lesson, "training-gb").metadata.nbgrader
    assert about.points == 2
    assert about.grade
    assert re.fullmatch("[0-9a-f]{32}", about.checksum)


def test_the_solution_has_neither_markers_nor_stubs_nor_nbgrader_metadata(built):
    solution = notebook_of(built, "solutions")
    text = json.dumps(solution)
    assert "SOLUTION" not in text
    assert "nbgrader" not in text
    assert cell(solution, "weights-gb-answer").source == "weights_gb = 7e9 * 2 / 1e9  # GB"
    assert cell(solution, "why-bf16-answer").source == 'why_bf16 = "b"  # "a" or "b"'
    assert cell(solution, "in-words").source.startswith('in_words = """\nA frozen')
    assert "# your answer" not in text


def test_the_solution_keeps_its_outputs(built):
    solution = notebook_of(built, "solutions")
    assert cell(solution, "sum").outputs[0].data["text/plain"] == "16"
    assert "Right" in cell(solution, "training-gb").outputs[0].data["text/plain"]


def test_the_glossary_and_the_index_are_made(built):
    assert "## gradient" in (built.lessons / "glossary.md").read_text()
    assert "lesson-03/tiny.ipynb" in (built.lessons / "index.ipynb").read_text()


def test_building_again_gives_the_same_bytes(built, tmp_path):
    again = tiny_course.tiny_course(tmp_path / "elsewhere")
    build.build(again)
    for kind in ("lessons", "solutions"):
        files = sorted(
            path.relative_to(built.root) for path in (built.root / kind).rglob("*") if path.is_file()
        )
        for path in files:
            assert (again.root / path).read_bytes() == (built.root / path).read_bytes(), path


def test_nothing_is_run_again_when_nothing_changed(built):
    said = []
    build.build(built, say=lambda text, end="\n": said.append(text))
    assert said == ["lesson-03: nothing changed"]


@pytest.mark.parametrize("what", ["source", "lessons", "solutions", "bank"])
def test_a_change_in_source_bank_or_copies_is_noticed(built, what):
    path = built.root / what / "lesson-03" / "tiny.ipynb"
    path = built.questions / "lesson_03.py" if what == "bank" else path
    before, stamp = path.read_bytes(), stamps.lesson_stamp(built, "lesson-03")
    path.write_bytes(before + b"\n")
    assert stamps.lesson_stamp(built, "lesson-03") != stamp
    path.write_bytes(before)
    assert stamps.lesson_stamp(built, "lesson-03") == stamp


def test_a_lesson_whose_source_is_gone_leaves_both_folders(built, tmp_path):
    copy = course(shutil.copytree(built.root, tmp_path / "copy"))
    shutil.rmtree(copy.source / "lesson-03")
    build.build(copy)
    assert not (copy.lessons / "lesson-03").exists()
    assert not (copy.solutions / "lesson-03").exists()


@pytest.mark.slow
def test_nbgraders_own_command_with_our_settings_makes_the_same_lesson(built, tmp_path):
    """nbgrader_config.py at the root says the same as the build does."""
    copy = tmp_path / "a copy"
    shutil.copytree(built.root / "source", copy / "source")
    (copy / "autograder").mkdir()
    shutil.copy(ROOT / "nbgrader_config.py", copy)
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", "lesson-03"]
    ran = subprocess.run(command, cwd=copy, capture_output=True, text=True, env=_with_own_commands())
    assert ran.returncode == 0, ran.stderr
    theirs = made.read(copy / "lessons" / "lesson-03" / "tiny.ipynb")
    assert theirs == notebook_of(built, "lessons")
    assert (copy / "autograder" / "gradebook.db").is_file()


def _with_own_commands() -> dict[str, str]:
    import os
    from pathlib import Path

    return os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}


def test_release_tells_the_gradebook_when_it_is_asked_to(here, tmp_path):
    from nbgrader.api import Gradebook

    url = f"sqlite:///{(tmp_path / 'grade book.db').as_posix()}"
    release("lesson-03", here, tmp_path / "out", db_url=url)
    with Gradebook(url) as gradebook:
        notebook = gradebook.find_notebook("tiny", "lesson-03")
        assert {(c.name, c.max_score) for c in notebook.grade_cells} == {
            ("weights_gb", 1),
            ("why_bf16", 1),
            ("training_gb", 2),
            ("in_words", 2),
        }


# what stops it


def test_a_solution_that_raises_stops(here):
    edit(
        here,
        "training-gb-answer",
        lambda c: c.update(source=c.source.replace("trainable * 16 / 1e9", "traniable")),
    )
    assert any("training_gb does not earn full marks" in line for line in faults_of(here))


def test_a_cell_that_raises_stops_and_is_named(here):
    edit(here, "sum", lambda c: c.update(source="sum([2, None])"))
    (line,) = [line for line in faults_of(here) if "raises" in line and line.startswith("source/")]
    assert line.startswith("source/lesson-03/tiny.ipynb, cell sum: the solution raises TypeError: ")


def test_every_wrong_solution_is_listed_and_nothing_is_touched(here):
    build.build(here)
    before = {path: path.read_bytes() for path in here.root.rglob("*") if path.is_file()}
    edit(here, "weights-gb-answer", lambda c: c.update(source=c.source.replace("* 2", "* 4")))
    edit(here, "in-words", lambda c: c.update(source=c.source.replace("gradient", "tensor")))
    after_edit = {path: path.read_bytes() for path in here.root.rglob("*") if path.is_file()}
    found = faults_of(here)
    assert any(
        "cell weights_gb: the solution of weights_gb does not earn full marks (not yet" in f for f in found
    )
    assert any("the solution of in_words does not earn full marks" in f for f in found)
    assert {path: path.read_bytes() for path in here.root.rglob("*") if path.is_file()} == after_edit
    assert after_edit.keys() == before.keys()


def test_a_lesson_that_answers_itself_stops(here):
    """An answer that no reading finds is still found by running the lesson as a learner gets it."""
    edit(here, "sum", lambda c: c.update(source='globals()["weights" + "_gb"] = 7 + 7'))
    assert any("question weights_gb is right before anyone answered it" in line for line in faults_of(here))


def test_a_stub_that_is_partly_right_stops(here):
    edit(here, "weights-gb-answer", lambda c: c.update(source=c.source.replace("None", "28")))
    assert any("weights_gb is not yet before anyone answered it" in line for line in faults_of(here))


def test_a_solution_that_never_returns_is_stopped_and_told(here):
    forever = "while True:\n        pass\n    return"
    edit(here, "training-gb-answer", lambda c: c.update(source=c.source.replace("return", forever)))
    assert any(
        "training_gb does not earn full marks (not yet: It did not finish" in f for f in faults_of(here)
    )


def test_a_cell_that_ends_python_is_told(here):
    edit(here, "sum", lambda c: c.update(source="import os\n\nos._exit(3)"))
    assert any("cell sum: the solution ends the Python it runs in" in line for line in faults_of(here))


def test_a_later_cell_that_needs_an_answer_stops(here):
    edit(here, "sum", lambda c: c.update(source="weights_gb + 1"))
    assert any(
        "cell sum: raises TypeError" in line and "nothing is answered" in line for line in faults_of(here)
    )


def test_the_command_prints_a_line_a_fault_and_exits_1(here, monkeypatch, capsys):
    monkeypatch.setenv("MEMORY_BUDGET_COURSE", str(here.root))
    edit(here, "look", lambda c: c.update(source=c.source + "<!-- 14 -->"))
    edit(here, "sum", lambda c: c.update(source="### BEGIN SOLUTON"))
    assert build.main(["lesson-03"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "source/lesson-03/tiny.ipynb, cell sum",
        "source/lesson-03/tiny.ipynb, cell look",
        "Stopped",
    ]


def test_an_unknown_lesson_is_one_line(here, monkeypatch, capsys):
    monkeypatch.setenv("MEMORY_BUDGET_COURSE", str(here.root))
    assert build.main(["lesson-99"]) == 1
    assert capsys.readouterr().err.splitlines()[0] == "source/lesson-99: is not there; lessons: lesson-03"


def test_what_nbgrader_refuses_is_told_in_its_words(here, tmp_path):
    def twice(notebook):
        again = dict(cell(notebook, "weights-gb"))
        notebook.cells.append(type(notebook)(again | {"id": "again"}))

    edit(here, None, twice)
    with pytest.raises(ValueError, match="weights_gb"):
        release("lesson-03", here, tmp_path / "out")


# answers that could be handed out


def leaked(here, tmp_path) -> list[str]:
    """What the leak check says of the lesson as nbgrader releases it, without running anything."""
    released = made.read(release("lesson-03", here, tmp_path / "out"))
    bank = making.load_bank(here, "lesson-03")
    return [
        str(fault)
        for fault in making.released_faults(here, "lesson-03", released, tiny_course.read(here), bank)
    ]


def test_a_clean_lesson_leaks_nothing(here, tmp_path):
    assert leaked(here, tmp_path) == []


@pytest.mark.parametrize(
    ("cell_id", "text", "name"),
    [
        ("look", "So it is `7e9 * 2 / 1e9`.", "weights_gb"),
        ("look", "So it is 7e9*2/1e9.", "weights_gb"),
        (
            "look",
            "<details><summary>Hint 3</summary>\n\nweights_gb = 7e9 * 2 / 1e9\n\n</details>",
            "weights_gb",
        ),
        ("look", "Now weights_gb = 14, as you found.", "weights_gb"),
        ("look", "Now `weights_gb` is 14.0, as you found.", "weights_gb"),
        ("look", "`weights_gb`: 28 / 2", "weights_gb"),
        ("look", '`why_bf16 = "b"`', "why_bf16"),
        ("look", "why_bf16: b", "why_bf16"),
        ("look", "| why_bf16 | x |\n\n**why_bf16** = 'B'", "why_bf16"),
        ("look", "return trainable*16/1e9", "training_gb"),
        ("look", "A frozen parameter has no gradient\nand so no moments either.", "in_words"),
        ("sum", "# weights_gb = 14\nsum([1])", "weights_gb"),
        ("sum", "x = (7e9 *\n     2 / 1e9)", "weights_gb"),
        ("sum", "memory = lambda trainable: trainable * 16 / 1e9", "training_gb"),
        ("sum", "def memory(n):\n    return n * 16 / 1e9", "training_gb"),
        ("look", "For a number `n` it is `n * 16 / 1e9`.", "training_gb"),
        ("look", "```python\ndef memory(n):\n    return n*16/1e9\n```", "training_gb"),
        ("sum", "why_bf16 == 'b'", "why_bf16"),
        ("sum", 'expected = {"weights_gb": 14}', "weights_gb"),
    ],
)
def test_an_answer_in_prose_hint_or_code_is_found(here, tmp_path, cell_id, text, name):
    edit(here, cell_id, lambda c: c.update(source=text))
    found = leaked(here, tmp_path)
    assert [line for line in found if f"cell {cell_id}: " in line and name in line], found


def test_an_answer_left_in_the_stub_of_its_own_cell_is_found(here, tmp_path):
    edit(
        here,
        "weights-gb-answer",
        lambda c: c.update(source=c.source.replace("# GB", "# GB, weights_gb = 14")),
    )
    assert any("cell weights-gb-answer" in line for line in leaked(here, tmp_path))


def test_an_answer_in_a_file_beside_the_notebook_is_found(here, tmp_path):
    (here.source / "lesson-03" / "bars.svg").write_text("<svg><desc>weights_gb = 14</desc></svg>")
    edit(here, "look", lambda c: c.update(source="![two bars](bars.svg)"))
    assert any(
        "cell bars.svg: names weights_gb beside its right answer" in line for line in leaked(here, tmp_path)
    )


def test_an_answer_in_a_file_that_is_no_text_or_in_its_name_is_found(here, tmp_path):
    (here.source / "lesson-03" / "bars.png").write_bytes(b"\x89PNG\xff tEXt weights_gb = 14\x00\xfe")
    (here.source / "lesson-03" / "why_bf16 = b.png").write_bytes(b"\x89PNG\xff")
    edit(here, "look", lambda c: c.update(source="![two bars](bars.png) ![a bar](why_bf16 = b.png)"))
    found = leaked(here, tmp_path)
    assert any("cell bars.png: names weights_gb beside its right answer" in line for line in found)
    assert any("cell why_bf16 = b.png: " in line for line in found)


def test_an_answer_in_the_glossary_is_found(here, tmp_path):
    path = here.source / "glossary.md"
    path.write_text(path.read_text() + "\nHere weights_gb = 14.\n")
    assert any("cell ../glossary.md: names weights_gb" in line for line in leaked(here, tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "The weights are 14 GB, and weights_gb is what you type above.",
        "weights_gb = 28 would be fp32.",
        "Look at 2 bytes x frozen + 16 bytes x trainable.",
        "In bytes it is `n * 16`, and `n * 4 / 1e9` GB in fp32.",
        "`why_bf16` asks for a letter.",
    ],
)
def test_ordinary_prose_leaks_nothing(here, tmp_path, text):
    edit(here, "look", lambda c: c.update(source=text))
    assert leaked(here, tmp_path) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("outputs", [nbformat.v4.new_output("stream", name="stdout", text="14")]),
        ("attachments", {"a.png": {}}),
    ],
)
def test_what_a_release_must_not_keep_is_found(place, value):
    notebook = made.notebook(tiny_course.source_cells(), **tiny_course.about())
    source = made.notebook(tiny_course.source_cells(), **tiny_course.about())
    for held in notebook.cells:
        held.source = "" if made.is_answer(held) else held.source
    cell(notebook, "sum")[place] = value
    assert leaks.leaks(notebook, source, {}, lambda name, value: False) == [
        ("sum", "keeps outputs or attachments")
    ]


# how an answered notebook reads


@pytest.mark.parametrize(
    ("stub", "solution", "reads"),
    [
        ("a = None  # GB", "a = 2", "a = 2  # GB"),
        ("a = None  # GB", "a = (\n    2\n)", "a = (\n    2\n)"),
        ("a = None\nb = None", "a = 1\nb = 2", "a = 1\nb = 2"),
        ("import math\na = None", "a = math.pi", "import math\na = math.pi"),
        ('a = [\n    "x",\n    "y",\n]', 'a = ["y", "x"]', 'a = ["y", "x"]'),
        ('a = """\n\n"""', 'a = """\nwords\n"""', 'a = """\nwords\n"""'),
        ("size = 2", "a = size", "size = 2\na = size"),
        ("a: float = None", "a: float = 1.0", "a: float = 1.0"),
    ],
)
def test_a_stub_is_dropped_and_its_unit_kept(stub, solution, reads):
    assert answered.answered_source(f"{stub}\n{made.BEGIN}\n{solution}\n{made.END}") == reads


def test_widget_ids_temporary_paths_and_addresses_are_calmed():
    data = {
        answered.WIDGET: {"model_id": "f00"},
        "text/html": "<svg/>",
        "text/plain": "<object at 0x7f1234567890>",
    }
    warned = "/tmp/ipykernel_123/456.py:1: UserWarning: x\n"
    outputs = [
        nbformat.v4.new_output("display_data", data=data),
        nbformat.v4.new_output("stream", name="stderr", text=warned),
        nbformat.v4.new_output("stream", name="stderr", text="more\n"),
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=outputs)])
    calm = answered.steady(notebook).cells[0].outputs
    assert calm[0].data == {"text/html": "<svg/>", "text/plain": "<object at 0x0>"}
    assert calm[1].text == "<cell>:1: UserWarning: x\nmore\n"


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("a\nb\n", "a\nb\n"),
        ("\r  0%|  | 0/2\r 50%|# | 1/2\r          \r", ""),
        ("start\n\r 50%\r100%\nend\n", "start\n100%\nend\n"),
        ("a\r\nb\r\n", "a\nb\n"),
    ],
)
def test_a_progress_bar_leaves_only_its_end(printed, kept):
    output = nbformat.v4.new_output("stream", name="stderr", text=printed)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=[output])])
    assert [output.text for output in answered.steady(notebook).cells[0].outputs] == ([kept] if kept else [])


def test_writing_to_the_error_stream_is_a_warning(here):
    edit(here, "sum", lambda c: c.update(source="import sys\n\nprint('late', file=sys.stderr)"))
    said = []
    build.build(here, say=lambda text, end="\n": said.append(text))
    assert any("cell sum: warning: writes to the error stream" in line for line in said)


def test_a_widget_without_a_picture_is_only_a_warning(here):
    show = "from ipywidgets import IntSlider\n\nIntSlider(description='bytes')"
    edit(here, "sum", lambda c: c.update(source=show))
    said = []
    build.build(here, say=lambda text, end="\n": said.append(text))
    assert any("warning: shows a widget that leaves no picture" in line for line in said)


def test_our_stub_is_the_one_nbgrader_is_configured_with():
    text = (ROOT / "nbgrader_config.py").read_text()
    assert made.STUB in text
    assert made.TEXT_STUB in text
    assert ClearSolutions().begin_solution_delimeter in made.BEGIN


# the real lessons


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory):
    """Lessons and solutions made anew in another place, each lesson once."""
    staged, done = tmp_path_factory.mktemp("rebuilt"), {}

    def make(lesson):
        if lesson not in done:
            done[lesson] = making.make_lesson(course(ROOT), lesson, staged, lambda *_, **__: None)
        return staged, done[lesson]

    return make


@pytest.mark.slow
@pytest.mark.parametrize("lesson", lesson_names())
def test_a_lesson_builds_without_a_fault(rebuilt, lesson):
    _, faults = rebuilt(lesson)
    assert [str(fault) for fault in faults if fault.stops] == []


@pytest.mark.slow
@pytest.mark.parametrize("lesson", lesson_names())
def test_the_committed_lesson_is_current_cell_by_cell(rebuilt, lesson):
    staged, _ = rebuilt(lesson)
    name = course(ROOT).source_notebook(lesson).name
    fresh, kept = (made.read(root / "lessons" / lesson / name) for root in (staged, ROOT))
    assert fresh.metadata == kept.metadata
    assert [c.id for c in fresh.cells] == [c.id for c in kept.cells]
    for new, old in zip(fresh.cells, kept.cells, strict=True):
        assert new == old, f"cell {new.id} of lessons/{lesson}: run make build"


@pytest.mark.slow
@pytest.mark.parametrize("lesson", lesson_names())
def test_the_committed_solution_is_current_cell_by_cell(rebuilt, lesson):
    staged, _ = rebuilt(lesson)
    name = course(ROOT).source_notebook(lesson).name
    fresh, kept = (made.read(root / "solutions" / lesson / name) for root in (staged, ROOT))
    assert [c.id for c in fresh.cells] == [c.id for c in kept.cells]
    for new, old in zip(fresh.cells, kept.cells, strict=True):
        where = f"cell {new.id} of solutions/{lesson}: run make build"
        assert (new.source, new.metadata) == (old.source, old.metadata), where
        assert shape_of_outputs(new) == shape_of_outputs(old), where


@pytest.mark.parametrize("lesson", lesson_names())
def test_files_beside_a_lesson_are_the_sources(lesson):
    source = {p.name: p.read_bytes() for p in stamps.files(ROOT / "source" / lesson) if p.suffix != ".ipynb"}
    for kind in ("lessons", "solutions"):
        folder = ROOT / kind / lesson
        assert {p.name: p.read_bytes() for p in stamps.files(folder) if p.suffix != ".ipynb"} == source


def shape_of_outputs(notebook_cell) -> list:
    """What outputs say, without what may differ between computers: pictures' bytes and measured numbers."""
    return [
        (output.output_type, sorted(output.get("data", {})), _words(output))
        for output in notebook_cell.get("outputs", [])
    ]


def _words(output) -> str:
    text = output.get("text", "") or output.get("data", {}).get("text/plain", "")
    return re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", text) if isinstance(text, str) else ""
