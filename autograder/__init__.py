"""Questions, checks and grading for the course; a notebook needs only `from autograder import check`."""

from __future__ import annotations

__all__ = ["CheckFailed", "check"]


def __getattr__(name: str):
    """Load `check` when it is first asked for, so that parts of the package import alone and fast."""
    if name in __all__:
        from autograder import checking

        return getattr(checking, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
