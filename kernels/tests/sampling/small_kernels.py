"""Kernels around single functions of sampling, and broken forms of these."""

from __future__ import annotations

import triton
import triton.language as tl

from spectrie_kernels.device.sampling.draw_keys import keyed
from spectrie_kernels.device.sampling.sampling_arithmetic import (
    ascending,
    gumbel,
    gumbel_bound,
    hash_bits,
    rounded_mass,
    score_of,
    weight,
)


@triton.jit
def noise_kernel(seed, position, token, bits, noise, bound, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    found = hash_bits(tl.load(seed + at), tl.load(position + at), tl.load(token + at))
    tl.store(bits + at, found.to(tl.int64))
    tl.store(noise + at, gumbel(found))
    tl.store(bound + at, gumbel_bound(found))


@triton.jit
def gumbel_kernel(bits, noise, bound, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    given = tl.load(bits + at).to(tl.uint32)
    tl.store(noise + at, gumbel(given))
    tl.store(bound + at, gumbel_bound(given))


@triton.jit
def mass_kernel(below, mass, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    found = weight(tl.load(below + at))
    tl.store(mass + at, rounded_mass(found.to(tl.float64)))


@triton.jit
def order_kernel(scores, order, back, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    found = ascending(tl.load(scores + at))
    tl.store(order + at, found)
    tl.store(back + at, score_of(found))


@triton.jit
def coarse_order(score):
    """The order of a score, in steps of an eighth."""
    return (ascending(score) >> 20) << 20


@triton.jit
def same_noise(seed, position, token):
    """A hash that knows nothing of the position."""
    return hash_bits(seed, position * 0, token)


@triton.jit
def last_of_greatest(score, ids):
    """The greatest key of a block, of equal scores that of the highest id."""
    return tl.max(keyed(score, ids) ^ 0xFFFFFFFF, axis=0) ^ 0xFFFFFFFF


@triton.jit
def greatest_key_again(key, WIDTH: tl.constexpr):
    """The greatest key at every place."""
    return tl.zeros((WIDTH,), tl.int64) + tl.max(key, axis=0)


@triton.jit
def greatest_of_highest_id(weight, ids):
    """The greatest weight, and of those that have it the highest id."""
    greatest = tl.max(weight, axis=0)
    return greatest, tl.max(tl.where(weight == greatest, ids, -1), axis=0)


@triton.jit
def any_child(choices, tokens, parents, count, MAX_ROWS: tl.constexpr):
    """Goes on to the first child, whatever was drawn."""
    rows = tl.arange(0, MAX_ROWS)
    is_row = rows < count
    choice = tl.load(choices + rows, mask=is_row, other=-1)
    parent = tl.load(parents + rows, mask=is_row, other=-2)
    node = count * 0
    chosen = node - 1
    passed = node
    following = node
    while following < count:
        node = following
        chosen = tl.sum(tl.where(rows == node, choice, 0), axis=0)
        child = is_row & (rows > node) & (parent == node)
        following = tl.min(tl.where(child, rows, MAX_ROWS), axis=0)
        passed += 1
    return node, chosen, passed
