"""Items that go wrong in every way, for a check of the supervisor."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from bench.gpu.check import Item, Settings, Wrong

__all__ = ["broken", "items"]


def _fail() -> Mapping[str, Any]:
    raise ValueError("planted")


def _contradict() -> Mapping[str, Any]:
    raise Wrong("planted: 3 rows differ", {"rows": 3})


def _hang() -> Mapping[str, Any]:
    time.sleep(600)
    return {}


def _kill() -> Mapping[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def items(settings: Settings) -> Iterator[Item]:
    """Good items around bad ones."""
    yield Item("first", lambda: {"process": os.getpid()})
    yield Item("raises", _fail)
    yield Item("contradicts", _contradict)
    yield Item("same process", lambda: {"process": os.getpid()})
    yield Item("is killed", _kill)
    yield Item("exits", partial(os._exit, 7))
    yield Item("hangs", _hang)
    yield Item("last", lambda: {"process": os.getpid(), "dry": settings.dry})


def broken(settings: Settings) -> Iterator[Item]:
    """Not even a first item."""
    raise ImportError("planted before any item")
    yield Item("never", dict)
