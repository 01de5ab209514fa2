"""Kernels for tree verification, each beside its plain-torch reference.

Each function runs the plain-torch form on CPU tensors and the Triton kernel on GPU tensors (on all
tensors under Triton's interpreter, `TRITON_INTERPRET=1`); `backend.py` tells which. Importing this
does not need Triton.
"""

from __future__ import annotations

import dataclasses

import torch

from spectrie_kernels import reference
from spectrie_kernels.attention.key_order import KeyOrder
from spectrie_kernels.attention.layout import AttentionLayout
from spectrie_kernels.attention.rows import MAX_TREE_ROWS, AttentionRows
from spectrie_kernels.attention.tiles import AttentionTiles
from spectrie_kernels.backend import has_triton, runs_triton
from spectrie_kernels.checks import (
    check_attention,
    check_linear,
    check_norm,
    check_operands,
    check_rank_sums,
    check_sums,
    check_workspace,
)
from spectrie_kernels.draw import BANNED, NO_LOGIT, draw, draw_workspace
from spectrie_kernels.draw_rows import DrawRows, has_device_form
from spectrie_kernels.linear_tiles import LinearTiles
from spectrie_kernels.linear_weight import LinearWeight
from spectrie_kernels.partial_sums import PartialSums
from spectrie_kernels.sum_order import SumOrder

__all__ = [
    "BANNED",
    "MAX_TREE_ROWS",
    "NO_LOGIT",
    "AttentionLayout",
    "AttentionRows",
    "AttentionTiles",
    "DrawRows",
    "KeyOrder",
    "LinearTiles",
    "LinearWeight",
    "PartialSums",
    "SumOrder",
    "add_norm",
    "add_rank_sums",
    "draw",
    "draw_workspace",
    "has_device_form",
    "has_triton",
    "linear",
    "linear_sums",
    "linear_sums_shape",
    "linear_workspace",
    "row_argmax",
    "tree_attention",
    "verify_greedy",
]


def tree_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    layout: AttentionLayout,
    scale: float,
    *,
    window: int | None = None,
    out: torch.Tensor | None = None,
    workspace: torch.Tensor | None = None,
) -> torch.Tensor:
    """Computes attention of every row of a step over its request's pages: decode, chunks and trees.

    On a GPU a row's bits depend on that row, its path's keys and the model alone. Given `out` and
    `workspace` it allocates nothing; it never waits for the device.

    Args:
        query: [rows, heads, head_dim], contiguous, float32, float16 or bfloat16.
        key_cache: [slots, kv_heads, head_dim], contiguous, same dtype and device as `query`. The
            rows' own keys are already in their slots.
        value_cache: As `key_cache`.
        layout: The step; on the same device. A rank may have a share of its heads, in equal groups.
        scale: Factor on the scores, positive, usually head_dim ** -0.5.
        window: Keys that a row sees, its own included: one of the layout's; None for all.
        out: Like `query`, written and returned; None makes one.
        workspace: float32, contiguous, at least `DeviceWork.workspace` elements, for use by one call
            at a time. None makes one.

    Returns:
        `out`: [rows, heads, head_dim].

    Raises:
        ValueError: A shape, dtype, device, scale or window does not fit; the message names it.
    """
    if out is None:
        out = torch.empty_like(query)
    check_attention(query, key_cache, value_cache, layout, scale, window, out)
    if not runs_triton(query):
        plain = reference.tree_attention(query, key_cache, value_cache, layout.rows, scale, window)
        return out.copy_(plain)
    from spectrie_kernels.device import tree_attention as triton_form

    if workspace is not None:
        elements = layout.work[window].workspace(query.shape[1], query.shape[2])
        check_workspace(workspace, elements, query.device)
    return triton_form.tree_attention(
        query, key_cache, value_cache, layout, scale, window, out, workspace
    )


