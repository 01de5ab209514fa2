"""What a command says where the package came without its compiled core."""

from __future__ import annotations

import platform
from importlib import util

__all__ = ["why_no_core"]


def why_no_core() -> str | None:
    """Returns why servers and models cannot run here; None where the core is installed."""
    if util.find_spec("spectrie._core") is not None:
        return None
    here = f"{platform.system()} {platform.machine()}"
    return (
        f"this is the client alone, as the package has no core for {here}: run servers and models on Linux, "
        "or build from source; spectrie.Client works here"
    )
