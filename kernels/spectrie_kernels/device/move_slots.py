"""Moves inside the cache, as Triton kernels: one launch for all layers."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["compact_slots", "compaction_form", "compiled_form", "move_rows", "move_slots"]

MAX_ROWS = 64
"""Most rows of a tree."""


@triton.jit
def _clashes(source, destination, AT_ONCE: tl.constexpr):
    """Whether any move reads or writes where an earlier one of the same step wrote."""
    place = tl.arange(0, AT_ONCE)
    later = place[:, None] < place[None, :]
    written = destination[:, None]
    # Moves behind the last are negative.
    again = (source[None, :] == written) | (destination[None, :] == written)
    return tl.max(tl.max((again & later & (written >= 0)).to(tl.int32), axis=1), axis=0) > 0


@triton.jit
def _move(
    cache, moves, count, inside, SLOT: tl.constexpr, BLOCK: tl.constexpr, AT_ONCE: tl.constexpr
):
    """Moves BLOCK numbers of a slot, those from `cache` on; SLOT numbers lie between slots."""
    number = tl.arange(0, BLOCK)
    for first in range(0, count, AT_ONCE):
        move = first + tl.arange(0, AT_ONCE)
        there = move < count
        source = tl.load(moves + 2 * move, mask=there, other=-1)
        destination = tl.load(moves + 2 * move + 1, mask=there, other=-1)
        if _clashes(source, destination, AT_ONCE):
            for one in range(first, tl.minimum(first + AT_ONCE, count)):
                taken_from = tl.load(moves + 2 * one).to(tl.int64) * SLOT
                brought_to = tl.load(moves + 2 * one + 1).to(tl.int64) * SLOT
                value = tl.load(cache + taken_from + number, mask=inside)
                # Threads may read what others have written: each waits for all.
                tl.debug_barrier()
                tl.store(cache + brought_to + number, value, mask=inside)
                tl.debug_barrier()
        else:
            mask = there[:, None] & inside[None, :]
            taken_from = source.to(tl.int64)[:, None] * SLOT + number[None, :]
            brought_to = destination.to(tl.int64)[:, None] * SLOT + number[None, :]
            values = tl.load(cache + taken_from, mask=mask)
            tl.debug_barrier()
            tl.store(cache + brought_to, values, mask=mask)
            tl.debug_barrier()


@triton.jit(do_not_specialize=["num_slots"])
def _move_slots_kernel(
    keys,
    values,
    moves,
    count,
    num_slots,
    SLOT: tl.constexpr,
    BLOCK: tl.constexpr,
    AT_ONCE: tl.constexpr,
):
    """For each move in turn: cache[:, destination] = cache[:, source], of keys and of values.

    keys, values [layers, num_slots, SLOT]; moves [any, 2]; count [1].
    A program has the same numbers of each slot in one layer. Several moves are made at once where none
    of them needs what another of them leaves; as in a walk along a tree, whose slots only move forward.
    """
    first = tl.program_id(2) * BLOCK
    inside = first + tl.arange(0, BLOCK) < SLOT
    offset = tl.program_id(0).to(tl.int64) * num_slots * SLOT + first
    number = tl.load(count)
    if tl.program_id(1) == 0:
        _move(keys + offset, moves, number, inside, SLOT, BLOCK, AT_ONCE)
    else:
        _move(values + offset, moves, number, inside, SLOT, BLOCK, AT_ONCE)


def move_slots(
    keys: torch.Tensor, values: torch.Tensor, moves: torch.Tensor, count: torch.Tensor
) -> None:
    """See `spectrie_kernels.move_slots`."""
    layers, slots, kv_heads, head_dim = keys.shape
    slot = kv_heads * head_dim
    if keys.numel() == 0 or moves.shape[0] == 0:
        return
    constants, options = compiled_form(slot)
    grid = (layers, 2, triton.cdiv(slot, constants["BLOCK"]))
    _move_slots_kernel[grid](keys, values, moves, count, slots, **constants, **options)


def move_rows(x: torch.Tensor, moves: torch.Tensor, count: torch.Tensor) -> None:
    """See `spectrie_kernels.move_rows`."""
    rows, width = x.shape
    if x.numel() == 0 or moves.shape[0] == 0:
        return
    constants, options = compiled_form(width)
    # As slots of a cache that has keys alone.
    grid = (1, 1, triton.cdiv(width, constants["BLOCK"]))
    _move_slots_kernel[grid](x, x, moves, count, rows, **constants, **options)


def compiled_form(slot: int) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options for slots of `slot` numbers."""
    block = min(512, triton.next_power_of_2(slot))
    # No stages: a load that a later round of the loop needs may not come before this round's store.
    return {"SLOT": slot, "BLOCK": block, "AT_ONCE": 8}, {"num_warps": 4, "num_stages": 1}


