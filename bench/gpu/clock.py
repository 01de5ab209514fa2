"""The clock of a visit."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

__all__ = ["Clock", "clock_of"]

_RUNS = 15
_CYCLES_PER_SECOND = 2.5e9
"""More than any device has, so that the pause below is never too short."""
_PAUSE_SECONDS = 2e-4


class Clock(Protocol):
    """Tells the time of a device."""

    def seconds(self) -> float:
        """The time, in seconds from some start, once all that was launched on the device is done."""

    def microseconds(self, action: Callable[[], object], *, cold: bool = False) -> float:
        """What the device takes for all that `action` launches: the median of some runs.

        Args:
            action: Launches, and does not wait for the device.
            cold: Whether the device's caches hold other data before each run.
        """


class _DeviceClock:
    def seconds(self) -> float:
        import torch

        torch.cuda.synchronize()
        return time.perf_counter()

    def microseconds(self, action: Callable[[], object], *, cold: bool = False) -> float:
        import torch

        cuda: Any = torch.cuda
        action()  # compiles
        torch.cuda.synchronize()
        started = time.perf_counter()
        action()
        # While the device pauses all launches are queued, so that none of them waits for the host.
        pause = _PAUSE_SECONDS + 2 * (time.perf_counter() - started)
        cycles = int(pause * _CYCLES_PER_SECOND)
        events = []
        for _ in range(_RUNS):
            if cold:
                # Read, not written: nothing is left that must be written back meanwhile.
                torch.sum(self._others)
            cuda._sleep(cycles)
            pair = [cuda.Event(enable_timing=True) for _ in range(2)]
            pair[0].record()
            action()
            pair[1].record()
            events.append(pair)
        torch.cuda.synchronize()
        return statistics.median(1e3 * float(one.elapsed_time(end)) for one, end in events)

    @cached_property
    def _others(self) -> torch.Tensor:
        """Four times what the caches hold."""
        import torch

        size = torch.cuda.get_device_properties(0).L2_cache_size
        return torch.zeros(size, dtype=torch.int32, device="cuda")


class _CountingClock:
    """Every reading takes a millisecond, so that no time is taken for one of a device."""

    def __init__(self) -> None:
        self._readings = 0

    def seconds(self) -> float:
        self._readings += 1
        return self._readings / 1e3

    def microseconds(self, action: Callable[[], object], *, cold: bool = False) -> float:
        action()
        return 1e3


@cache
def clock_of(dry: bool) -> Clock:
    """The clock of this process; without a device one that counts its readings."""
    return _CountingClock() if dry else _DeviceClock()
