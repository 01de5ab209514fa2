"""How fast this machine reads a buffer of a given size, by the best of several readers."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_bandwidth"]

ROUNDS = 2


def read_bandwidth(threads: int, num_bytes: int) -> float:
    """Bytes per second that `threads` threads read of `num_bytes` bytes, again and again.

    The size counts: what a last-level cache keeps from one round to the next is read faster, for
    weights as for this buffer. No reader is the fastest on every machine: a sum, a maximum (one
    stream a thread) and a comparison of two halves (two streams a thread) take turns, and the best
    round of all counts.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    data = torch.ones(num_bytes // 4, dtype=torch.float32)
    parts = np.array_split(data.numpy(), threads)
    best_s = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        readers: list[Callable[[], object]] = [
            data.sum,
            lambda: list(pool.map(np.max, parts)),
            lambda: list(pool.map(_compare_halves, parts)),
        ]
        for _ in range(ROUNDS):
            for read in readers:
                began = time.perf_counter()
                read()
                best_s = min(best_s, time.perf_counter() - began)
    torch.set_num_threads(before)
    return num_bytes / best_s


def _compare_halves(part: NDArray[np.float32]) -> None:
    """The halves are equal, so that all of both is read; ctypes lets other threads run meanwhile."""
    half = part.nbytes // 2
    first = part.ctypes.data
    if _MEMCMP(first, first + half, half) != 0:
        raise RuntimeError("equal halves differ: memory is damaged")


_MEMCMP = ctypes.CDLL(None).memcmp
_MEMCMP.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
