"""What stands between the products of a layer."""

from __future__ import annotations

import torch

from spectrie_kernels import reference
from spectrie_kernels.backend import runs_triton
from spectrie_kernels.checks import (
    check_compaction,
    check_gate,
    check_gather,
    check_moves,
    check_norm,
    check_rotation,
    check_tensor,
)
from spectrie_kernels.partial_sums import PartialSums

__all__ = [
    "add_norm",
    "compact_slots",
    "embed",
    "gate",
    "gather_rows",
    "lift_rows",
    "move_rows",
    "move_slots",
    "rotate_write",
]


def add_norm(
    residual: torch.Tensor,
    delta: torch.Tensor | PartialSums | None,
    weight: torch.Tensor,
    epsilon: float,
    out: torch.Tensor,
) -> torch.Tensor:
    """Adds to the residual stream and normalises it; a row's bits depend on that row alone.

    residual += delta, then out = residual / sqrt(mean(residual ** 2) + epsilon) * weight, all in
    float32. The number of parts of `delta` changes no bit of their sum's use; a delta in half precision
    is another kernel, whose norms may differ in their last bit.

    Args:
        residual: [rows, features] float32, contiguous; changed in place.
        delta: What to add: sums to be added pairwise, of [parts, rows, features], or [rows, features],
            contiguous, any floating dtype; None adds nothing.
        weight: [features], the norm's.
        epsilon: Added to the mean square.
        out: [rows, features], contiguous, any floating dtype; written and returned.

    Returns:
        `out`.

    Raises:
        ValueError: A shape, dtype or device does not fit, or a tensor does not begin at a multiple
            of 16 bytes; the message names it.
    """
    check_norm(residual, delta, weight, out)
    if runs_triton(residual):
        from spectrie_kernels.device import add_norm as triton_form

        return triton_form.add_norm(residual, delta, weight, epsilon, out)
    return reference.add_norm(residual, delta, weight, epsilon, out)


