"""A device that does its work late, on tensors of this CPU."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

import torch

__all__ = ["WORK_MS", "FakeDevice"]

Work = Callable[[], None]

WORK_MS = 0.5
"""What each launch, copy and replay takes by the device's own clock, however long the host's says."""


class FakeDevice:
    """Does what was launched when the host waits for it, and not before: a host that forgets to wait, or
    writes to memory that a copy has yet to read, gets wrong answers.

    Attributes:
        counts: How often each of `launch`, `copy`, `record`, `replay`, `event` and `wait` was called.
        sent_bytes: What copies to pinned memory brought to the host.
        clock_ms: What its clock shows.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.sent_bytes = 0
        self.clock_ms = 0.0
        # Held, so that no other tensor has its address.
        self._pinned: dict[int, torch.Tensor] = {}
        self._queue: deque[Callable[[], object]] = deque()
        self._is_working = False

    def pinned(self, elements: int) -> torch.Tensor:
        """See `Device`."""
        self.counts["pinned"] += 1
        memory = torch.zeros(elements, dtype=torch.int32)
        self._pinned[memory.untyped_storage().data_ptr()] = memory
        return memory

    def event(self) -> _Event:
        """See `Device`."""
        return _Event(self)

    def span(self) -> _Span:
        """See `Device`."""
        return _Span(self)

    def launch(self, work: Work) -> None:
        """See `Device`."""
        self.counts["launch"] += 1
        self.add(work, WORK_MS)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """See `Device`."""
        self.counts["copy"] += 1
        if target.untyped_storage().data_ptr() in self._pinned:
            self.sent_bytes += target.nbytes
        self.add(lambda: target.copy_(source), WORK_MS)

    def record(self, work: Work) -> _Recorded:
        """See `Device`; the work is not done."""
        self.counts["record"] += 1
        return _Recorded(self, work)

    def wait(self) -> None:
        """See `Device`."""
        self.counts["wait"] += 1
        while self._queue:
            self._do(self._queue.popleft())

    @property
    def is_busy(self) -> bool:
        """Whether there is work that was launched and not done."""
        return bool(self._queue)

    def add(self, work: Callable[[], object], milliseconds: float = 0.0) -> None:
        """Puts some work behind the rest, uncounted, that takes so long by the device's clock."""

        def timed() -> None:
            work()
            self.clock_ms += milliseconds

        # Of work in progress all launches are in place.
        if self._is_working:
            timed()
        else:
            self._queue.append(timed)

    def work_until(self, is_there: Callable[[], bool]) -> None:
        """Works until the host has what it waits for."""
        while self._queue and not is_there():
            self._do(self._queue.popleft())

    def _do(self, work: Callable[[], object]) -> None:
        self._is_working = True
        try:
            work()
        finally:
            self._is_working = False


class _Event:
    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        self._recorded = 0
        self._reached = 0

    def record(self) -> None:
        self._device.counts["event"] += 1
        self._recorded += 1
        point = self._recorded

        def reach() -> None:
            self._reached = point

        self._device.add(reach)

    @property
    def is_reached(self) -> bool:
        return self._reached >= self._recorded

    def wait(self) -> None:
        self._device.counts["wait"] += 1
        self._device.work_until(lambda: self.is_reached)


class _Span:
    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        self._begin_ms = self._end_ms = 0.0
        self._ends = 0

    def begin(self) -> None:
        def note() -> None:
            self._begin_ms = self._device.clock_ms

        self._device.add(note)

    def end(self) -> None:
        self._ends += 1

        def note() -> None:
            self._end_ms = self._device.clock_ms
            self._ends -= 1

        self._device.add(note)

    def milliseconds(self) -> float:
        # The last of those that were launched.
        self._device.work_until(lambda: self._ends == 0)
        return self._end_ms - self._begin_ms


class _Recorded:
    def __init__(self, device: FakeDevice, work: Work) -> None:
        self._device = device
        self._work = work

    def launch(self) -> None:
        self._device.counts["replay"] += 1
        self._device.add(self._work, WORK_MS)
