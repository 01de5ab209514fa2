"""Products of rows with the experts that they chose, and the sum of these, as Triton kernels.

A tile holds rows of one expert. Its weight is the taller operand, as in `device/linear.py`, whose inner
loop this is: a row's sums are added in the same order whatever else is in its tile.

Source: Gale et al., MegaBlocks, arXiv 2211.15841: tiles of rows by expert instead of padding.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from spectrie_kernels.backend import is_interpreted_bfloat16
from spectrie_kernels.device.linear import operand, segment_sum
from spectrie_kernels.experts.weight import ExpertWeight
from spectrie_kernels.experts.work import ExpertWork
from spectrie_kernels.linear_tiles import LinearTiles

__all__ = ["add_experts", "adding_form", "expert_linear"]


@triton.jit(do_not_specialize=["padded"])
def _expert_linear_kernel(
    x,
    weight,
    choices,
    tiles,
    count,
    output,
    padded,
    OUT_FEATURES: tl.constexpr,
    IN_FEATURES: tl.constexpr,
    SEGMENT: tl.constexpr,
    EVEN: tl.constexpr,
    SEGMENTS: tl.constexpr,
    PER_ROW: tl.constexpr,
    BLOCK_FEATURES: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
):
    """output[c] = x[c // PER_ROW] weight[expert of c]^T for the choices c of one tile.

    x [any, IN_FEATURES]; weight [experts, OUT_FEATURES, IN_FEATURES]; choices, tiles and count as in
    `ExpertWork`; output [any, OUT_FEATURES]. Segments as in `_linear_kernel`, added ascending.
    """
    tile = tl.program_id(0)
    if tile >= tl.load(count):
        return
    item = tiles + tile * 4
    expert = tl.load(item).to(tl.int64)
    begin = tl.load(item + 1)
    number = tl.load(item + 2)
    places = tl.arange(0, BLOCK_ROWS)
    # What reaches past the end repeats the last choice or feature, which no store writes.
    choice = tl.load(choices + begin + tl.minimum(places, number - 1)).to(tl.int64)
    features = tl.program_id(1) * BLOCK_FEATURES + tl.arange(0, BLOCK_FEATURES)
    feature = tl.minimum(features, OUT_FEATURES - 1).to(tl.int64)
    x_at = x + (choice // PER_ROW)[:, None] * IN_FEATURES
    weight_at = weight + (expert * OUT_FEATURES + feature)[:, None] * IN_FEATURES
    total = tl.zeros((BLOCK_FEATURES, BLOCK_ROWS), tl.float32)
    for segment in range(0, SEGMENTS):
        total += segment_sum(
            x_at,
            weight_at,
            segment,
            padded,
            IN_FEATURES,
            SEGMENT,
            EVEN,
            BLOCK_FEATURES,
            BLOCK_ROWS,
            BLOCK_DEPTH,
        )
    at = output + choice[None, :] * OUT_FEATURES + feature[:, None]
    real = (features < OUT_FEATURES)[:, None] & (places < number)[None, :]
    tl.store(at, total.to(output.dtype.element_ty), mask=real)


@triton.jit
def _add_experts_kernel(
    results,
    ids,
    shares,
    output,
    FEATURES: tl.constexpr,
    CHOSEN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """output[r] = sum over ranks of shares[r, rank] * results[r, rank], ascending, each rounded apart.

    results [rows, CHOSEN, FEATURES]; ids and shares [rows, CHOSEN]; output [rows, FEATURES].
    """
    row = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = feature < FEATURES
    total = tl.zeros((BLOCK,), tl.float32)
    for rank in tl.static_range(CHOSEN):
        choice = row * CHOSEN + rank
        there = inside & (tl.load(ids + choice) >= 0)
        result = tl.load(results + choice * FEATURES + feature, mask=there, other=0.0)
        total += tl.load(shares + choice) * result.to(tl.float32)
    tl.store(output + row * FEATURES + feature, total.to(output.dtype.element_ty), mask=inside)


def expert_linear(
    x: torch.Tensor,
    weight: ExpertWeight,
    work: ExpertWork,
    out: torch.Tensor,
    tiles: LinearTiles,
) -> torch.Tensor:
    """See `spectrie_kernels.expert_linear`."""
    if work.choices.shape[0] == 0:
        return out
    if is_interpreted_bfloat16(out):
        return out.copy_(expert_linear(x, weight, work, out.float(), tiles))
    order = weight.order
    grid = (work.tiles.shape[0], triton.cdiv(weight.out_features, tiles.features))
    _expert_linear_kernel[grid](
        operand(x),
        operand(weight.values),
        work.choices,
        work.tiles,
        work.count,
        out,
        order.padded_segment,
        OUT_FEATURES=weight.out_features,
        IN_FEATURES=order.in_features,
        SEGMENT=order.segment,
        EVEN=order.is_even,
        SEGMENTS=order.segments,
        PER_ROW=work.choices.shape[0] // x.shape[0],
        BLOCK_FEATURES=tiles.features,
        BLOCK_ROWS=tiles.rows,
        BLOCK_DEPTH=tiles.depth,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )
    return out


def add_experts(
    results: torch.Tensor, ids: torch.Tensor, shares: torch.Tensor, out: torch.Tensor
) -> torch.Tensor:
    """See `spectrie_kernels.add_experts`."""
    rows, features = out.shape
    if rows == 0:
        return out
    if is_interpreted_bfloat16(out):
        return out.copy_(add_experts(results, ids, shares, out.float()))
    constants, options = adding_form(features, ids.shape[1])
    grid = (rows, triton.cdiv(features, constants["BLOCK"]))
    _add_experts_kernel[grid](operand(results), ids, shares, out, **constants, **options)
    return out


def adding_form(features: int, chosen: int) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options of `_add_experts_kernel`."""
    constants = {"FEATURES": features, "CHOSEN": chosen, "BLOCK": 1024}
    return constants, {"num_warps": 4, "enable_fp_fusion": False}
