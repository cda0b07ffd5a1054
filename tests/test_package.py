"""The package as a whole: what importing it loads, and that its public names are there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import memory_budget

HEAVY = ("torch", "numpy", "ipywidgets", "matplotlib", "IPython", "argparse", "json")
PACKAGE = Path(memory_budget.__file__).parent
ORDER = (
    "units", "palette", "tensors", "devices", "optimizers", "recipes", "layouts", "configs", "architectures",
    "adapters", "tape", "activations", "stepping", "inventory", "setup", "moments", "budget", "advice",
    "terminal", "published", "cli",
)  # fmt: skip


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import memory_budget; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "memory_budget.budget" in loaded
    assert not loaded & set(HEAVY)


def test_a_prediction_with_activations_loads_nothing_heavy() -> None:
    code = (
        "import sys, memory_budget as m; m.predict(m.Setup(model='gpt2', batch=1)); "
        "print(*(set(sys.modules) & {'torch', 'numpy', 'ipywidgets', 'matplotlib'}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_every_public_name_is_there() -> None:
    assert all(hasattr(memory_budget, name) for name in memory_budget.__all__)
    assert list(memory_budget.__all__) == sorted(
        memory_budget.__all__, key=lambda n: (n.islower(), not n.isupper(), n)
    )


def imports_of(module: str) -> set[str]:
    """Names of this package's modules that a module imports when it is loaded (not inside functions)."""
    tree = ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("memory_budget"):
            rest = node.module.removeprefix("memory_budget").lstrip(".")
            found |= {rest} if rest else {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("module", ORDER)
def test_arrows_point_one_way(module: str) -> None:
    assert imports_of(module) <= set(ORDER[: ORDER.index(module)])
