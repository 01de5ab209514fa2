"""Noise and masses of sampling in NumPy, operation by operation as rust/sampling defines them.

The definitions: rust/sampling/src/noise.rs and mass.rs. NumPy fuses nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["gumbel", "hash_bits", "logarithm", "rounded_mass", "weight"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
UInt32 = NDArray[np.uint32]

_R = (
    0.666666666666667,
    0.39999999999899505,
    0.28571428625975487,
    0.2222221113479508,
    0.18182889125261723,
    0.15331721600556042,
    0.14616449685043406,
)
_LN_2_HIGH, _LN_2_LOW = 0.6931467056274414, 4.7493250390316726e-07
_SQRT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
_ONE_BITS = np.int64(0x3FF0000000000000)


def _rotated(word: UInt32, count: int) -> UInt32:
    return (word << np.uint32(count)) | (word >> np.uint32(32 - count))


def hash_bits(seed: int, position: int, tokens: UInt32) -> UInt32:
    """Returns the hash of each token at one position of one choice."""
    state = np.zeros(1, np.uint32)
    for words in ([seed & 0xFFFFFFFF], [seed >> 32 & 0xFFFFFFFF], [position], tokens):
        word = np.asarray(words, np.uint32)
        word = _rotated(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _rotated(state ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    value = state ^ np.uint32(16)
    value = (value ^ (value >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    value = (value ^ (value >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return value ^ (value >> np.uint32(16))


def logarithm(x: Float64) -> Float64:
    """Returns ln x of positive normal numbers."""
    bits = x.view(np.int64) + (_ONE_BITS - _SQRT_HALF_BITS)
    k = ((bits >> 52) - 1023).astype(np.float64)
    f = ((bits & ((1 << 52) - 1)) + _SQRT_HALF_BITS).view(np.float64) - 1.0
    h = (f * 0.5) * f
    s = f / (f + 2.0)
    z = s * s
    w = z * z
    even = z * (_R[0] + w * (_R[2] + w * (_R[4] + w * _R[6])))
    odd = w * (_R[1] + w * (_R[3] + w * _R[5]))
    rest = s * (h + (even + odd)) + k * _LN_2_LOW
    result: Float64 = k * _LN_2_HIGH - ((h - rest) - f)
    return result


def gumbel(bits: UInt32) -> Float32:
    """Returns the noise of hashes."""
    uniform = (bits.astype(np.float64) + 0.5) * 2.0**-32
    return (-logarithm(-logarithm(uniform))).astype(np.float32)


def weight(below: Float32) -> Float32:
    """Returns exp of numbers at most 0; 0 below -87 and for NaN."""
    f32 = np.float32
    inside = np.where(below >= f32(-87), below, f32(-87))
    rounded = inside * f32(1.442695) + f32(12582912)
    power = rounded - f32(12582912)
    rest = inside - power * f32(0.6933594) - power * f32(-2.1219444e-4)
    value = np.full_like(below, 1.9875691e-4)
    for c in (1.3981999e-3, 8.333452e-3, 4.1665796e-2, 1.6666665e-1, 0.5):
        value = value * rest + f32(c)
    value = value * rest * rest + rest + f32(1)
    scale = ((rounded.view(np.int32) + np.int32(127)) << 23).view(np.float32)
    result: Float32 = np.where(below >= f32(-87), value * scale, f32(0))
    return result


def rounded_mass(value: Float64) -> NDArray[np.int64]:
    """Returns numbers from 0 to 4,095 in units of 2^-40, to the nearest, ties to even."""
    return (value + 4096.0).view(np.int64) - np.float64(4096.0).view(np.int64)
