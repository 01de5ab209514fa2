"""The clock of a visit."""

from __future__ import annotations

import time
from functools import cache
from typing import Protocol

__all__ = ["Clock", "clock_of"]


class Clock(Protocol):
    """Tells the time of a device."""

    def seconds(self) -> float:
        """The time, in seconds from some start, once all that was launched on the device is done."""


class _DeviceClock:
    def seconds(self) -> float:
        import torch

        torch.cuda.synchronize()
        return time.perf_counter()


class _CountingClock:
    """Every reading takes a millisecond, so that no time is taken for one of a device."""

    def __init__(self) -> None:
        self._readings = 0

    def seconds(self) -> float:
        self._readings += 1
        return self._readings / 1e3


@cache
def clock_of(dry: bool) -> Clock:
    """The clock of this process; without a device one that counts its readings."""
    return _CountingClock() if dry else _DeviceClock()
