"""Bytes that a process has allocated and not freed, and how fast they grow."""

from __future__ import annotations

import ctypes
import gc
import statistics
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

__all__ = ["can_count", "heap_bytes", "resident_bytes", "slope"]


class _Mallinfo2(ctypes.Structure):
    """`struct mallinfo2` of glibc, all in bytes where not said otherwise."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",  # in allocations with a mapping of their own
            "usmblks",
            "fsmblks",
            "uordblks",  # in all other allocations
            "fordblks",
            "keepcost",
        )
    )


def can_count() -> bool:
    """Whether the C library says what is allocated: glibc 2.33 or newer."""
    return hasattr(ctypes.CDLL(None), "mallinfo2")


def heap_bytes() -> int:
    """Bytes in allocations of the C heap, over all threads, once Python's garbage is gone.

    Counts allocations, not pages, so that it does not depend on what the allocator keeps for later. Only what
    threads have at hand, at most some hundred kilobytes, counts as allocated. Python's own objects are among
    them in a process that runs under `PYTHONMALLOC=malloc`.
    """
    gc.collect()
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Mallinfo2
    info = library.mallinfo2()
    return int(info.uordblks) + int(info.hblkhd)


def resident_bytes() -> int:
    """Bytes of memory that the process occupies, after the allocator gave back what it can."""
    ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("the system does not tell resident memory")


def slope(points: Sequence[tuple[int, int]]) -> float:
    """The median of the slopes between every two points (Theil 1950, Sen 1968).

    A table that doubles once, or one measurement that is far off, does not move it; a leak, which adds to
    every interval, does.
    """
    pairs = combinations(sorted(points), 2)
    return statistics.median((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairs)
