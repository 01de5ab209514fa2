"""Attention of few rows a request: the parts of a row's keys side by side, and their combine."""

from __future__ import annotations

import triton
import triton.language as tl

from spectrie_kernels.device.attention_unit import (
    FLOOR,
    fold_keys,
    lane_sum,
    load_item,
    load_queries,
    normalised,
    power_of_two,
    slots_of,
)

__all__ = ["combine_kernel", "part_kernel"]

_UNIT = tl.constexpr(64)


@triton.jit
def _part(
    query,
    key_cache,
    value_cache,
    partial,
    partial_max,
    partial_sum,
    row_position,
    path_slots,
    pages,
    kv_head,
    nodes,
    first_row,
    begin,
    end,
    slot,
    low,
    high,
    scale_log2,
    TAIL: tl.constexpr,
    GROUP: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    WINDOW: tl.constexpr,
    FIRST_KEY: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """One item: a split of the prefix for a tile of nodes, or with TAIL the tail of one node."""
    heads: tl.constexpr = KV_HEADS * GROUP
    dims = tl.arange(0, BLOCK_DIM)
    in_dim = dims < HEAD_DIM
    node, real, row, head, q_at, q = load_queries(
        query, kv_head, nodes, first_row, GROUP, KV_HEADS, HEAD_DIM, BLOCK_ROWS, BLOCK_DIM
    )
    there = real
    if TAIL:
        position = tl.full((BLOCK_ROWS,), 0, tl.int32) + (end - 1)
        row_end = tl.where(real, end, 0)
    else:
        position = tl.load(row_position + row, mask=real, other=0)
        there = real & (position >= low) & (position < high)
        row_end = tl.where(there, (position // _UNIT - 1) * _UNIT, 0)

    best = tl.full((BLOCK_ROWS,), FLOOR, tl.float32)
    lanes = tl.zeros((BLOCK_KEYS // 2, BLOCK_ROWS), tl.float32)
    acc = tl.zeros((BLOCK_DIM, BLOCK_ROWS), tl.float32)
    for first in range(begin, end, BLOCK_KEYS):
        key = first + tl.arange(0, BLOCK_KEYS)
        seen = key[:, None] < row_end[None, :]
        if WINDOW > 0:
            seen = seen & (key[:, None] > position[None, :] - WINDOW)
        if FIRST_KEY > 0:
            seen = seen & (key >= FIRST_KEY)[:, None]
        if TAIL:
            # Behind the end stands the last key again, which is not seen twice.
            key = tl.minimum(key, end - 1)
            on_path = key >= low
            page = tl.load(pages + key // PAGE_SIZE, mask=key < low, other=0)
            at = page.to(tl.int64) * PAGE_SIZE + key % PAGE_SIZE
            own = tl.load(path_slots + high + key - low, mask=on_path, other=0)
            at = tl.where(on_path, own.to(tl.int64), at)
        else:
            at = slots_of(pages, key, PAGE_SIZE)
        at = (at * KV_HEADS + kv_head) * HEAD_DIM
        best, lanes, acc = fold_keys(
            q,
            q_at,
            real,
            key_cache + at,
            value_cache + at,
            seen,
            best,
            lanes,
            acc,
            scale_log2,
            HALF,
            HEAD_DIM,
            BLOCK_ROWS,
            BLOCK_KEYS,
            BLOCK_DIM,
        )
    out = (slot + node).to(tl.int64) * heads + head
    tl.store(partial_max + out, best, mask=there)
    tl.store(partial_sum + out, lane_sum(lanes, BLOCK_KEYS // 2, BLOCK_ROWS), mask=there)
    out_at = partial + out[None, :] * HEAD_DIM + dims[:, None]
    tl.store(out_at, acc, mask=there[None, :] & in_dim[:, None])


@triton.jit
def part_kernel(
    query,
    key_cache,
    value_cache,
    partial,
    partial_max,
    partial_sum,
    items,
    counts,
    row_position,
    path_slots,
    page_ids,
    scale_log2,
    GROUP: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    WINDOW: tl.constexpr,
    FIRST_KEY: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    TAIL_ROWS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """Sums of one part of the keys for the rows of each item, one key-value head. Programs share the
    items, whose number stands in counts[0].

    For each row: m, the largest score rounded up; l, the sum of 2^(s - m); o, that of 2^(s - m) v.
    query [rows, heads, HEAD_DIM]; caches [slots, KV_HEADS, HEAD_DIM]; partial [slots of parts, heads,
    HEAD_DIM], partial_max and partial_sum [slots of parts, heads]; the rest as in `AttentionWork` and
    `AttentionLayout`. WINDOW 0 is none. Keys below FIRST_KEY are not seen.
    """
    kv_head = tl.program_id(0)
    own = tl.program_id(1)
    # There are no more programs than places for items: asked for before it is known whether it counts.
    nodes, first_row, begin, end, page, slot, low, high = load_item(items, own)
    count = tl.load(counts)
    # What does not change from item to item would take registers all the while.
    for index in tl.range(own, count, tl.num_programs(1), disable_licm=True):
        pages = page_ids + page
        if nodes == 0:
            _part(
                query,
                key_cache,
                value_cache,
                partial,
                partial_max,
                partial_sum,
                row_position,
                path_slots,
                pages,
                kv_head,
                1,
                first_row,
                begin,
                end,
                slot,
                low,
                high,
                scale_log2,
                True,
                GROUP,
                KV_HEADS,
                HEAD_DIM,
                PAGE_SIZE,
                WINDOW,
                FIRST_KEY,
                HALF,
                TAIL_ROWS,
                BLOCK_KEYS,
                BLOCK_DIM,
            )
        else:
            _part(
                query,
                key_cache,
                value_cache,
                partial,
                partial_max,
                partial_sum,
                row_position,
                path_slots,
                pages,
                kv_head,
                nodes,
                first_row,
                begin,
                end,
                slot,
                low,
                high,
                scale_log2,
                False,
                GROUP,
                KV_HEADS,
                HEAD_DIM,
                PAGE_SIZE,
                WINDOW,
                FIRST_KEY,
                HALF,
                BLOCK_ROWS,
                BLOCK_KEYS,
                BLOCK_DIM,
            )
        following = tl.minimum(index + tl.num_programs(1), count - 1)
        nodes, first_row, begin, end, page, slot, low, high = load_item(items, following)


@triton.jit
def combine_kernel(
    partial,
    partial_max,
    partial_sum,
    output,
    combined,
    counts,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    MAX_SPLITS: tl.constexpr,
):
    """output = (sum over parts of 2^(m_i - m) o_i) / (the same of l_i), splits ascending, then the tail.

    All parts are asked for before the first is used; those that a row does not have are not read. Rows
    of the split form are counted in counts[1]; the part behind a row's is as many slots away.
    """
    index = tl.program_id(0)
    head = tl.program_id(1)
    row = tl.load(combined + index * 4).to(tl.int64)
    first = tl.load(combined + index * 4 + 1)
    splits = tl.load(combined + index * 4 + 2)
    split_rows = tl.load(counts + 1)
    if index < split_rows:
        dims = tl.arange(0, BLOCK_DIM)
        in_dim = dims < HEAD_DIM
        at = index.to(tl.int64) * HEADS + head
        tail_max = tl.load(partial_max + at)
        tail_sum = tl.load(partial_sum + at)
        tail = tl.load(partial + at * HEAD_DIM + dims, mask=in_dim, other=0.0)
        best = tail_max
        maxima = ()
        sums = ()
        vectors = ()
        for part in tl.static_range(MAX_SPLITS):
            there = part < splits
            at = (first + part * split_rows).to(tl.int64) * HEADS + head
            vector_at = partial + at * HEAD_DIM + dims
            # The compiler knows no unpacking.
            maxima = maxima + (tl.load(partial_max + at, mask=there, other=FLOOR),)  # type: ignore[assignment] # noqa: RUF005
            sums = sums + (tl.load(partial_sum + at, mask=there, other=0.0),)  # type: ignore[assignment] # noqa: RUF005
            vectors = vectors + (tl.load(vector_at, mask=there & in_dim, other=0.0),)  # type: ignore[assignment] # noqa: RUF005
        for part in tl.static_range(MAX_SPLITS):
            best = tl.maximum(best, maxima[part])
        total = tl.full((), 0.0, tl.float32)
        acc = tl.zeros((BLOCK_DIM,), tl.float32)
        for part in tl.static_range(MAX_SPLITS):
            grow = power_of_two(maxima[part] - best)
            total += sums[part] * grow
            acc += vectors[part] * grow
        grow = power_of_two(tail_max - best)
        total += tail_sum * grow
        acc += tail * grow
        result = normalised(acc, total).to(output.dtype.element_ty)
        tl.store(output + (row * HEADS + head) * HEAD_DIM + dims, result, mask=in_dim)
