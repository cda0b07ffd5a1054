"""A learner's way through JupyterLab in a real browser: open, Run All, move a slider by keyboard, Validate."""

import json
import re
import time

import pytest
from conftest import ROOT, lesson_names

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LESSONS = [name for name in lesson_names() if any((ROOT / "lessons" / name).glob("*.ipynb"))]


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield page
    context.close()


def open_notebook(page, address: str, path: str) -> None:
    """Open one notebook alone in a fresh workspace and wait until its kernel has answered."""
    page.goto(f"{address}/lab/workspaces/{time.time_ns()}/tree/{path}")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_selector("text=/Python 3 .*\\| Idle/")
    page.wait_for_timeout(1000)


def run_all(page) -> None:
    """Run every cell by the menu, as a learner does, and wait until the kernel has rested for two seconds."""
    page.click("text=Run >> visible=true")
    page.click("text='Run All Cells'")
    page.wait_for_function(
        """() => {
          const rests = document.querySelector('.jp-Notebook-ExecutionIndicator').dataset.status === 'idle'
            && ![...document.querySelectorAll('.jp-InputPrompt')].some(p => p.textContent.includes('*'))
            && [...document.querySelectorAll('.jp-InputPrompt')].some(p => /\\d/.test(p.textContent));
          const now = performance.now();
          window.restsSince = rests ? (window.restsSince ?? now) : null;
          return rests && now - window.restsSince > 2000;
        }""",
        timeout=240_000,
        polling=250,
    )


def save(page) -> None:
    page.keyboard.press("Escape")
    page.click(".jp-NotebookPanel-toolbar [data-command='docmanager:save']")
    page.wait_for_timeout(1500)


def outputs_of(path) -> list[dict]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [output | {"cell": cell["id"]} for cell in cells for output in cell.get("outputs", [])]


@pytest.fixture
def opened(page, lab, request):
    """The page with one lesson open, and the lesson's file."""
    address, folder = lab
    (path,) = (folder / request.param).glob("*.ipynb")
    open_notebook(page, address, path.relative_to(folder).as_posix())
    return page, path


@pytest.mark.parametrize("opened", LESSONS, indirect=True)
def test_run_all_on_a_fresh_lesson_has_no_error_and_draws_everything(opened):
    page, path = opened
    run_all(page)
    save(page)
    outputs = outputs_of(path)
    assert [output["cell"] for output in outputs if output["output_type"] == "error"] == []
    assert [output["cell"] for output in outputs if output.get("name") == "stderr"] == []
    ran = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in ran)
    assert any("application/vnd.jupyter.widget-view+json" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("opened", LESSONS, indirect=True)
def test_slider_moved_by_keyboard_changes_picture_and_words(opened):
    page, _ = opened
    run_all(page)
    slider = page.locator(".jp-OutputArea .noUi-handle").first
    slider.scroll_into_view_if_needed()
    around = page.locator(".jp-OutputArea-output", has=page.locator(".noUi-handle")).first
    before = around.locator("[role=img]").first.get_attribute("aria-label")
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "([node, before]) => node.querySelector('[role=img]').getAttribute('aria-label') !== before",
        arg=[around.element_handle(), before],
    )
    after = around.locator("[role=img]").first.get_attribute("aria-label")
    assert re.findall(r"\d", after)
    assert after != before


@pytest.mark.parametrize("opened", LESSONS[-1:], indirect=True)
def test_dropdown_takes_arrow_keys_and_letters_and_leaves_the_notebook_alone(opened):
    page, _ = opened
    run_all(page)
    chosen = page.locator(".memory-budget-bars select").first
    chosen.scroll_into_view_if_needed()
    chosen.focus()
    before, cells = chosen.input_value(), page.locator(".jp-Cell").count()
    page.keyboard.press("ArrowDown")
    assert chosen.input_value() != before
    for key in ("ArrowUp", "b", "m", "x"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.tagName") == "SELECT"
    assert page.locator(".jp-Cell").count() == cells


@pytest.mark.parametrize("opened", LESSONS[-1:], indirect=True)
def test_slider_says_its_name_and_the_stop_it_is_on(opened):
    page, _ = opened
    run_all(page)
    slider = page.locator(".memory-budget-bars", has_text="Optimizer").first.locator(".noUi-handle")
    slider.scroll_into_view_if_needed()
    slider.focus()
    assert slider.get_attribute("aria-label") == "Parameters"
    before = slider.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(500)
    after = slider.get_attribute("aria-valuetext")
    assert before.endswith("B")
    assert after.endswith("B")
    assert after != before


@pytest.mark.parametrize("opened", LESSONS[:1], indirect=True)
def test_validate_names_what_is_not_answered_without_a_stack_trace(opened):
    page, _ = opened
    page.click(".jp-NotebookPanel-toolbar >> text=Validate")
    dialog = page.locator(".jp-Dialog")
    dialog.wait_for(timeout=180_000)
    said = dialog.inner_text()
    assert "failed" in said
    assert "Traceback" not in said
    assert "not answered" in said.lower()


def test_no_news_popup_and_no_instructor_panels(page, lab):
    address, _ = lab
    page.goto(f"{address}/lab/workspaces/{time.time_ns()}")
    page.wait_for_selector("#jp-top-panel")
    page.wait_for_timeout(3000)
    text = page.inner_text("body")
    assert "news" not in text.lower()
    for panel in ("Formgrader", "Create Assignment", "Assignments", "Courses"):
        assert panel not in text, panel


def test_lab_opens_on_the_index_of_lessons(page, lab):
    address, _ = lab
    page.goto(address)
    for lesson in LESSONS:
        (path,) = (ROOT / "lessons" / lesson).glob("*.ipynb")
        title = json.loads(path.read_text("utf-8"))["metadata"]["memory_budget"]["title"]
        page.locator(".jp-Notebook", has_text=title).wait_for()


def test_the_instructors_lab_has_formgrader_on_the_course(page, instructors_lab):
    page.goto(f"{instructors_lab}/formgrader/")
    for lesson in LESSONS:
        page.wait_for_selector(f"text={lesson}")
    page.goto(f"{instructors_lab}/lab")
    page.wait_for_selector("#jp-top-panel")
    page.click("text=Nbgrader >> visible=true")
    page.wait_for_selector("text=Formgrader")
