"""Waiting for what another thread or process brings about."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["wait_until"]

PAUSE_S = 0.01


def wait_until(is_true: Callable[[], bool], seconds: float, complaint: Callable[[], str]) -> None:
    """Returns once `is_true`; fails with what `complaint` says then when that takes too long."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, complaint()
        time.sleep(PAUSE_S)
