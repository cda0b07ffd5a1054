"""The lint refuses what nbgrader hands out without a word, and names the notebook and the cell."""

import shutil

import nbformat
import pytest
import tiny_course
from tiny_course import cell

from autograder.building import lint, making
from autograder.building.markers import resembles_marker, split_region
from autograder.cells import BEGIN, END


@pytest.fixture
def here(tmp_path):
    return tiny_course.tiny_course(tmp_path / "a course")


def stops(here) -> list[str]:
    """What stops the build of the tiny lesson before it is run, each fault on a line."""
    return [str(fault) for fault in making.source_faults(here, "lesson-03") if fault.stops]


def change(here, cell_id, edit) -> list[str]:
    """Edit one cell (or with None the notebook) and return what then stops the build."""
    notebook = tiny_course.read(here)
    edit(notebook if cell_id is None else cell(notebook, cell_id))
    tiny_course.write(here, notebook)
    return stops(here)


def test_a_right_lesson_has_no_fault(here):
    assert making.source_faults(here, "lesson-03") == []


@pytest.mark.parametrize(
    "line",
    [
        "### BEGIN SOLUTOIN",
        "### BEGN SOLUTION",
        "### begin solution",
        "###BEGIN SOLUTION",
        "# BEGIN  SOLUTION",
        "### BEGINSOLUTION",
        "### BEGIN_SOLUTION",
        "### END SOLUTON",
        "### END OF SOLUTION",
        "### START SOLUTION",
        "### SOLUTION BEGIN",
        "### BEGIN SOLUTION:",
        "### BEGIN HIDEN TESTS",
        "### BEGIN HIDDEN TESTS",
        "### END HIDDEN TEST",
        "=== BEGIN MARK SCHEME ===",
        "=== BEGIN MARKSCHEME ===",
        "=== END MARK SHEME ===",
        "### BEGIN ANSWER",
        "# solution",
        "BEGIN SOLUTION",
        "    ### BEGIN SOLUTI0N",
        "### ＢＥＧＩＮ ＳＯＬＵＴＩＯＮ",  # noqa: RUF001
    ],
)
def test_a_line_like_a_marker_is_noticed(line):
    assert resembles_marker(line)


@pytest.mark.parametrize(
    "line",
    [
        "The solution is to keep fewer bytes.",
        "In the end the solution is simple arithmetic on five terms.",
        "# your answer here",
        "weights_gb = None  # GB",
        "## Begin with a small model",
        "# the bytes of one parameter",
        "Hidden layers are tested later.",
        "total = begin + end",
        "We begin. A solution of the equation has no meaning here.",
    ],
)
def test_ordinary_words_are_no_marker(line):
    assert not resembles_marker(line)


@pytest.mark.parametrize(
    "typo", ["### BEGIN SOLUTOIN", "### begin solution", "### BEGIN SOLUTION  # weights"]
)
def test_a_misspelt_marker_stops_and_names_notebook_and_cell(here, typo):
    found = change(here, "weights-gb-answer", lambda c: c.update(source=c.source.replace(BEGIN, typo)))
    assert any(
        "tiny.ipynb, cell weights-gb-answer" in line and "resembles a marker" in line for line in found
    )


@pytest.mark.parametrize("cell_id", ["sum", "look", "weights-gb"])
def test_a_misspelt_marker_is_found_in_any_cell(here, cell_id):
    found = change(here, cell_id, lambda c: c.update(source=c.source + "\n### BEGIN HIDEN TESTS"))
    assert any(f"cell {cell_id}: " in line and "resembles a marker" in line for line in found)


def test_a_region_outside_an_answer_cell_stops(here):
    found = change(here, "sum", lambda c: c.update(source=f"{BEGIN}\nsum([2, 2])\n{END}"))
    assert any("cell sum" in line and "not an answer cell" in line for line in found)


def test_an_answer_cell_that_lost_its_metadata_stops(here):
    found = change(here, "weights-gb-answer", lambda c: c.metadata.pop("nbgrader"))
    assert any("metadata is lost" in line for line in found)
    assert any("no cell with grade_id weights_gb-answer" in line for line in found)


def test_an_answer_without_markers_or_metadata_stops(here):
    def strip(c):
        c.metadata.pop("nbgrader")
        c.source = "weights_gb = 14"

    found = change(here, "weights-gb-answer", strip)
    assert any("answers question weights_gb but is not its answer cell" in line for line in found)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (f"{BEGIN}\nx = 1", "found begin (line 1)"),
        (f"{END}\n{BEGIN}", "found end (line 1), begin (line 2)"),
        ("x = 1", "found no markers"),
        (f"{BEGIN}\na\n{END}\n{BEGIN}\nb\n{END}", "once each"),
    ],
)
def test_markers_come_once_and_in_order(source, says):
    with pytest.raises(ValueError, match="needs") as caught:
        split_region(source)
    assert says in str(caught.value)


