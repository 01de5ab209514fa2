"""What follows a step before the host knows its tokens: the first rows of drafts, and attention's work of them."""

from __future__ import annotations

from dataclasses import fields

import torch

from spectrie_kernels import reference
from spectrie_kernels.attention.arrays import WorkArrays
from spectrie_kernels.attention.key_order import KeyOrder
from spectrie_kernels.attention.roots import ROOT_WORDS, RootPlaces, RootRows, RootSections
from spectrie_kernels.backend import runs_triton
from spectrie_kernels.checks import check_tensor

__all__ = ["draft_roots", "root_work"]


def draft_roots(
    packed: torch.Tensor,
    sections: RootSections,
    walks: torch.Tensor,
    count: torch.Tensor,
    drawn: torch.Tensor,
    places: RootPlaces,
    rows: RootRows,
) -> RootRows:
    """Walks along the drawn tokens of each tree, and makes a row of the token that is drawn last.

    A walk goes from the tree's first row to the child that carries the token drawn at its parent, the first of
    several, as `compact_slots` does. A row stands for no root behind the last walk, where nothing could be drawn, and
    at the context's end.

    Args:
        packed: int32, contiguous: a packed step as `unpack` takes it.
        sections: Those that are read.
        walks: int32 [rows, ROOT_WORDS], contiguous, of trees of up to 64 rows, all of them sampled.
        count: int32 [1], how many of the walks count.
        drawn: int32, contiguous: the token of each sampled row.
        places: Where things lie.
        rows: Written and returned.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    device, capacity = packed.device, rows.tokens.shape[0]
    check_tensor("packed", packed, torch.int32, [None], device)
    check_tensor("walks", walks, torch.int32, [capacity, ROOT_WORDS], device)
    check_tensor("count", count, torch.int32, [1], device)
    check_tensor("drawn", drawn, torch.int32, [None], device)
    for one in fields(rows):
        shape: list[int | None] = [capacity, 4] if one.name == "found" else [capacity]
        check_tensor(one.name, getattr(rows, one.name), torch.int32, shape, device)
    if runs_triton(packed):
        from spectrie_kernels.device.sampling import draft_roots as triton_form

        triton_form.draft_roots(packed, sections, walks, count, drawn, places, rows)
    else:
        reference.draft_roots(packed, sections, walks, count, drawn, places, rows)
    return rows


def root_work(rows: RootRows, count: torch.Tensor, order: KeyOrder, work: WorkArrays) -> WorkArrays:
    """Writes attention's work of rows, each behind the cached keys of a request of its own: those of `AttentionWork`.

    A row has as many items as any could have; those behind its splits and before its tail have no key.

    Args:
        rows: Of which each is alone on its path; that of row i is entry i of the path slots.
        count: int32 [1], how many rows count.
        order: Of the layers.
        work: Of as many rows: [rows * (order.most_splits + 1), 8] items of parts. Written and returned, but for items
            of prompts, of which none count.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    device, capacity = rows.positions.device, rows.positions.shape[0]
    check_tensor("positions", rows.positions, torch.int32, [capacity], device)
    check_tensor("pages", rows.pages, torch.int32, [capacity], device)
    check_tensor("count", count, torch.int32, [1], device)
    items = capacity * (order.most_splits + 1)
    check_tensor("part_items", work.part_items, torch.int32, [items, 8], device)
    check_tensor("combined", work.combined, torch.int32, [capacity, 4], device)
    if runs_triton(rows.positions):
        from spectrie_kernels.device.sampling import draft_roots as triton_form

        triton_form.root_work(rows, count, order, work)
    else:
        reference.root_work(rows, count, order, work)
    return work
