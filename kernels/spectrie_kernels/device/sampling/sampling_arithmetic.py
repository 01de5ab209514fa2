"""Noise and masses of sampling inside kernels, with the bits of `spectrie_kernels.reference`.

Kernels that use these are compiled with `enable_fp_fusion=False`: every operation is rounded on its
own. The definitions are those of rust/sampling: noise.rs and mass.rs.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = [
    "ascending",
    "gumbel",
    "gumbel_bound",
    "hash_bits",
    "logarithm",
    "rounded_mass",
    "score_of",
    "weight",
]

_MANTISSA = tl.constexpr((1 << 52) - 1)
_SQRT_HALF_BITS = tl.constexpr(0x3FE6A09E667F3BCD)
_ONE_MINUS_SQRT_HALF_BITS = tl.constexpr(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
_ROUNDER_BITS = tl.constexpr(0x40B0000000000000)


@triton.jit
def _absorb(state, word):
    word = word * 0xCC9E2D51
    word = ((word << 15) | (word >> 17)) * 0x1B873593
    state = state ^ word
    return ((state << 13) | (state >> 19)) * 5 + 0xE6546B64


@triton.jit
def hash_bits(seed, position, token):
    """The 32-bit hash of (seed, position, token); int64, int32 and int32, all of one shape."""
    state = _absorb(tl.zeros_like(token).to(tl.uint32), (seed & 0xFFFFFFFF).to(tl.uint32))
    state = _absorb(state, ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32))
    state = _absorb(state, position.to(tl.uint32))
    value = _absorb(state, token.to(tl.uint32)) ^ 16
    value = (value ^ (value >> 16)) * 0x85EBCA6B
    value = (value ^ (value >> 13)) * 0xC2B2AE35
    return value ^ (value >> 16)


@triton.jit
def logarithm(x):
    """ln x of positive normal float64."""
    bits = x.to(tl.int64, bitcast=True) + _ONE_MINUS_SQRT_HALF_BITS
    k = ((bits >> 52) - 1023).to(tl.int32).to(tl.float64)
    f = ((bits & _MANTISSA) + _SQRT_HALF_BITS).to(tl.float64, bitcast=True) - 1.0
    h = (f * 0.5) * f
    s = f / (f + 2.0)
    z = s * s
    w = z * z
    even = w * 0.14616449685043406 + 0.18182889125261723
    even = w * even + 0.28571428625975487
    even = z * (w * even + 0.666666666666667)
    odd = w * 0.15331721600556042 + 0.2222221113479508
    odd = w * (w * odd + 0.39999999999899505)
    rest = s * (h + (even + odd)) + k * 4.7493250390316726e-07
    return k * 0.6931467056274414 - ((h - rest) - f)


@triton.jit
def gumbel(bits):
    """The noise of a hash, float32."""
    uniform = (bits.to(tl.float64) + 0.5) * 2.3283064365386963e-10
    return (0.0 - logarithm(0.0 - logarithm(uniform))).to(tl.float32)


@triton.jit
def gumbel_bound(bits):
    """A value that the noise of a hash never exceeds, from the exponent of 2^32 - hash alone."""
    left = (bits ^ 0xFFFFFFFF).to(tl.float32).to(tl.int32, bitcast=True)
    # A conversion that rounds up to a power of two is covered by the hundredth.
    return (32 - ((left >> 23) - 127)).to(tl.float32) * 0.6932 + 0.01


@triton.jit
def weight(below):
    """exp of a float32 at most 0; 0 below -87 and for NaN."""
    inside = tl.where(below >= -87.0, below, -87.0)
    rounded = inside * 1.442695 + 12582912.0
    power = rounded - 12582912.0
    rest = inside - power * 0.6933594 - power * -2.1219444e-4
    value = rest * 1.9875691e-4 + 1.3981999e-3
    value = value * rest + 8.333452e-3
    value = value * rest + 4.1665796e-2
    value = value * rest + 1.6666665e-1
    value = value * rest + 0.5
    value = value * rest * rest + rest + 1.0
    scale = ((rounded.to(tl.int32, bitcast=True) + 127) << 23).to(tl.float32, bitcast=True)
    return tl.where(below >= -87.0, value * scale, 0.0)


@triton.jit
def rounded_mass(value):
    """A float64 from 0 to 4,095 in units of 2^-40, int64."""
    return (value + 4096.0).to(tl.int64, bitcast=True) - _ROUNDER_BITS


@triton.jit
def ascending(score):
    """An int64 from 0 to 2^32 - 1 in the order of float32, -0 before 0."""
    bits = score.to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64) + 2147483648


@triton.jit
def score_of(order):
    """The float32 that `ascending` gave."""
    bits = (order - 2147483648).to(tl.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