def embed(tokens: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Looks the tokens of a step up; a negative token gives zeros.

    Args:
        tokens: int32 [rows], contiguous, below the size of the vocabulary.
        table: [vocabulary, features], contiguous.
        out: float32 [rows, features], contiguous; written and returned.

    Returns:
        `out`.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_gather("table", table, tokens, out, torch.float32)
    if runs_triton(table):
        from spectrie_kernels.device import gather_rows as triton_form

        return triton_form.gather_rows(table, tokens, out)
    return reference.gather_rows(table, tokens, out)


def gather_rows(x: torch.Tensor, rows: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Copies rows of a matrix, as they are; a negative number gives zeros.

    Args:
        x: [any, features], contiguous.
        rows: int32 [rows], contiguous, numbers of rows of `x`.
        out: [rows, features], contiguous, of the dtype of `x`; written and returned.

    Returns:
        `out`.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_gather("x", x, rows, out, x.dtype)
    if runs_triton(x):
        from spectrie_kernels.device import gather_rows as triton_form

        return triton_form.gather_rows(x, rows, out)
    return reference.gather_rows(x, rows, out)


def lift_rows(x: torch.Tensor, rows: torch.Tensor) -> None:
    """Brings rows of a matrix to its front, in place and in one launch; what was there is gone.

    Args:
        x: [any, features], contiguous; changed.
        rows: int32 [rows], contiguous, numbers of rows of `x`, each greater than the one before.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_tensor("x", x, x.dtype, [None, None], x.device)
    check_tensor("rows", rows, torch.int32, [None], x.device)
    if runs_triton(x):
        from spectrie_kernels.device import gather_rows as triton_form

        triton_form.lift_rows(x, rows)
    else:
        reference.lift_rows(x, rows)


def move_rows(x: torch.Tensor, moves: torch.Tensor, count: torch.Tensor) -> None:
    """Copies rows of a matrix inside it, one move after the other, in one launch.

    Args:
        x: [any, features], contiguous; changed.
        moves: int32 [any, 2], contiguous: source and destination of each move.
        count: int32 [1]: how many of the moves are made; read on the device.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_tensor("x", x, x.dtype, [None, None], x.device)
    check_tensor("moves", moves, torch.int32, [None, 2], x.device)
    check_tensor("count", count, torch.int32, [1], x.device)
    if runs_triton(x):
        from spectrie_kernels.device import move_slots as triton_form

        triton_form.move_rows(x, moves, count)
    else:
        reference.move_rows(x, moves, count)


def move_slots(
    keys: torch.Tensor, values: torch.Tensor, moves: torch.Tensor, count: torch.Tensor
) -> None:
    """Copies slots of the cache in all layers, one move after the other, in one launch.

    Args:
        keys: [layers, slots, kv_heads, head_dim], contiguous.
        values: As `keys`.
        moves: int32 [any, 2], contiguous: source and destination of each move.
        count: int32 [1]: how many of the moves are made; read on the device.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_moves(keys, values, moves, count)
    if runs_triton(keys):
        from spectrie_kernels.device import move_slots as triton_form

        triton_form.move_slots(keys, values, moves, count)
    else:
        reference.move_slots(keys, values, moves, count)


def compact_slots(
    keys: torch.Tensor,
    values: torch.Tensor,
    drawn: torch.Tensor,
    rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    walks: torch.Tensor,
    count: torch.Tensor,
) -> None:
    """Walks along draft trees and brings what they accept to its place in the cache, in one launch.

    A walk begins at row 0 of a tree and goes on to the first child that carries the token drawn after its
    row. The row that it finds at depth d is copied to the slot of row d, where plain decoding would have
    put it, in all layers. What the tree held there is gone.

    Args:
        keys: [layers, slots, kv_heads, head_dim], contiguous.
        values: As `keys`.
        drawn: int32 [any], the token drawn after each sampled row, negative for none.
        rows: int32 [any] each, of all rows: tokens, rows of the tree that they follow (-1 for row 0), slots.
        walks: int32 [any, 4], contiguous: of each tree its first row, how many rows it has (2 to 64), and
            which of `drawn` belongs to its row 0; then 0.
        count: int32 [1]: how many of the trees are walked along; read on the device.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_compaction(keys, values, drawn, rows, walks, count)
    if runs_triton(keys):
        from spectrie_kernels.device import move_slots as triton_form

        triton_form.compact_slots(keys, values, drawn, rows, walks, count)
    else:
        reference.compact_slots(keys, values, drawn, rows, walks, count)


def rotate_write(
    qkv: torch.Tensor | PartialSums,
    positions: torch.Tensor,
    slots: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    query: torch.Tensor,
    *,
    rotation: tuple[torch.Tensor, torch.Tensor] | None,
    norms: tuple[torch.Tensor, torch.Tensor] | None = None,
    epsilon: float = 0.0,
) -> torch.Tensor:
    """Turns the first product of a layer into queries and entries of the cache.

    The product is rounded to the dtype of `query` first, so that finished products and sums give the
    same bits. Then heads of queries and keys are normalised and rotated in float32, and rounded once
    more. The squares of a norm are added pairwise, neighbours first, zeros behind them up to a power
    of two; products and sums are rounded apart, root and division correctly. All forms give these
    bits, whatever the rows beside a row.

    Args:
        qkv: [rows, (heads + 2 kv_heads) * head_dim], of the dtype of `query`, or sums of that.
        positions: int32 [rows], rows of the tables in `rotation`.
        slots: int32 [rows]. A row with a negative slot is not written, and its query is 0.
        keys: One layer's [slots, kv_heads, head_dim], contiguous, of the dtype of `query`.
        values: As `keys`.
        query: [rows, heads, head_dim], contiguous; written and returned.
        rotation: Cosines and sines, float32 [any, rotated / 2], contiguous: dimension i turns with i +
            rotated / 2, those behind stay. None turns nothing.
        norms: Weights of the norms of query and key heads, float32 [head_dim] each; None for no
            norm.
        epsilon: Added to the mean square.

    Returns:
        `query`.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_rotation(qkv, positions, slots, keys, values, query, rotation, norms)
    arguments = (qkv, positions, slots, keys, values, query, rotation, norms, epsilon)
    if runs_triton(query):
        from spectrie_kernels.device import rotate_write as triton_form

        return triton_form.rotate_write(*arguments)
    return reference.rotate_write(*arguments)


def gate(gate_up: torch.Tensor | PartialSums, out: torch.Tensor) -> torch.Tensor:
    """Computes silu(gate) * up in float32, of a product that is rounded to the dtype of `out` first.

    Args:
        gate_up: [rows, 2 * inner], gate first, of the dtype of `out`, or sums of that.
        out: [rows, inner], contiguous; written and returned.

    Returns:
        `out`.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_gate(gate_up, out)
    if runs_triton(out):
        from spectrie_kernels.device import gate as triton_form

        return triton_form.gate(gate_up, out)
    return reference.gate(gate_up, out)
