"""The first rows of drafts and attention's work of them, as Triton kernels: one program a root."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from spectrie_kernels.attention.arrays import WorkArrays
from spectrie_kernels.attention.key_order import UNIT, KeyOrder
from spectrie_kernels.attention.roots import RootPlaces, RootRows, RootSections

__all__ = ["compiled_form", "draft_roots", "root_work", "work_form"]

MAX_ROWS = 64
"""Most rows of a tree."""
_UNIT = tl.constexpr(UNIT)


@triton.jit
def _last_row(choices, tokens, parents, count, MAX_ROWS: tl.constexpr):
    """Walks from row 0 of `count`; returns the last row, what was drawn there, and how many rows it passed."""
    rows = tl.arange(0, MAX_ROWS)
    is_row = rows < count
    choice = tl.load(choices + rows, mask=is_row, other=-1)
    token = tl.load(tokens + rows, mask=is_row, other=-2)
    parent = tl.load(parents + rows, mask=is_row, other=-2)
    node = count * 0
    chosen = node - 1
    passed = node
    following = node
    while following < count:
        node = following
        chosen = tl.sum(tl.where(rows == node, choice, 0), axis=0)
        child = is_row & (rows > node) & (parent == node) & (token == chosen)
        following = tl.min(tl.where(child, rows, MAX_ROWS), axis=0)
        passed += 1
    return node, chosen, passed


@triton.jit
def _draft_roots_kernel(
    packed,
    walks,
    count,
    drawn,
    tokens,
    positions,
    slots,
    origins,
    places,
    pages,
    found,
    TOKENS: tl.constexpr,
    PARENTS: tl.constexpr,
    PAGES: tl.constexpr,
    FIRST_FEATURE: tl.constexpr,
    FIRST_SLOT: tl.constexpr,
    FIRST_STATE: tl.constexpr,
    DUMP: tl.constexpr,
    MAX_CONTEXT: tl.constexpr,
    EMBEDDED: tl.constexpr,
    MAX_ROWS: tl.constexpr,
):
    """node_0 = 0; node_{i+1} = min {c > node_i : parent[c] = node_i, token[c] = drawn[node_i]}; then one row of the
    token drawn at the last node, one position behind it.

    packed: for each section its first word and its words, then the sections; walks [any, 5]; found [rows, 4].
    """
    root = tl.program_id(0)
    there = root < tl.load(count)
    walk = walks + 5 * root
    first = tl.load(walk, mask=there, other=0)
    rows = tl.load(walk + 1, mask=there, other=0)
    sample = tl.load(walk + 2, mask=there, other=0)
    base = tl.load(walk + 3, mask=there, other=0)
    page = tl.load(walk + 4, mask=there, other=0)
    row_tokens = packed + tl.load(packed + 2 * TOKENS) + first
    row_parents = packed + tl.load(packed + 2 * PARENTS) + first
    node, token, passed = _last_row(drawn + sample, row_tokens, row_parents, rows, MAX_ROWS)
    position = base + passed
    is_root = there & (token >= 0) & (position < MAX_CONTEXT)
    row = first + node
    tl.store(tokens + root, tl.where(is_root & (token < EMBEDDED), token, -1))
    tl.store(positions + root, tl.where(is_root, position, 0))
    tl.store(slots + root, tl.where(is_root, FIRST_SLOT + root, -1))
    tl.store(origins + root, tl.where(is_root, FIRST_FEATURE + row, -1))
    tl.store(places + root, tl.where(is_root, FIRST_STATE + root, DUMP))
    tl.store(pages + root, tl.where(is_root, tl.load(packed + 2 * PAGES) + page, 0))
    tl.store(found + 4 * root, tl.where(is_root, token, -1))
    tl.store(found + 4 * root + 1, tl.where(is_root, position, -1))
    tl.store(found + 4 * root + 2, tl.where(is_root, row, -1))
    tl.store(found + 4 * root + 3, 0)


def draft_roots(
    packed: torch.Tensor,
    sections: RootSections,
    walks: torch.Tensor,
    count: torch.Tensor,
    drawn: torch.Tensor,
    places: RootPlaces,
    rows: RootRows,
) -> None:
    """See `spectrie_kernels.draft_roots`."""
    constants, options = compiled_form(sections, places)
    _draft_roots_kernel[(rows.tokens.shape[0],)](
        packed,
        walks,
        count,
        drawn,
        rows.tokens,
        rows.positions,
        rows.slots,
        rows.origins,
        rows.places,
        rows.pages,
        rows.found,
        **constants,
        **options,
    )


def compiled_form(
    sections: RootSections, places: RootPlaces
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options of the walks."""
    constants = {
        "TOKENS": sections.tokens,
        "PARENTS": sections.parents,
        "PAGES": sections.pages,
        "FIRST_FEATURE": places.first_feature,
        "FIRST_SLOT": places.first_slot,
        "FIRST_STATE": places.first_state,
        "DUMP": places.dump,
        "MAX_CONTEXT": places.max_context,
        "EMBEDDED": places.embedded,
        "MAX_ROWS": MAX_ROWS,
    }
    return constants, {"num_warps": 1}


