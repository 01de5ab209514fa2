"""Waiting for a GPU that may itself wait for a rank that is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from spectrie.errors import RankLost

__all__ = ["Mark", "wait_for"]

_POLL_S = 20e-6
_CHECK_S = 0.05


class Mark(Protocol):
    """A place in the order of what a device does."""

    def query(self) -> bool:
        """Returns whether the device has come there; raises RuntimeError if it failed before."""
        ...


def wait_for(mark: Mark, check: Callable[[], None], timeout_s: float) -> None:
    """Returns once the device has come to `mark`.

    Args:
        mark: Where to.
        check: Raises `RankLost` where the process of a rank has ended; called now and then.
        timeout_s: Seconds after which the ranks are given up.

    Raises:
        RankLost: `check` raised it, or the time is over.
        RuntimeError: The device failed.
    """
    start = checked = time.monotonic()
    while not mark.query():
        now = time.monotonic()
        if now - start > timeout_s:
            raise RankLost(f"another rank is silent for {timeout_s:g} s")
        if now - checked > _CHECK_S:
            checked = now
            check()
        time.sleep(_POLL_S)