def test_an_empty_solution_stops(here):
    found = change(here, "weights-gb-answer", lambda c: c.update(source=f"weights_gb = None\n{BEGIN}\n{END}"))
    assert any("no solution between" in line for line in found)


@pytest.mark.parametrize(
    "hidden",
    [
        "<!-- weights_gb is 14 -->",
        "[//]: # (14)",
        "[comment]: # (14)",
        '<span style="display:none">14</span>',
        "<p hidden>14</p>",
        "<script>14</script>",
        "![](data:image/png;base64,AAAA)",
    ],
)
def test_what_a_reader_does_not_see_stops(here, hidden):
    found = change(here, "weights", lambda c: c.update(source=c.source + "\n\n" + hidden))
    assert any("cell weights: has " in line for line in found)


def test_outputs_in_the_source_stop(here):
    output = nbformat.v4.new_output("stream", name="stdout", text="14")
    found = change(here, "sum", lambda c: c.update(outputs=[output], execution_count=1))
    assert any("cell sum: keeps outputs" in line for line in found)


def test_attachments_stop(here):
    found = change(here, "look", lambda c: c.update(attachments={"a.png": {"image/png": "MTQ="}}))
    assert any("has an attachment" in line for line in found)


def test_an_answer_in_cell_metadata_stops(here):
    found = change(here, "look", lambda c: c.metadata.update(answer="14"))
    assert any("has metadata 'answer'" in line for line in found)


def test_an_answer_among_the_tags_stops(here):
    found = change(here, "look", lambda c: c.metadata.update(tags=["answer-is-14"]))
    assert any("has metadata 'tags'" in line for line in found)


def test_an_answer_in_the_notebooks_metadata_stops(here):
    assert any("metadata 'key'" in line for line in change(here, None, lambda n: n.metadata.update(key="14")))


def test_an_answer_beside_the_kernels_name_stops(here):
    found = change(here, None, lambda n: n.metadata.language_info.update(answer="14"))
    assert any("language_info holds 'answer'" in line for line in found)


def test_a_raw_cell_stops(here):
    assert any("raw cell" in line for line in change(here, "look", lambda c: c.update(cell_type="raw")))


def test_an_unknown_grade_id_stops(here):
    found = change(here, "weights-gb", lambda c: c.metadata.nbgrader.update(grade_id="weight_gb"))
    assert any("grade_id 'weight_gb' belongs to no question" in line for line in found)


def test_a_repeated_grade_id_stops(here):
    def twice(notebook):
        again = dict(cell(notebook, "weights-gb"))
        notebook.cells.append(type(notebook)(again | {"id": "again"}))

    assert any("grade_id 'weights_gb' is used by 2 cells" in line for line in change(here, None, twice))


def test_points_that_are_not_the_banks_stop(here):
    found = change(here, "training-gb", lambda c: c.metadata.nbgrader.update(points=3))
    assert any("'points' is 3, for question training_gb it must be 2" in line for line in found)


def test_an_unlocked_check_stops(here):
    found = change(here, "training-gb", lambda c: c.metadata.nbgrader.update(locked=False))
    assert any("'locked' is False" in line for line in found)


def test_a_text_question_marked_as_autograded_stops(here):
    found = change(here, "in-words", lambda c: c.metadata.nbgrader.update(solution=False))
    assert any("question in_words" in line for line in found)


@pytest.mark.parametrize("source", ['check("weights_gb"', "check('weights_gb')", 'check("why_bf16")', "pass"])
def test_a_check_cell_is_one_call_to_the_letter(here, source):
    found = change(here, "weights-gb", lambda c: c.update(source=source))
    assert any('must be exactly check("weights_gb")' in line for line in found)


def test_a_question_of_the_bank_without_cells_stops(here):
    bank = here.questions / "lesson_03.py"
    more = 'QUESTIONS.append(Number(name="more_gb", points=1, prompt="more", right=2.0))\n'
    bank.write_text(tiny_course.BANK + more)
    assert any("question more_gb of the bank has no cell" in line for line in stops(here))


def test_a_check_above_its_answer_stops(here):
    def swap(notebook):
        notebook.cells[3], notebook.cells[4] = notebook.cells[4], notebook.cells[3]

    assert any("stands above its answer" in line for line in change(here, None, swap))


def test_a_missing_bank_stops(here):
    (here.questions / "lesson_03.py").unlink()
    assert stops(here) == [
        "source/lesson-03: has no question bank: autograder/questions/lesson_03.py is missing"
    ]


def test_a_bank_that_cannot_be_read_stops(here):
    (here.questions / "lesson_03.py").write_text("1 / 0")
    assert any("lesson_03.py cannot be read: ZeroDivisionError" in line for line in stops(here))


