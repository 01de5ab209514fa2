"""What counts as growth, and that an allocation counts."""

from __future__ import annotations

import ctypes

import pytest

from tests.soak.heap import can_count, heap_bytes, slope

LINE = [(requests, 1000 + 100 * requests) for requests in range(0, 4000, 40)]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (LINE, 100.0),
        # One measurement far off, one table that doubled: neither is a leak.
        ([(41, 10**9), *LINE], 100.0),
        ([(x, 1000 if x < 1000 else 900_000) for x, _ in LINE], 0.0),
        ([(x, 1000 + x % 3 * 10**6) for x, _ in LINE], 0.0),
    ],
)
def test_growth_is_what_most_intervals_have(points: list[tuple[int, int]], expected: float) -> None:
    assert slope(points) == pytest.approx(expected, abs=1.0)


@pytest.mark.skipif(not can_count(), reason="the C library does not count allocations")
@pytest.mark.parametrize("count", [1 << 16, 16 << 20], ids=["heap", "mapping"])
def test_an_allocation_counts_until_it_is_freed(count: int) -> None:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    before = heap_bytes()
    pointer = ctypes.c_void_p(library.malloc(ctypes.c_size_t(count)))
    held = heap_bytes()
    library.free(pointer)
    freed = heap_bytes()
    # Other threads of the tests allocate meanwhile, much less than this.
    assert held - before > count / 2 and held - freed > count / 2
