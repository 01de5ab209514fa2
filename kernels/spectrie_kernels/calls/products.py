"""Products with weights, and the sums that they leave to others."""

from __future__ import annotations

import dataclasses

import torch

from spectrie_kernels import reference
from spectrie_kernels.backend import runs_triton
from spectrie_kernels.checks import (
    check_linear,
    check_operands,
    check_rank_sums,
    check_sums,
    check_tensor,
    check_workspace,
)
from spectrie_kernels.linear_tiles import LinearTiles
from spectrie_kernels.linear_weight import LinearWeight
from spectrie_kernels.partial_sums import PartialSums

__all__ = [
    "add_rank_sums",
    "finish_sums",
    "linear",
    "linear_sums",
    "linear_sums_shape",
    "linear_workspace",
]


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
        x: [rows, in_features], contiguous, dtype and device of the weight; or in half precision where the
            weight is float32.
        weight: The matrix, its order and its bias.
        out: [rows, out_features], contiguous, written and returned: of the dtype of `x`, or
            float32 for a head or for a sum that a rank sends. None makes one of the dtype of `x`.
        workspace: float32, contiguous, at least `linear_workspace` elements, for use by one call at
            a time. None makes one where it is needed.
        tiles: How the work is cut, for speed alone; None takes those of the device's table, or
            untuned ones for the shape.

    Returns:
        `out`.

    Raises:
        ValueError: A shape, dtype, device or tile does not fit; the message names it.
    """
    rows = x.shape[0]
    if tiles is None:
        tiles = _tiles_of(rows, weight)
    if out is None:
        out = x.new_empty((rows, weight.out_features))
    check_linear(x, weight, out)
    tiles.check(weight.order, weight.out_features, weight.values.element_size())
    if workspace is not None:
        check_workspace(workspace, linear_workspace(rows, weight, tiles), x.device)
    if not runs_triton(x):
        return reference.linear(x, weight, out)
    from spectrie_kernels.device import linear as triton_form

    return triton_form.linear(x, weight, out, workspace, tiles)


def linear_workspace(rows: int, weight: LinearWeight, tiles: LinearTiles | None = None) -> int:
    """Returns how many float32 elements `linear` needs as workspace for `rows` rows, or 0."""
    if tiles is None:
        tiles = _tiles_of(rows, weight)
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
        tiles: As for `linear`. None splits sums that are added pairwise, as every reader takes them, and
            finishes ascending ones, which `rotate_write`, `gate` and `choose_experts` take too.

    Raises:
        ValueError: A shape, dtype, device or tile does not fit; the message names it.
    """
    tiles = _tiles_of_sums(x.shape[0], weight, tiles)
    shape = linear_sums_shape(x.shape[0], weight, tiles)
    if out is None:
        out = torch.empty(shape, dtype=torch.float32, device=x.device)
    check_operands(x, weight)
    check_sums(x, out, shape)
    tiles.check(weight.order, weight.out_features, weight.values.element_size())
    if runs_triton(x):
        from spectrie_kernels.device import linear as triton_form

        triton_form.linear_sums(x, weight, out, tiles)
    else:
        reference.linear_sums(x, weight, out)
    return PartialSums(out, weight.bias, weight.order.pairwise or not tiles.split)


def linear_sums_shape(
    rows: int, weight: LinearWeight, tiles: LinearTiles | None = None
) -> tuple[int, int, int]:
    """Returns the shape of the sums that `linear_sums` writes: parts, rows, features."""
    tiles = _tiles_of_sums(rows, weight, tiles)
    return (weight.order.segments if tiles.split else 1, rows, weight.out_features)


def _tiles_of(rows: int, weight: LinearWeight) -> LinearTiles:
    return LinearTiles.of(
        rows, weight.order, weight.values.element_size(), out_features=weight.out_features
    )


def _tiles_of_sums(rows: int, weight: LinearWeight, tiles: LinearTiles | None) -> LinearTiles:
    if tiles is None:
        tiles = _tiles_of(rows, weight)
        return dataclasses.replace(tiles, split=tiles.split and weight.order.pairwise)
    return tiles


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


def finish_sums(sums: PartialSums, out: torch.Tensor) -> torch.Tensor:
    """Adds the sums that a product left, and its bias: the bits of the product.

    Args:
        sums: Of [parts, rows, features].
        out: [rows, features], contiguous, any floating dtype; written and returned.

    Returns:
        `out`.

    Raises:
        ValueError: A shape or device does not fit; the message names it.
    """
    check_tensor("out", out, out.dtype, list(sums.shape), sums.values.device)
    if runs_triton(out):
        from spectrie_kernels.device import linear as triton_form

        return triton_form.add_parts(sums, out)
    return out.copy_(reference.finished(sums, out.dtype))
