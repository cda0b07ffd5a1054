"""What several test files share: the course's folders, a browser, and a running JupyterLab."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent

# the machines of CI are shared: a slow example says nothing about the code
hypothesis.settings.register_profile("course", deadline=None)
hypothesis.settings.load_profile("course")

# no test may touch the progress file of the person who runs the tests
os.environ["MEMORY_BUDGET_PROGRESS"] = os.devnull


def lesson_names() -> list[str]:
    """Every lesson that has a source notebook, so that a new lesson is tested without naming it here."""
    return sorted(folder.name for folder in (ROOT / "source").glob("lesson-*") if any(folder.glob("*.ipynb")))


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


def find_chromium() -> str | None:
    """A Chromium or Chrome of this machine: MEMORY_BUDGET_CHROMIUM, one on the PATH, or playwright's own."""
    named = os.environ.get("MEMORY_BUDGET_CHROMIUM")
    if named:
        return named
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return None


@pytest.fixture(scope="session")
def browser() -> Iterator:
    """Headless Chromium through playwright; skips with the reason where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    # --no-sandbox: Chromium refuses to start as root with its own sandbox; the pages are ours
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    quiet += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with sync_api.sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=find_chromium(), args=quiet)
        except sync_api.Error as error:
            pytest.skip(
                f"no Chromium could be started ({str(error).splitlines()[0]}); set MEMORY_BUDGET_CHROMIUM"
            )
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """JupyterLab as `make lab` starts it, on a copy of lessons/: its address and the folder it serves."""
    home = tmp_path_factory.mktemp("home with a space")
    folder = home / "lessons"
    shutil.copytree(ROOT / "lessons", folder)
    with jupyterlab(home, "--folder", str(folder)) as address:
        yield address, folder


@pytest.fixture(scope="session")
def instructors_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """JupyterLab as `make instructor` starts it: its address."""
    with jupyterlab(tmp_path_factory.mktemp("instructor"), "--instructor") as address:
        yield address


@contextmanager
def jupyterlab(home: Path, *options: str) -> Iterator[str]:
    """A JupyterLab of a user whose home is `home`, until the block ends: its address."""
    log = home / "lab.log"
    command = [sys.executable, "-m", "autograder.lab", *options, "--no-browser"]
    command += ["--IdentityProvider.token=", "--ServerApp.port=0"]
    environment = {**os.environ, "HOME": str(home), "JUPYTER_RUNTIME_DIR": str(home / "runtime")}
    with log.open("w") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=home)
    try:
        yield _address(log, server)
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _address(log: Path, server: subprocess.Popen) -> str:
    for _ in range(600):
        if found := re.search(r"http://(?:localhost|127\.0\.0\.1):(\d+)/lab", log.read_text()):
            return f"http://localhost:{found[1]}"
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")
