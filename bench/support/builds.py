"""What has another name or form in builds that are compared: one way to reach it in each of them.

A build is measured by the newer checkout's benches, so these must run with an older package too. An
older form goes from here when no bench compares with it any more.
"""

from __future__ import annotations

import importlib
from typing import Any

from spectrie import _core

__all__ = ["engine", "request", "running", "step_loop"]


def engine(**options: Any) -> _core.Engine:
    """An engine with these options."""
    made: _core.Engine = _made(_core.Engine, options)
    return made


def request(**options: Any) -> _core.Request:
    """A request with these options."""
    made: _core.Request = _made(_core.Request, options)
    return made


def step_loop() -> Any:
    """The class `StepLoop`."""
    return _first("StepLoop", "spectrie.engine.loop", "spectrie.worker.loop")


def running() -> Any:
    """The function `running`, which starts another `spectrie` command."""
    return _first("running", "spectrie.supervise.command", "spectrie.cli.process")


def _made(kind: Any, options: dict[str, Any]) -> Any:
    try:
        return kind(options)
    except TypeError:
        return kind(**options)


def _first(name: str, *modules: str) -> Any:
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            continue
    raise ImportError(f"{name} is in none of {', '.join(modules)}")
