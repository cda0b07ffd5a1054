"""How long from a key press to the new picture: our bars, and the same bars by `interact` and matplotlib?

Both run in one JupyterLab in headless Chromium, in turns, on the same slider with the same numbers.
Usage: python tests/benchmarks/bars.py [--presses 40] [--json PATH]
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM_OPTIONS = [
    "--no-sandbox",  # Chromium refuses to start as root with its own sandbox; the pages are ours
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

OURS = """from memory_budget import bars
bars.training()"""

THEIRS = """import ipywidgets
import matplotlib.pyplot as plt
from memory_budget import bars, budget
from memory_budget.devices import DEVICES
from memory_budget.palette import TENSOR_CLASSES
from memory_budget.units import GB, bytes_text, count_text

def draw(parameters, recipe, optimizer, device_bytes):
    here = budget.predict(budget.Setup(parameters=parameters, recipe=recipe, optimizer=optimizer))
    figure, axes = plt.subplots(figsize=(7.6, 2.6))
    for row, sizes in enumerate(({"weights": here.bytes["weights"]}, here.bytes)):
        left = 0
        for key, size in sizes.items():
            if size:
                kind = TENSOR_CLASSES[key]
                label = kind.label if row else None
                axes.barh(-row, size / GB, left=left / GB, color=kind.colour, label=label)
                axes.text((left + size / 2) / GB, -row, bytes_text(size), ha="center", color=kind.text_colour)
                left += size
        axes.text(left / GB, -row, bytes_text(left))
    for device in DEVICES:
        axes.axvline(device.bytes / GB, lw=2 if device.bytes == device_bytes else 1)
    axes.set_yticks([0, -1], ["weights alone", "training"])
    axes.set_xlabel("GB")
    axes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    plt.show()
    print(here.sentence(device_bytes))

ipywidgets.interact(
    draw,
    parameters=ipywidgets.SelectionSlider(options=[(count_text(n), n) for n in bars.SIZES], value=7 * 10**9),
    recipe=ipywidgets.Dropdown(options=bars.RECIPE_OPTIONS, value="mixed"),
    optimizer=ipywidgets.Dropdown(options=bars.OPTIMIZER_OPTIONS, value="adamw"),
    device_bytes=ipywidgets.Dropdown(options=bars.DEVICE_OPTIONS, value=80 * GB),
);"""

# Times one press inside the page: from the key event to the frame that shows a changed picture.
WATCH = """(kind) => {
  const output = [...document.querySelectorAll('.jp-CodeCell')][kind === 'ours' ? 0 : 1];
  const picture = () => {
    const svg = output.querySelector('svg[role=img]');
    if (kind === 'ours') return svg && svg.getAttribute('aria-label');
    const image = output.querySelector('img'); return image && image.src;
  };
  const before = picture();
  let start = null;
  window.measured = null;
  const pressed = () => { start = performance.now(); window.removeEventListener('keydown', pressed, true); };
  window.addEventListener('keydown', pressed, true);
  const seen = async () => {
    if (start === null || !picture() || picture() === before) return;
    watcher.disconnect();
    const image = kind === 'ours' ? null : output.querySelector('img');
    if (image) await image.decode().catch(() => 0);
    requestAnimationFrame(() => { window.measured = performance.now() - start; });
  };
  const watcher = new MutationObserver(seen);
  watcher.observe(output, {subtree: true, childList: true, attributes: true, characterData: true});
}"""


@contextlib.contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """A JupyterLab without a password on a free port; gives its address and ends it afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"JUPYTER_CONFIG_DIR": str(folder / "config"), "PYTHONPATH": str(ROOT)}
    options = [
        f"--port={port}",
        f"--ServerApp.root_dir={folder}",
        "--IdentityProvider.token=",
        "--allow-root",
    ]
    options += [
        "--no-browser",
        f"--LabApp.user_settings_dir={folder}/settings",
        f"--LabApp.workspaces_dir={folder}/w",
    ]
    with open(folder / "server.log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(240):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/api", timeout=5).read()
                break
            time.sleep(0.25)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=30)


def write_notebook(path: Path) -> None:
    """The two cells to compare."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (OURS, THEIRS)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)


def run_cells(page: Page, address: str) -> None:
    """Open the notebook, run both cells, and wait for both pictures."""
    page.set_default_timeout(90_000)
    page.goto(f"{address}/lab/tree/bars.ipynb")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']", state="attached")
    page.wait_for_timeout(2000)
    for _ in range(10):  # the menu is deaf for a moment after JupyterLab has drawn itself
        page.click("text=Run >> visible=true")
        page.click("text='Run All Cells'")
        page.wait_for_timeout(3000)
        if page.locator(".jp-OutputArea-child").count():
            break
    page.wait_for_selector(".jp-CodeCell img")
    page.wait_for_timeout(3000)


def press_ms(page: Page, kind: str, key: str) -> float:
    """Milliseconds from one press of an arrow key on the first slider to the new picture."""
    page.locator(".jp-CodeCell").nth(0 if kind == "ours" else 1).locator(".noUi-handle").first.focus()
    page.evaluate(WATCH, kind)
    page.keyboard.press(key)
    page.wait_for_function("() => window.measured !== null")
    page.wait_for_timeout(150)
    return page.evaluate("window.measured")


def measure(presses: int, chromium: str) -> dict[str, list[float]]:
    """Times of both kinds in milliseconds, pressed in turns so that a busy machine is busy for both."""
    times: dict[str, list[float]] = {"ours": [], "interact": []}
    with (
        tempfile.TemporaryDirectory() as name,
        jupyterlab(Path(name)) as address,
        sync_playwright() as player,
    ):
        write_notebook(Path(name) / "bars.ipynb")
        browser = player.chromium.launch(executable_path=chromium, args=CHROMIUM_OPTIONS)
        page = browser.new_page(viewport={"width": 1280, "height": 1900})
        run_cells(page, address)
        for i in range(presses + 3):
            for kind, taken in times.items():
                milliseconds = press_ms(page, kind, "ArrowRight" if i % 2 else "ArrowLeft")
                if i >= 3:
                    taken.append(milliseconds)
        browser.close()
    return times


def report(times: dict[str, list[float]]) -> dict[str, float]:
    """Medians and their ratio."""
    ours, theirs = (statistics.median(times[kind]) for kind in ("ours", "interact"))
    return {
        "presses": len(times["ours"]),
        "ours_median_ms": round(ours, 1),
        "ours_worst_ms": round(max(times["ours"]), 1),
        "interact_median_ms": round(theirs, 1),
        "ratio": round(ours / theirs, 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presses", type=int, default=40)
    parser.add_argument("--json", type=Path, help="write the result to this file, too")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("Chromium is missing: this benchmark drives it (on Debian: apt install chromium)")
        return 1
    result = report(measure(options.presses, chromium))
    print(
        f"Key press to new picture, median of {result['presses']}: ours {result['ours_median_ms']} ms (worst "
        f"{result['ours_worst_ms']}), interact with matplotlib {result['interact_median_ms']} ms; "
        f"ratio {result['ratio']}"
    )
    if options.json:
        options.json.write_text(json.dumps(result) + "\n", encoding="utf-8")
    return 0 if result["ratio"] <= 1 / 3 else 2


if __name__ == "__main__":
    sys.exit(main())