@triton.jit
def _root_work_kernel(
    positions,
    pages,
    count,
    part_items,
    combined,
    counts,
    WINDOW: tl.constexpr,
    MAX_SPLITS: tl.constexpr,
    MOST_SPLITS: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Items of a row at position p: its splits as `KeyOrder.spans` has them, items without keys, and its tail, whose
    path begins at p - DEPTH.

    part_items [rows, MOST_SPLITS + 1, 8]; combined [rows, 4]; counts [3]. WINDOW 0 is none.
    """
    row = tl.program_id(0)
    number = tl.load(count)
    if row == 0:
        tl.store(counts, number * (MOST_SPLITS + 1))
        tl.store(counts + 1, number)
        tl.store(counts + 2, 0)
    if row < number:
        position = tl.load(positions + row)
        page = tl.load(pages + row)
        unit = position // _UNIT * _UNIT
        end = tl.maximum(unit - _UNIT, 0)
        begin = end * 0
        if WINDOW > 0:
            first_seen = tl.maximum(unit - WINDOW + 1, 0)
            begin = tl.minimum(end, first_seen // _UNIT * _UNIT)
        units = (end - begin) // _UNIT
        split = _UNIT * tl.maximum((units + MAX_SPLITS - 1) // MAX_SPLITS, 1)
        first = begin // split
        splits = tl.where(end > begin, (end + split - 1) // split - first, 0)
        part = tl.arange(0, BLOCK)
        is_item = part <= MOST_SPLITS
        is_tail = part == MOST_SPLITS
        is_split = part < splits
        keys = (first + part) * split
        of_split = tl.where(is_split, tl.maximum(keys, begin), 0)
        behind = tl.where(is_split, tl.minimum(keys + split, end), 0)
        slot = tl.where(is_split, (1 + part) * number + row, 0)
        item = part_items + (row * (MOST_SPLITS + 1) + part) * 8
        tl.store(item, tl.where(is_tail, 0, 1), mask=is_item)
        tl.store(item + 1, row + part * 0, mask=is_item)
        tl.store(item + 2, tl.where(is_tail, end, of_split), mask=is_item)
        tl.store(item + 3, tl.where(is_tail, position + 1, behind), mask=is_item)
        tl.store(item + 4, page + part * 0, mask=is_item)
        tl.store(item + 5, tl.where(is_tail, row, slot), mask=is_item)
        # A row that stands for none is at position 0, behind nothing.
        own = tl.maximum(position - DEPTH, 0)
        tl.store(item + 6, tl.where(is_tail, own, tl.where(is_split, unit, 0)), mask=is_item)
        high = tl.where(is_split, unit + _UNIT, 0)
        tl.store(item + 7, tl.where(is_tail, row * (DEPTH + 1), high), mask=is_item)
        tl.store(combined + 4 * row, row)
        tl.store(combined + 4 * row + 1, number + row)
        tl.store(combined + 4 * row + 2, splits)
        tl.store(combined + 4 * row + 3, 0)


def root_work(
    rows: RootRows, count: torch.Tensor, order: KeyOrder, work: WorkArrays, depth: int
) -> None:
    """See `spectrie_kernels.root_work`."""
    constants, options = work_form(order, depth)
    _root_work_kernel[(rows.positions.shape[0],)](
        rows.positions,
        rows.pages,
        count,
        work.part_items,
        work.combined,
        work.counts,
        **constants,
        **options,
    )


def work_form(order: KeyOrder, depth: int) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options of attention's work."""
    most = order.most_splits
    constants = {
        "WINDOW": order.window or 0,
        "MAX_SPLITS": order.max_splits,
        "MOST_SPLITS": most,
        "DEPTH": depth,
        "BLOCK": triton.next_power_of_2(most + 1),
    }
    return constants, {"num_warps": 1}
