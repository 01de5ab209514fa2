"""Models: where they come from, their configuration and weights, and the runner that computes them.

Importing this package loads neither torch nor the compiled core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spectrie.model.entry import load_runner
from spectrie.model.resolution import ResolvedModel, resolve

if TYPE_CHECKING:
    from spectrie.model.runner import Runner

__all__ = ["ResolvedModel", "Runner", "load_runner", "resolve"]


def __getattr__(name: str) -> object:
    if name == "Runner":
        from spectrie.model.runner import Runner

        return Runner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