@triton.jit
def _move_along(
    cache,
    drawn,
    tokens,
    parents,
    slots,
    count,
    inside,
    SLOT: tl.constexpr,
    BLOCK: tl.constexpr,
    MAX_ROWS: tl.constexpr,
):
    """Walks from row 0 of a tree of `count` rows; the row at depth d goes to the slot of row d.

    Source rows and depths ascend, and a row is never above its depth: no move reads what another wrote,
    and a thread has the same numbers of every slot.
    """
    rows = tl.arange(0, MAX_ROWS)
    is_row = rows < count
    choices = tl.load(drawn + rows, mask=is_row, other=-1)
    token = tl.load(tokens + rows, mask=is_row, other=-2)
    parent = tl.load(parents + rows, mask=is_row, other=-2)
    slot = tl.load(slots + rows, mask=is_row, other=0)
    number = tl.arange(0, BLOCK)
    node = count * 0
    depth = count * 0
    while node < count:
        choice = tl.sum(tl.where(rows == node, choices, 0), axis=0)
        child = is_row & (parent == node) & (token == choice)
        node = tl.min(tl.where(child, rows, MAX_ROWS), axis=0)
        depth += 1
        moves = (node < count) & (node != depth)
        taken_from = tl.sum(tl.where(rows == node, slot, 0), axis=0).to(tl.int64) * SLOT
        brought_to = tl.sum(tl.where(rows == depth, slot, 0), axis=0).to(tl.int64) * SLOT
        value = tl.load(cache + taken_from + number, mask=inside & moves)
        tl.store(cache + brought_to + number, value, mask=inside & moves)


@triton.jit(do_not_specialize=["num_slots"])
def _compact_slots_kernel(
    keys,
    values,
    drawn,
    tokens,
    parents,
    slots,
    walks,
    count,
    num_slots,
    SLOT: tl.constexpr,
    BLOCK: tl.constexpr,
    MAX_ROWS: tl.constexpr,
):
    """For each tree: cache[:, slots[d]] = cache[:, slots[node_d]] of keys and of values, as the walk goes on.

    node_0 = 0; node_{d+1} = min {c : parent[c] = node_d, token[c] = drawn[node_d]}.
    keys, values [layers, num_slots, SLOT]; walks [any, 4]; count [1]. A program has the same numbers of
    each slot of one tree in one layer.
    """
    tree = tl.program_id(0)
    if tree < tl.load(count):
        first_row = tl.load(walks + 4 * tree)
        rows = tl.load(walks + 4 * tree + 1)
        first_sample = tl.load(walks + 4 * tree + 2)
        first = (tl.program_id(2) // 2) * BLOCK
        inside = first + tl.arange(0, BLOCK) < SLOT
        offset = tl.program_id(1).to(tl.int64) * num_slots * SLOT + first
        drawn += first_sample
        tokens += first_row
        parents += first_row
        slots += first_row
        if tl.program_id(2) % 2 == 0:
            cache = keys + offset
            _move_along(cache, drawn, tokens, parents, slots, rows, inside, SLOT, BLOCK, MAX_ROWS)
        else:
            cache = values + offset
            _move_along(cache, drawn, tokens, parents, slots, rows, inside, SLOT, BLOCK, MAX_ROWS)


def compact_slots(
    keys: torch.Tensor,
    values: torch.Tensor,
    drawn: torch.Tensor,
    rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    walks: torch.Tensor,
    count: torch.Tensor,
) -> None:
    """See `spectrie_kernels.compact_slots`."""
    layers, num_slots, kv_heads, head_dim = keys.shape
    slot = kv_heads * head_dim
    if keys.numel() == 0 or walks.shape[0] == 0:
        return
    constants, options = compaction_form(slot)
    grid = (walks.shape[0], layers, 2 * triton.cdiv(slot, constants["BLOCK"]))
    tokens, parents, slots = rows
    _compact_slots_kernel[grid](
        keys, values, drawn, tokens, parents, slots, walks, count, num_slots, **constants, **options
    )


def compaction_form(slot: int) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options for slots of `slot` numbers."""
    block = min(512, triton.next_power_of_2(slot))
    constants = {"SLOT": slot, "BLOCK": block, "MAX_ROWS": MAX_ROWS}
    # Threads with 16 bytes each. No stages: no load may come before the store of the round before it.
    return constants, {"num_warps": 2, "num_stages": 1}
