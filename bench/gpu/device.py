"""The device that is visited: its facts, and the rates that all floors are shares of."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Protocol

import torch

from bench.gpu.check import Item, Settings
from bench.gpu.clock import Clock, clock_of

__all__ = ["Device", "device_of", "items"]

_REPEATS = 10


class Device(Protocol):
    """What a visit asks of a device.

    Attributes:
        torch_device: Where tensors are.
        copy_bytes: Size of the buffer that is copied to measure bandwidth.
        matrix_size: Rows, columns and depth of the product that measures the matrix rate.
        capability: Compute capability that kernels are compiled for, as 90 for 9.0.
    """

    torch_device: torch.device
    copy_bytes: int
    matrix_size: int
    capability: int

    def facts(self) -> dict[str, Any]:
        """What it is."""


class Cuda:
    """The first CUDA device."""

    matrix_size = 8192

    def __init__(self) -> None:
        self.torch_device = torch.device("cuda", 0)
        # Far more than the caches hold.
        self.copy_bytes = min(4 << 30, torch.cuda.get_device_properties(0).total_memory // 16)
        major, minor = torch.cuda.get_device_capability(0)
        self.capability = 10 * major + minor

    def facts(self) -> dict[str, Any]:
        """See `Device`."""
        properties = torch.cuda.get_device_properties(0)
        return {
            "name": properties.name,
            "capability": self.capability,
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "cuda": torch.version.cuda,
        }


class Dry:
    """No device: tensors of the CPU."""

    torch_device = torch.device("cpu")
    copy_bytes = 1 << 16
    matrix_size = 32
    capability = 90

    def facts(self) -> dict[str, Any]:
        """See `Device`."""
        return {"name": "dry", "capability": self.capability, "multiprocessors": 0}


@cache
def device_of(dry: bool) -> Device:
    """The device of this process."""
    return Dry() if dry else Cuda()


def items(settings: Settings) -> Iterator[Item]:
    """What the device is, and what it copies and multiplies a second."""
    device, clock = device_of(settings.dry), clock_of(settings.dry)
    yield Item("facts", lambda: device.facts() | _versions())
    yield Item("copy", lambda: {"copy_bytes_per_second": _copy_rate(device, clock)})
    yield Item("matrix", lambda: {"matrix_flops_per_second": _matrix_rate(device, clock)})


def _versions() -> dict[str, str]:
    from importlib import metadata

    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("torch", "triton")},
    }


def _copy_rate(device: Device, clock: Clock) -> float:
    """Bytes read and written a second by the fastest of some copies from device to device."""
    source = torch.empty(device.copy_bytes, dtype=torch.uint8, device=device.torch_device)
    target = torch.empty_like(source)
    return 2 * device.copy_bytes / _fastest(clock, lambda: target.copy_(source))


def _matrix_rate(device: Device, clock: Clock) -> float:
    """Multiplications and additions a second by the fastest of some bfloat16 products."""
    size = device.matrix_size
    # Of random numbers: with zeros, a device draws less power and runs faster.
    left, right = torch.randn(2, size, size, device=device.torch_device).bfloat16()
    return 2 * size**3 / _fastest(clock, lambda: left @ right)


def _fastest(clock: Clock, action: Callable[[], object]) -> float:
    action()
    times = []
    for _ in range(_REPEATS):
        started = clock.seconds()
        action()
        times.append(clock.seconds() - started)
    return min(times)
