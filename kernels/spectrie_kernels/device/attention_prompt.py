"""Attention of the many rows of a prompt: one program folds all parts of its rows' keys in turn."""

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

__all__ = ["prompt_kernel"]


@triton.jit
def prompt_kernel(
    query,
    key_cache,
    value_cache,
    output,
    items,
    counts,
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
    BLOCK_KEYS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """Attention of tiles of neighbouring positions of one unit, one key-value head. Programs share the
    items, whose number stands in counts[2].

    The sums of a part begin at zero, as where parts are computed side by side; those of finished parts
    are kept beside them. query and output [rows, heads, HEAD_DIM]; the rest as for `part_kernel`.
    """
    heads: tl.constexpr = KV_HEADS * GROUP
    kv_head = tl.program_id(0)
    own = tl.program_id(1)
    nodes, first_row, begin, end, page, first_position, split, _ = load_item(items, own)
    count = tl.load(counts + 2)
    for index in tl.range(own, count, tl.num_programs(1), disable_licm=True):
        pages = page_ids + page
        dims = tl.arange(0, BLOCK_DIM)
        in_dim = dims < HEAD_DIM
        node, real, row, head, q_at, q = load_queries(
            query, kv_head, nodes, first_row, GROUP, KV_HEADS, HEAD_DIM, BLOCK_ROWS, BLOCK_DIM
        )
        position = tl.where(real, first_position + node, -1)

        all_best = tl.full((BLOCK_ROWS,), FLOOR, tl.float32)
        all_total = tl.zeros((BLOCK_ROWS,), tl.float32)
        all_acc = tl.zeros((BLOCK_DIM, BLOCK_ROWS), tl.float32)
        first_split = begin // split
        # An empty prefix has no split: its tail is the first part and the last.
        splits = tl.where(end > begin, tl.cdiv(end, split) - first_split, 0)
        for part in range(0, splits + 1):
            is_tail = part == splits
            part_begin = tl.where(is_tail, end, tl.maximum(begin, (first_split + part) * split))
            prefix_end = tl.minimum(end, (first_split + part + 1) * split)
            part_end = tl.where(is_tail, first_position + nodes, prefix_end)
            best = tl.full((BLOCK_ROWS,), FLOOR, tl.float32)
            lanes = tl.zeros((BLOCK_KEYS // 2, BLOCK_ROWS), tl.float32)
            acc = tl.zeros((BLOCK_DIM, BLOCK_ROWS), tl.float32)
            for first in range(part_begin, part_end, BLOCK_KEYS):
                key = first + tl.arange(0, BLOCK_KEYS)
                seen = key[:, None] <= position[None, :]
                if WINDOW > 0:
                    seen = seen & (key[:, None] > position[None, :] - WINDOW)
                if FIRST_KEY > 0:
                    seen = seen & (key >= FIRST_KEY)[:, None]
                # Behind the end stands the last key again, which is not seen twice.
                key = tl.minimum(key, part_end - 1)
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
            larger = tl.maximum(all_best, best)
            shrink = power_of_two(all_best - larger)
            grow = power_of_two(best - larger)
            all_total = all_total * shrink + lane_sum(lanes, BLOCK_KEYS // 2, BLOCK_ROWS) * grow
            all_acc = all_acc * shrink[None, :] + acc * grow[None, :]
            all_best = larger

        result = normalised(all_acc, tl.where(real, all_total, 1.0)[None, :])
        out_at = output + ((row * heads + head) * HEAD_DIM)[None, :] + dims[:, None]
        tl.store(out_at, result.to(output.dtype.element_ty), mask=real[None, :] & in_dim[:, None])
        following = tl.minimum(index + tl.num_programs(1), count - 1)
        nodes, first_row, begin, end, page, first_position, split, _ = load_item(items, following)
