"""Spectrie: an LLM inference server with exact, draft-model-free speculation.

`Client` and `AsyncClient` talk to a server, `AdminClient` operates one; `LLM` runs a model in this
process. Each is imported on first use: `import spectrie` loads neither gRPC nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from spectrie import errors
from spectrie.errors import SpectrieError
from spectrie.types import (
    Completion,
    Delta,
    Message,
    ModelInfo,
    Source,
    SpeculationOptions,
    SpeculationStats,
    Timing,
    TokenLogprobs,
    Usage,
)

if TYPE_CHECKING:
    from spectrie.client import AdminClient, AsyncClient, Client
    from spectrie.llm import LLM
    from spectrie.version import __version__

__all__ = [
    "LLM",
    "AdminClient",
    "AsyncClient",
    "Client",
    "Completion",
    "Delta",
    "Message",
    "ModelInfo",
    "Source",
    "SpectrieError",
    "SpeculationOptions",
    "SpeculationStats",
    "Timing",
    "TokenLogprobs",
    "Usage",
    "__version__",
    "errors",
]

_LAZY = {
    "AdminClient": "spectrie.client",
    "Client": "spectrie.client",
    "AsyncClient": "spectrie.client",
    "LLM": "spectrie.llm",
    "__version__": "spectrie.version",
}


if not TYPE_CHECKING:
    # Hidden from type checkers, which would take it for the type of every submodule.
    def __getattr__(name: str) -> object:
        """Imports `Client`, `AsyncClient`, `LLM` or the version on first use."""
        module = _LAZY.get(name)
        if module is None:
            raise AttributeError(f"module 'spectrie' has no attribute {name!r}")
        value: object = getattr(import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Every public name, lazily imported ones included."""
    return sorted(__all__)
