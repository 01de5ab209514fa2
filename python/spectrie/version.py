"""The version of the installed package."""

from __future__ import annotations

from importlib import metadata

__all__ = ["__version__"]


def _installed() -> str:
    try:
        return metadata.version("spectrie")
    except metadata.PackageNotFoundError:
        # Run from a checkout on PYTHONPATH: the compiled core carries the version.
        try:
            from spectrie._core import __version__ as built
        except ImportError:
            return "0+unbuilt"
        return built


__version__ = _installed()
"""Version string, such as `0.1.0`."""
