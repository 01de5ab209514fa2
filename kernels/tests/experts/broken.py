"""Kernels and parts of kernels with one fault each, which tests must find."""

from __future__ import annotations

import triton
import triton.language as tl

from spectrie_kernels.device.linear import segment_sum
from spectrie_kernels.device.sampling.draw_keys import NOTHING, keyed


@triton.jit
def last_of_equal(score, expert, inside):
    """Of equal scores the highest expert."""
    key = keyed(tl.where(score == 0.0, 0.0, score), 1024 - expert)
    return tl.where(inside, key, NOTHING)


@triton.jit
def nan_has_no_key(score, expert, inside):
    """A row of NaN finds no expert."""
    key = keyed(tl.where(score == 0.0, 0.0, score), expert)
    return tl.where(inside & (score == score), key, NOTHING)


@triton.jit(do_not_specialize=["num_choices"])
def group_with_padding(
    ids,
    choices,
    tiles,
    count,
    num_choices,
    EXPERTS: tl.constexpr,
    HEIGHT: tl.constexpr,
    BINS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Rows that stand for none go to expert 0; for few choices."""
    expert = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    chosen = tl.load(ids + place, mask=place < num_choices, other=EXPERTS)
    counts = tl.histogram(tl.maximum(chosen, 0), BINS)
    bins = tl.arange(0, BINS)
    begin = tl.sum(tl.where(bins < expert, counts, 0), axis=0)
    first_tile = tl.sum(tl.where((bins < expert) & (counts > 0), 1, 0), axis=0)
    mine = tl.maximum(chosen, 0) == expert
    own = tl.sum(mine.to(tl.int32), axis=0)
    if expert == EXPERTS - 1:
        tl.store(count, first_tile + (own > 0).to(tl.int32))
    if own > 0:
        tl.store(tiles + first_tile * 4, expert)
        tl.store(tiles + first_tile * 4 + 1, begin)
        tl.store(tiles + first_tile * 4 + 2, own)
        tl.store(choices + begin + tl.cumsum(mine.to(tl.int32), axis=0) - 1, place, mask=mine)


@triton.jit
def one_accumulator(
    x_at,
    weight_at,
    segment,
    padded,
    IN_FEATURES: tl.constexpr,
    SEGMENT: tl.constexpr,
    EVEN: tl.constexpr,
    BLOCK_FEATURES: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
):
    """All terms in the first segment, and none in the others."""
    acc = tl.zeros((BLOCK_FEATURES, BLOCK_ROWS), tl.float32)
    if segment == 0:
        acc += segment_sum(
            x_at,
            weight_at,
            segment,
            (IN_FEATURES + 63) // 64 * 64,
            IN_FEATURES,
            IN_FEATURES,
            False,
            BLOCK_FEATURES,
            BLOCK_ROWS,
            BLOCK_DEPTH,
        )
    return acc


@triton.jit
def add_downwards(
    results,
    ids,
    shares,
    output,
    FEATURES: tl.constexpr,
    CHOSEN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The last rank first."""
    row = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = feature < FEATURES
    total = tl.zeros((BLOCK,), tl.float32)
    for index in tl.static_range(CHOSEN):
        choice = row * CHOSEN + CHOSEN - 1 - index
        there = inside & (tl.load(ids + choice) >= 0)
        result = tl.load(results + choice * FEATURES + feature, mask=there, other=0.0)
        total += tl.load(shares + choice) * result.to(tl.float32)
    tl.store(output + row * FEATURES + feature, total.to(output.dtype.element_ty), mask=inside)