@pytest.mark.parametrize("name", ["tiny.py", "answers.md", "key.pkl", ".secret", "notes/key.docx"])
def test_a_file_that_would_be_handed_out_stops(here, name):
    path = here.source / "lesson-03" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("weights_gb = 14")
    assert any(f"source/lesson-03/{name}: would be handed out" in line for line in stops(here))


def test_a_picture_that_no_cell_names_stops(here):
    (here.source / "lesson-03" / "bars.svg").write_text("<svg/>")
    assert any("no cell of the notebook names it" in line for line in stops(here))


def test_a_picture_that_a_cell_names_passes(here):
    (here.source / "lesson-03" / "bars.svg").write_text("<svg/>")
    assert change(here, "look", lambda c: c.update(source="Look: ![two bars of 16 bytes](bars.svg)")) == []


def test_a_link_to_a_file_elsewhere_stops(here, tmp_path):
    (tmp_path / "key.txt").write_text("14")
    try:
        (here.source / "lesson-03" / "key.txt").symlink_to(tmp_path / "key.txt")
    except OSError:
        pytest.skip("this system lets only administrators make links")
    assert any("is a link" in line for line in stops(here))


def test_a_second_notebook_stops(here):
    (here.source / "lesson-03" / "copy.ipynb").write_text("{}")
    assert any("exactly one notebook, found: copy.ipynb, tiny.ipynb" in line for line in stops(here))


def test_a_loose_file_in_source_stops(here):
    (here.source / "answers.txt").write_text("14")
    assert [str(f) for f in lint.lint_source_root(here)] == [
        "source/answers.txt: is neither the glossary nor in a lesson's folder"
    ]


def test_two_titles_stop(here):
    assert any(
        "second # heading" in line for line in change(here, "look", lambda c: c.update(source="# Again"))
    )


def test_a_picture_without_alt_text_stops(here):
    found = change(here, "look", lambda c: c.update(source="![](https://example.org/a.png)"))
    assert any("without alt text" in line for line in found)


@pytest.mark.parametrize("key", ["lesson", "title", "minutes", "after", "gpu"])
def test_a_lesson_says_all_of_itself(here, key):
    found = change(here, None, lambda n: n.metadata.memory_budget.pop(key))
    assert any(f'lacks memory_budget "{key}"' in line for line in found)


def test_a_prerequisite_is_a_lessons_name(here):
    found = change(here, None, lambda n: n.metadata.memory_budget.update(after=["lesson 4"]))
    assert any("names such as lesson-04, not 'lesson 4'" in line for line in found)


def test_a_name_that_two_lessons_use_stops(here):
    shutil.copytree(here.source / "lesson-03", here.source / "lesson-04")
    shutil.copy(here.questions / "lesson_03.py", here.questions / "lesson_04.py")
    said = [fault.says for fault in making.bank_faults(here)]
    assert "question weights_gb is in lesson-03 and lesson-04" in said


def test_a_lesson_in_another_lessons_folder_stops(here):
    found = change(here, None, lambda n: n.metadata.memory_budget.update(lesson="lesson-04"))
    assert any("says it is 'lesson-04' but lies in source/lesson-03" in line for line in found)


def test_style_is_a_warning_only(here):
    def untidy(notebook):
        cell(notebook, "look").source = "#### Deep\n\n" + "word " * 100
        cell(notebook, "sum").source = "\n".join(f"x{i} = {i}" for i in range(9))

    assert change(here, None, untidy) == []
    said = [str(fault) for fault in making.source_faults(here, "lesson-03")]
    assert [line.split("warning: ")[1] for line in said] == [
        "heading jumps from level 2 to 4",
        "has 102 words, aim at 90 or fewer",
        "has 9 lines of code, aim at 8 or fewer",
    ]


def test_all_faults_are_listed_not_only_the_first(here):
    def many(notebook):
        cell(notebook, "look").source += "<!-- a -->"
        cell(notebook, "weights-gb").metadata.nbgrader.points = 9
        cell(notebook, "weights-gb-answer").source = "### BEGIN SOLUTIN"

    found = change(here, None, many)
    assert len({line.split(": ")[0] for line in found}) == 3


def test_tidy_clears_what_jupyterlab_leaves_and_keeps_the_rest(here):
    notebook = tiny_course.read(here)
    clean = tiny_course.read(here)
    output = nbformat.v4.new_output("stream", name="stdout", text="a")
    cell(notebook, "sum").update(outputs=[output], execution_count=3)
    cell(notebook, "sum").metadata.update({"execution": {"iopub.status.busy": "now"}, "scrolled": True})
    notebook.metadata["widgets"] = {}
    assert lint.tidy(notebook) == clean
