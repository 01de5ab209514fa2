"""What all forms of attention share: keys folded into a row's running sums, in one order.

Keys are the taller operand of both matrix products and rows the wider one, as in `linear`, so that one
instruction and its step serve a single row as well as a tile of a prompt.

Sources:
1. Milakov and Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867.
2. Dao, FlashAttention-2, arXiv 2307.08691: what is kept between blocks of keys.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = [
    "FLOOR",
    "fold_keys",
    "lane_sum",
    "load_item",
    "load_queries",
    "normalised",
    "power_of_two",
    "slots_of",
]

FLOOR = tl.constexpr(-1.0e20)
"""Running maximum of a row that has seen no key: finite, so that nothing becomes NaN."""

_LEAST = tl.constexpr(2.0**-100)
_DIMS_STEP = tl.constexpr(16)


@triton.jit
def rounded_up(scores):
    """The least whole numbers that are no smaller."""
    return tl.ceil(scores)


@triton.jit
def power_of_two(exponent):
    """2 to the power of whole numbers up to 0, exact; 0 below -126."""
    whole = tl.maximum(exponent, -127.0).to(tl.int32)
    return ((whole + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def _pairs(values, GROUPS: tl.constexpr, BELOW: tl.constexpr, ROWS: tl.constexpr):
    """[GROUPS * 2 * BELOW, ROWS] -> [GROUPS * BELOW, ROWS]: sums of two, which have no order."""
    halves = tl.sum(tl.reshape(values, (GROUPS, 2, BELOW, ROWS)), axis=1)
    return tl.reshape(halves, (GROUPS * BELOW, ROWS))


@triton.jit
def lane_sum(lanes, LANES: tl.constexpr, ROWS: tl.constexpr):
    """[LANES, ROWS] -> [ROWS]: neighbours first, a tree that no layout of threads can change."""
    for level in tl.static_range(5):
        if (LANES >> level) > 1:
            lanes = _pairs(lanes, LANES >> (level + 1), 1, ROWS)
    return tl.reshape(lanes, (ROWS,))


@triton.jit
def normalised(acc, total):
    """acc times 1 / total. What is below the range in which rescaling is exact counts as 0."""
    return tl.where(tl.abs(acc) < _LEAST, 0.0, acc) * tl.div_rn(1.0, total)


@triton.jit
def _vectors(at, HEAD_DIM: tl.constexpr, BLOCK_DIM: tl.constexpr):
    """The vectors that begin at the pointers, zeros behind their end."""
    dims = tl.arange(0, BLOCK_DIM)
    if HEAD_DIM == BLOCK_DIM:
        vectors = tl.load(at[:, None] + dims[None, :])
    else:
        inside = (dims < HEAD_DIM)[None, :]
        vectors = tl.load(at[:, None] + dims[None, :], mask=inside, other=0.0)
    return vectors


@triton.jit
def load_queries(
    query,
    kv_head,
    nodes,
    first_row,
    GROUP: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """The queries of a tile, whose row i is node i // GROUP, query head i % GROUP of the group.

    Returns the node of each tile row, whether it exists, its row and head, a pointer to its query,
    and the queries [BLOCK_ROWS, BLOCK_DIM].
    """
    tile = tl.arange(0, BLOCK_ROWS)
    dims = tl.arange(0, BLOCK_DIM)
    node = tile // GROUP
    real = node < nodes
    row = (first_row + node).to(tl.int64)
    head = kv_head * GROUP + tile % GROUP
    at = query + (row * (KV_HEADS * GROUP) + head) * HEAD_DIM
    inside = real[:, None] & (dims < HEAD_DIM)[None, :]
    return node, real, row, head, at, tl.load(at[:, None] + dims[None, :], mask=inside, other=0.0)


@triton.jit
def load_item(items, index):
    """The eight words of an item."""
    item = items + index * 8
    return (
        tl.load(item),
        tl.load(item + 1),
        tl.load(item + 2),
        tl.load(item + 3),
        tl.load(item + 4),
        tl.load(item + 5),
        tl.load(item + 6),
        tl.load(item + 7),
    )


@triton.jit
def slots_of(pages, key, PAGE_SIZE: tl.constexpr):
    """The slots of logical indices of a request whose page numbers begin at `pages`."""
    page = tl.load(pages + key // PAGE_SIZE)
    return page.to(tl.int64) * PAGE_SIZE + key % PAGE_SIZE


@triton.jit
def fold_keys(
    q,
    q_at,
    real,
    k_at,
    v_at,
    seen,
    best,
    lanes,
    acc,
    scale_log2,
    HALF: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """Folds a step of keys into `best`, `lanes` and `acc`, and returns them.

    With s = (q . k) * scale * log2(e): best becomes m = max(best, s rounded up); lanes and acc are
    multiplied by 2^(best - m), which is exact as both are whole; then lane i takes the weights
    2^(s - m) of two keys 8 apart, and acc[d, r], by a chain of the matrix instruction in ascending
    order of keys, the weights times v. Keys that a row does not see change nothing of that row.

    q [BLOCK_ROWS, BLOCK_DIM]; q_at [BLOCK_ROWS], k_at and v_at [BLOCK_KEYS] pointers to vectors;
    real [BLOCK_ROWS] and seen [BLOCK_KEYS, BLOCK_ROWS]: which rows exist, which keys they see.
    """
    if HALF:
        k = _vectors(k_at, HEAD_DIM, BLOCK_DIM)
        scores = tl.dot(k, tl.trans(q), input_precision="ieee")
    else:
        # Without tensor cores a thread holds all terms of its sums at once: few at a time.
        scores = tl.zeros((BLOCK_KEYS, BLOCK_ROWS), tl.float32)
        for first in range(0, BLOCK_DIM, _DIMS_STEP):
            some = first + tl.arange(0, _DIMS_STEP)
            there = (some < HEAD_DIM)[None, :]
            k = tl.load(k_at[:, None] + some[None, :], mask=there, other=0.0)
            part = tl.load(q_at[:, None] + some[None, :], mask=real[:, None] & there, other=0.0)
            scores = tl.dot(k, tl.trans(part), scores, input_precision="ieee")
    v = _vectors(v_at, HEAD_DIM, BLOCK_DIM)

    top = tl.max(tl.where(seen, scores, float("-inf")), axis=0) * scale_log2
    larger = tl.maximum(best, rounded_up(top))
    exponents = tl.fma(scores, scale_log2, -larger[None, :])
    weights = tl.exp2(tl.where(seen, exponents, float("-inf")))
    shrink = power_of_two(best - larger)
    lanes = lanes * shrink[None, :] + _pairs(weights, BLOCK_KEYS // 16, 8, BLOCK_ROWS)
    acc = acc * shrink[None, :]
    acc = tl.dot(tl.trans(v), weights.to(v.dtype), acc, input_precision="ieee")
    return larger, lanes, acc
