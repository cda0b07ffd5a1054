"""Opens JupyterLab: on the lessons for a learner, on the whole course for an instructor."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from autograder.course import course

ROOT = course().root


def lab_command(*, folder: Path | None, instructor: bool, options: list[str]) -> list[str]:
    """The command line that starts JupyterLab in `folder`; `options` go to JupyterLab as they are."""
    folder = folder or (ROOT if instructor else ROOT / "lessons")
    start = "/lab/tree/index.ipynb" if (folder / "index.ipynb").exists() else "/lab"
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder}"]
    command.append(f"--LabApp.default_url={start}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command + options


def lab_environment(*, instructor: bool) -> dict[str, str]:
    """The environment JupyterLab needs: our settings first, and nbgrader's own commands on the PATH."""
    settings = ROOT / "jupyter" / ("instructor" if instructor else "learner")
    return {
        **os.environ,
        "JUPYTER_CONFIG_PATH": _before(settings, os.environ.get("JUPYTER_CONFIG_PATH")),
        # nbgrader starts `alembic` by name, which lies beside this python
        "PATH": _before(Path(sys.executable).parent, os.environ.get("PATH")),
    }


def _before(first: Path, rest: str | None) -> str:
    return os.pathsep.join([str(first), rest]) if rest else str(first)


def main(arguments: list[str] | None = None) -> int:
    """Start JupyterLab and stay until it ends; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m autograder.lab", description=__doc__)
    parser.add_argument("--instructor", action="store_true", help="open the whole course with formgrader")
    parser.add_argument("--folder", type=Path, help="open this folder, say your own copy of lessons/")
    parser.epilog = "Other options go to JupyterLab, for example --no-browser or --port=9000."
    chosen, options = parser.parse_known_args(arguments)
    if chosen.folder and not chosen.folder.is_dir():
        parser.error(f"--folder {chosen.folder}: there is no such folder")
    folder = chosen.folder and chosen.folder.resolve()
    command = lab_command(folder=folder, instructor=chosen.instructor, options=options)
    environment = lab_environment(instructor=chosen.instructor)
    os.chdir(ROOT)
    if os.name == "posix":
        # in our place, so that a signal sent to us reaches JupyterLab
        os.execve(command[0], command, environment)
    try:
        return subprocess.call(command, env=environment)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
