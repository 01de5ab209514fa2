"""What the steps of a model ask of a device: order, copies, events and recorded work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

__all__ = ["CudaDevice", "Device", "Event", "Recorded", "Span", "open_device"]

Work = Callable[[], None]
"""Launches kernels and copies on tensors that stay where they are; waits for nothing."""


class Event(Protocol):
    """A point in the order of a device's work."""

    def record(self) -> None:
        """Moves the point to behind all that was launched so far."""

    @property
    def is_reached(self) -> bool:
        """Whether `wait` would return at once."""

    def wait(self) -> None:
        """Blocks until the device has come to the point, without the GIL; at once if it was never
        recorded."""


class Span(Protocol):
    """A stretch of a device's work, measured by the device's clock."""

    def begin(self) -> None:
        """Begins it behind all that was launched so far."""

    def end(self) -> None:
        """Ends it behind all that was launched so far, also where it was ended before."""

    def milliseconds(self) -> float:
        """Returns its length; blocks until the device has come to its end."""


class Recorded(Protocol):
    """Work that one launch repeats."""

    def launch(self) -> None:
        """Launches the work behind all that was launched before."""


class Device(Protocol):
    """Does work in the order in which it is launched, while the host goes on."""

    def pinned(self, elements: int) -> torch.Tensor:
        """Returns int32 memory of the host, zeros, that copies to and from the device may use."""

    def event(self) -> Event:
        """Returns a new event."""

    def span(self) -> Span:
        """Returns a new stretch of work."""

    def launch(self, work: Work) -> None:
        """Launches some work."""

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Launches a copy; one side is pinned, the other on the device."""

    def record(self, work: Work) -> Recorded:
        """Returns work to be repeated, recorded without being done.

        The same work was launched before, so that nothing is compiled or allocated meanwhile.
        """

    def wait(self) -> None:
        """Blocks until all work is done."""


class CudaDevice:
    """A GPU, by the current stream of the calling thread and CUDA graphs."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None

    def pinned(self, elements: int) -> torch.Tensor:
        return torch.zeros(elements, dtype=torch.int32, pin_memory=True)

    def event(self) -> Event:
        return _CudaEvent(self._device)

    def span(self) -> Span:
        return _CudaSpan(self._device)

    def launch(self, work: Work) -> None:
        work()

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        target.copy_(source, non_blocking=True)

    def record(self, work: Work) -> Recorded:
        graph = torch.cuda.CUDAGraph()
        # Other threads of this process may go on with CUDA of their own meanwhile.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            work()
        self._pool = graph.pool()
        return _CudaGraph(graph)

    def wait(self) -> None:
        torch.cuda.synchronize(self._device)


class _CudaEvent:
    def __init__(self, device: torch.device) -> None:
        self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._stream = torch.cuda.current_stream(device)

    def record(self) -> None:
        self._event.record(self._stream)

    @property
    def is_reached(self) -> bool:
        return bool(self._event.query())  # type: ignore[no-untyped-call]

    def wait(self) -> None:
        self._event.synchronize()


class _CudaSpan:
    def __init__(self, device: torch.device) -> None:
        cuda: Any = torch.cuda
        self._begin, self._end = (cuda.Event(enable_timing=True) for _ in range(2))
        self._stream = torch.cuda.current_stream(device)

    def begin(self) -> None:
        self._begin.record(self._stream)

    def end(self) -> None:
        self._end.record(self._stream)

    def milliseconds(self) -> float:
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end))


class _CudaGraph:
    def __init__(self, graph: torch.cuda.CUDAGraph) -> None:
        self._graph = graph

    def launch(self) -> None:
        self._graph.replay()


def open_device(device: torch.device) -> Device:
    """Returns the device that steps of tensors on `device` run on."""
    return CudaDevice(device)
