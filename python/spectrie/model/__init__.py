"""Models: where they come from, their configuration and weights, and the runner that computes them.

Importing this package loads neither torch nor the compiled core.
"""

from __future__ import annotations

from spectrie.model.resolution import ResolvedModel, resolve

__all__ = ["ResolvedModel", "resolve"]
