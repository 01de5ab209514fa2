"""What follows a step before the host knows its tokens: the first rows of drafts, those behind them, and attention's
work of both."""

from __future__ import annotations

from dataclasses import fields

import torch

from spectrie_kernels import reference
from spectrie_kernels.attention.arrays import WorkArrays
from spectrie_kernels.attention.key_order import KeyOrder
from spectrie_kernels.attention.roots import (
    ROOT_WORDS,
    RootAnswers,
    RootPlaces,
    RootRows,
    RootSections,
)
from spectrie_kernels.attention.rows import MAX_TREE_ROWS
from spectrie_kernels.backend import runs_triton
from spectrie_kernels.checks import check_tensor

__all__ = ["draft_beams", "draft_roots", "root_work"]


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
    _check_rows(rows, capacity, device)
    if runs_triton(packed):
        from spectrie_kernels.device.sampling import draft_roots as triton_form

        triton_form.draft_roots(packed, sections, walks, count, drawn, places, rows)
    else:
        reference.draft_roots(packed, sections, walks, count, drawn, places, rows)
    return rows


def draft_beams(
    roots: RootRows,
    answers: RootAnswers,
    count: torch.Tensor,
    places: RootPlaces,
    beams: RootRows,
    number: torch.Tensor,
) -> RootRows:
    """Makes a row of each of a root's likeliest tokens, which continues the state that the root left.

    Those of a root are neighbours, the likeliest first, of equal ones that of the lower number. A row stands for none
    behind the last root, behind a row that stands for no root, where fewer tokens have a weight above minus infinity,
    and at the context's end.

    Args:
        roots: As `draft_roots` left them, of which `found` is not read.
        answers: Of the same rows.
        count: int32 [1], how many of the roots count.
        places: Where things lie; `dump` is that of the roots too.
        beams: Of as many rows for each root, written and returned.
        number: int32 [1], written: how many of the beams count.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    device, capacity = roots.positions.device, roots.positions.shape[0]
    room = beams.positions.shape[0]
    if room == 0 or room % capacity:
        raise ValueError(f"beams is of {room} rows, expected a multiple of {capacity}")
    for name in ("positions", "places", "pages"):
        check_tensor(name, getattr(roots, name), torch.int32, [capacity], device)
    check_tensor("ids", answers.ids, torch.int32, [capacity, None], device)
    check_tensor("weights", answers.weights, torch.float32, list(answers.ids.shape), device)
    if answers.names is not None:
        check_tensor("names", answers.names, torch.int32, [None], device)
    check_tensor("count", count, torch.int32, [1], device)
    check_tensor("number", number, torch.int32, [1], device)
    _check_rows(beams, room, device)
    if runs_triton(roots.positions):
        from spectrie_kernels.device.sampling import draft_beams as triton_form

        triton_form.draft_beams(roots, answers, count, places, beams, number)
    else:
        reference.draft_beams(roots, answers, count, places, beams, number)
    return beams


def _check_rows(rows: RootRows, capacity: int, device: torch.device) -> None:
    for one in fields(rows):
        shape: list[int | None] = [capacity, 4] if one.name == "found" else [capacity]
        check_tensor(one.name, getattr(rows, one.name), torch.int32, shape, device)


def root_work(
    rows: RootRows, count: torch.Tensor, order: KeyOrder, work: WorkArrays, *, depth: int = 0
) -> WorkArrays:
    """Writes attention's work of rows, each behind the cached keys of a request and those of the rows before it on a
    path of its own: that of `AttentionWork`.

    A row has as many items as any could have; those behind its splits and before its tail have no key.

    Args:
        rows: Of which the path of row i begins at entry i (depth + 1) of the path slots.
        count: int32 [1], how many rows count.
        order: Of the layers.
        work: Of as many rows: [rows * (order.most_splits + 1), 8] items of parts. Written and returned, but for items
            of prompts, of which none count.
        depth: How many rows lie before each on its path, below 64: 0 for roots, 1 for their beams.

    Raises:
        ValueError: A shape, dtype or device does not fit, or the depth; the message names it.
    """
    if not 0 <= depth < MAX_TREE_ROWS:
        raise ValueError(f"depth is {depth}, expected 0..{MAX_TREE_ROWS}")
    device, capacity = rows.positions.device, rows.positions.shape[0]
    check_tensor("positions", rows.positions, torch.int32, [capacity], device)
    check_tensor("pages", rows.pages, torch.int32, [capacity], device)
    check_tensor("count", count, torch.int32, [1], device)
    items = capacity * (order.most_splits + 1)
    check_tensor("part_items", work.part_items, torch.int32, [items, 8], device)
    check_tensor("combined", work.combined, torch.int32, [capacity, 4], device)
    if runs_triton(rows.positions):
        from spectrie_kernels.device.sampling import draft_roots as triton_form

        triton_form.root_work(rows, count, order, work, depth)
    else:
        reference.root_work(rows, count, order, work, depth)
    return work