def row_argmax(logits: torch.Tensor) -> torch.Tensor:
    """Returns the likeliest token of each row; ties go to the lowest id, unlike in torch.argmax.

    Args:
        logits: [rows, vocabulary], any floating dtype, rows contiguous.

    Returns:
        [rows] int32.

    Raises:
        ValueError: `logits` is not a matrix, or has no columns.
    """
    if logits.dim() != 2 or logits.shape[1] == 0:
        raise ValueError(f"logits have shape {list(logits.shape)}, expected [rows, vocabulary]")
    if runs_triton(logits):
        from spectrie_kernels.device import row_argmax as triton_form

        return triton_form.row_argmax(logits)
    return reference.row_argmax(logits)


def verify_greedy(
    argmax: torch.Tensor,
    row_token: torch.Tensor,
    row_parent: torch.Tensor,
    request_row_start: torch.Tensor,
    request_row_count: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Walks each request's tree along the model's greedy choices.

    The walk starts at node 0 and emits the model's token after each node. If a child carries that
    token, the walk continues at the first such child; otherwise it stops. A request without drafts is
    a tree of one row; pass the sampled row of a prefill chunk as such a tree.

    Args:
        argmax: [rows] int32, the model's choice after each row.
        row_token: [rows] int32, the token each row carries.
        row_parent: [rows] int32, index of the parent within the request, -1 for node 0.
        request_row_start: [requests] int32, first row of each request.
        request_row_count: [requests] int32, 1 to 64 rows.

    Returns:
        `counts` [requests] int32, tokens emitted (accepted drafts + 1); `path_rows`
        [requests, 64] int32, visited rows within the request; `emitted` [requests, 64] int32, the
        token emitted after each visited row. Entries from `counts` on are -1.

    Raises:
        ValueError: `row_token` or `row_parent` has another shape than `argmax`.
    """
    for name, tensor in (("row_token", row_token), ("row_parent", row_parent)):
        if tensor.shape != argmax.shape:
            raise ValueError(
                f"{name} has shape {list(tensor.shape)}, argmax has {list(argmax.shape)}"
            )
    arguments = (argmax, row_token, row_parent, request_row_start, request_row_count)
    if runs_triton(argmax):
        from spectrie_kernels.device import verify_greedy as triton_form

        return triton_form.verify_greedy(*arguments)
    return reference.verify_greedy(*arguments)


def linear(
    x: torch.Tensor,
    weight: LinearWeight,
    out: torch.Tensor | None = None,
    *,
    workspace: torch.Tensor | None = None,
    tiles: LinearTiles | None = None,
) -> torch.Tensor:
    """Computes x @ weight^T + bias; on a GPU a row's bits depend on that row and the weight alone.

    Sums are float32 in the weight's order, whatever the rows beside it and the tiles. Given `out`
    and `workspace` it allocates nothing; it never waits for the device.

    Args:
        x: [rows, in_features], contiguous, dtype and device of the weight.
        weight: The matrix, its order and its bias.
        out: [rows, out_features], contiguous, written and returned: of the dtype of `x`, or
            float32 for a head or for a sum that a rank sends. None makes one of the dtype of `x`.
        workspace: float32, contiguous, at least `linear_workspace` elements, for use by one call at
            a time. None makes one where it is needed.
        tiles: How the work is cut, for speed alone; None takes untuned ones for the shape.

    Returns:
        `out`.

    Raises:
        ValueError: A shape, dtype, device or tile does not fit; the message names it.
    """
    rows = x.shape[0]
    if tiles is None:
        tiles = LinearTiles.of(rows, weight.order, x.element_size())
    if out is None:
        out = x.new_empty((rows, weight.out_features))
    check_linear(x, weight, out)
    tiles.check(weight.order, weight.out_features, x.element_size())
    if workspace is not None:
        check_workspace(workspace, linear_workspace(rows, weight, tiles), x.device)
    if not runs_triton(x):
        return reference.linear(x, weight, out)
    from spectrie_kernels.device import linear as triton_form

    return triton_form.linear(x, weight, out, workspace, tiles)


def linear_workspace(rows: int, weight: LinearWeight, tiles: LinearTiles | None = None) -> int:
    """Returns how many float32 elements `linear` needs as workspace for `rows` rows, or 0."""
    if tiles is None:
        tiles = LinearTiles.of(rows, weight.order, weight.values.element_size())
    return weight.order.segments * rows * weight.out_features if tiles.split else 0


def linear_sums(
    x: torch.Tensor,
    weight: LinearWeight,
    out: torch.Tensor | None = None,
    *,
    tiles: LinearTiles | None = None,
) -> PartialSums:
    """Computes a product like `linear`, its last additions left to a kernel that reads it.

    Args:
        x: As for `linear`.
        weight: As for `linear`; its bias goes with the sums.
        out: float32 of `linear_sums_shape`, contiguous, written; None makes one.
        tiles: As for `linear`. Ascending sums are finished here, so their tiles may not be split.

    Raises:
        ValueError: A shape, dtype, device or tile does not fit; the message names it.
    """
    tiles = _tiles_of_sums(x.shape[0], weight, tiles)
    shape = linear_sums_shape(x.shape[0], weight, tiles)
    if out is None:
        out = torch.empty(shape, dtype=torch.float32, device=x.device)
    check_operands(x, weight)
    check_sums(x, out, shape)
    tiles.check(weight.order, weight.out_features, x.element_size())
    if runs_triton(x):
        from spectrie_kernels.device import linear as triton_form

        triton_form.linear_sums(x, weight, out, tiles)
    else:
        reference.linear_sums(x, weight, out)
    return PartialSums(out, weight.bias)


def linear_sums_shape(
    rows: int, weight: LinearWeight, tiles: LinearTiles | None = None
) -> tuple[int, int, int]:
    """Returns the shape of the sums that `linear_sums` writes: parts, rows, features."""
    tiles = _tiles_of_sums(rows, weight, tiles)
    return (weight.order.segments if tiles.split else 1, rows, weight.out_features)


def _tiles_of_sums(rows: int, weight: LinearWeight, tiles: LinearTiles | None) -> LinearTiles:
    if tiles is None:
        tiles = LinearTiles.of(rows, weight.order, weight.values.element_size())
        return dataclasses.replace(tiles, split=tiles.split and weight.order.pairwise)
    if tiles.split and not weight.order.pairwise:
        raise ValueError("tiles are split, but sums in ascending order are finished by one program")
    return tiles


def add_norm(
    residual: torch.Tensor,
    delta: PartialSums | None,
    weight: torch.Tensor,
    epsilon: float,
    out: torch.Tensor,
) -> torch.Tensor:
    """Adds to the residual stream and normalises it; a row's bits depend on that row alone.

    residual += delta, then out = residual / sqrt(mean(residual ** 2) + epsilon) * weight, all in
    float32. The number of parts of `delta` changes no bit of their sum's use.

    Args:
        residual: [rows, features] float32, contiguous; changed in place.
        delta: What to add, of [parts, rows, features]; None adds nothing.
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


def add_rank_sums(sums: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> torch.Tensor:
    """Adds the sums of ranks that share a weight's terms: the bits of one rank with all terms.

    Args:
        sums: [ranks, rows, out_features] float32, contiguous; 1, 2, 4 or 8 ranks, in their order,
            each the result of `linear` with `SumOrder.shard` and without bias.
        bias: [out_features], or None.
        out: [rows, out_features], contiguous, any floating dtype; written and returned.

    Returns:
        `out`.

    Raises:
        ValueError: A shape or dtype does not fit; the message names it.
    """
    check_rank_sums(sums, bias, out)
    if runs_triton(sums):
        from spectrie_kernels.device import linear as triton_form

        return triton_form.add_rank_sums(sums, bias, out)
    return reference.add_rank_sums(sums, bias, out)
