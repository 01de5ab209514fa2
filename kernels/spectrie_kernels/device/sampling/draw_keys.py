"""Keys of (score, token id) inside kernels: the greatest is that of the token that is drawn."""

from __future__ import annotations

import triton
import triton.language as tl

from spectrie_kernels.device.sampling.sampling_arithmetic import ascending, logarithm

__all__ = [
    "GREEDY_BELOW",
    "LAST_ID",
    "NOTHING",
    "floor_of",
    "greatest_key",
    "greatest_of_row",
    "is_finite",
    "keyed",
    "keys_of",
    "order_of",
]

GREEDY_BELOW = tl.constexpr(1e-5)
"""Temperatures below it take the likeliest token."""
LAST_ID = tl.constexpr(0xFFFFFFFF)
NOTHING = tl.constexpr(-0x8000000000000000)
"""Below every key."""
_LEAST_FLOAT = tl.constexpr(-3.4028234663852886e38)
_MIDDLE = tl.constexpr(0x80000000)
_MINUS_INFINITY_ORDER = tl.constexpr(0x007FFFFF)
_INFINITY_ORDER = tl.constexpr(0xFF800000)


@triton.jit
def keyed(score, ids):
    """A key that is greatest for the greatest score, of equal ones for the lowest id."""
    return ((ascending(score) - _MIDDLE) << 32) | (ids.to(tl.int64) ^ LAST_ID)


@triton.jit
def order_of(key):
    return (key >> 32) + _MIDDLE


@triton.jit
def is_finite(key):
    order = order_of(key)
    return (order > _MINUS_INFINITY_ORDER) & (order < _INFINITY_ORDER)


@triton.jit
def keys_of(score, ids):
    """The keys of a block; NaN has none, and zeros of either sign are equal."""
    key = keyed(tl.where(score == 0.0, 0.0, score), ids)
    return tl.where(score == score, key, NOTHING)


@triton.jit
def greatest_key(score, ids):
    """The greatest key of a block."""
    return tl.max(keys_of(score, ids), axis=0)


@triton.jit
def greatest_of_row(keys, row, chunks, CHUNKS: tl.constexpr):
    chunk = tl.arange(0, CHUNKS)
    found = tl.load(keys + row * CHUNKS + chunk, mask=chunk < chunks, other=NOTHING)
    return tl.max(found, axis=0)


@triton.jit
def floor_of(min_p, row, greatest):
    """The least score that min-p keeps."""
    share = tl.load(min_p + row)
    logarithmic = logarithm(tl.where(share > 0.0, share, 1.0).to(tl.float64)).to(tl.float32)
    return tl.where(share > 0.0, greatest + logarithmic, _LEAST_FLOAT)
