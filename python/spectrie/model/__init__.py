"""Models: their sources, configuration and weights, and the runner that computes their logits.

Importing this package loads neither torch, NumPy nor the compiled core. The router's commands need
none of them and import its smaller files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spectrie.model.load import load_runner

if TYPE_CHECKING:
    from spectrie.model.runner.runner import Runner
    from spectrie.model.sources.resolution import ResolvedModel, resolve

__all__ = ["ResolvedModel", "Runner", "load_runner", "resolve"]


def __getattr__(name: str) -> object:
    if name == "Runner":
        from spectrie.model.runner.runner import Runner

        return Runner
    if name in {"ResolvedModel", "resolve"}:
        from spectrie.model.sources import resolution

        value: object = getattr(resolution, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
