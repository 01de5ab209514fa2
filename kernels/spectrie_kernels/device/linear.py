"""Products whose bits do not depend on the number of rows, as Triton kernels.

The weight is the taller operand and the rows of the input are the wider one, so that one matrix
instruction and its step serve 1 row as well as 4096.

Sources:
1. Thinking Machines, Defeating Nondeterminism in LLM Inference, 2025: why a batch changes a row.
2. Osama et al., Stream-K, arXiv 2301.03598: splitting a product along its terms.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from spectrie_kernels.backend import is_interpreted_bfloat16
from spectrie_kernels.linear_tiles import LinearTiles
from spectrie_kernels.linear_weight import LinearWeight
from spectrie_kernels.partial_sums import PartialSums

__all__ = [
    "add_parts",
    "add_rank_sums",
    "linear",
    "linear_sums",
    "operand",
    "segment_sum",
]

_ADD_FEATURES = 256


@triton.jit
def segment_sum(
    x_at,
    weight_at,
    segment,
    padded,
    IN_FEATURES: tl.constexpr,
    SEGMENT: tl.constexpr,
    EVEN: tl.constexpr,
    BLOCK_FEATURES: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
):
    """acc[f, r] = sum of weight[f, k] x[r, k] over the segment's k, ascending in one accumulator.

    The bound of the loop is no constant: of a loop that it knows to take one step, the compiler
    would make `sum + dot(w, x, 0)` into `dot(w, x, sum)`, which adds in another order; and where it
    knows the number of steps it unrolls them until registers spill.
    """
    acc = tl.zeros((BLOCK_FEATURES, BLOCK_ROWS), tl.float32)
    for first in range(0, padded, BLOCK_DEPTH):
        within = first + tl.arange(0, BLOCK_DEPTH)
        k = segment * SEGMENT + within
        if EVEN:
            w = tl.load(weight_at + k[None, :])
            x = tl.load(x_at + k[None, :])
        else:
            inside = ((within < SEGMENT) & (k < IN_FEATURES))[None, :]
            w = tl.load(weight_at + k[None, :], mask=inside, other=0.0)
            x = tl.load(x_at + k[None, :], mask=inside, other=0.0)
        acc = tl.dot(w, tl.trans(x.to(w.dtype)), acc, input_precision="ieee")
    return acc


@triton.jit(do_not_specialize=["num_rows", "padded"])
def _linear_kernel(
    x,
    weight,
    bias,
    output,
    num_rows,
    padded,
    OUT_FEATURES: tl.constexpr,
    IN_FEATURES: tl.constexpr,
    SEGMENT: tl.constexpr,
    EVEN: tl.constexpr,
    OUTER: tl.constexpr,
    MIDDLE: tl.constexpr,
    INNER: tl.constexpr,
    SPLIT: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK_FEATURES: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
):
    """One tile of features and rows: of one segment's sums (SPLIT), or of the finished product.

    x [num_rows, IN_FEATURES]; weight [OUT_FEATURES, IN_FEATURES]; bias [OUT_FEATURES];
    output [num_rows, OUT_FEATURES], with SPLIT float32 [segments, num_rows, OUT_FEATURES]. A segment
    is SEGMENT terms, with zeros `padded`; EVEN says that it needs no zeros and no segment is short.
    """
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    features = tl.program_id(1) * BLOCK_FEATURES + tl.arange(0, BLOCK_FEATURES)
    # Tiles that reach past the end repeat the last row or feature, which no store writes.
    row = tl.minimum(rows, num_rows - 1).to(tl.int64)
    feature = tl.minimum(features, OUT_FEATURES - 1).to(tl.int64)
    x_at = x + row[:, None] * IN_FEATURES
    weight_at = weight + feature[:, None] * IN_FEATURES
    total = tl.zeros((BLOCK_FEATURES, BLOCK_ROWS), tl.float32)
    first_row = row * 0
    if SPLIT:
        segment = tl.program_id(2)
        total = segment_sum(
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
        first_row += segment.to(tl.int64) * num_rows
    else:
        for outer in range(0, OUTER):
            half = tl.zeros((BLOCK_FEATURES, BLOCK_ROWS), tl.float32)
            for middle in range(0, MIDDLE):
                pair = tl.zeros((BLOCK_FEATURES, BLOCK_ROWS), tl.float32)
                for inner in range(0, INNER):
                    pair += segment_sum(
                        x_at,
                        weight_at,
                        (outer * MIDDLE + middle) * INNER + inner,
                        padded,
                        IN_FEATURES,
                        SEGMENT,
                        EVEN,
                        BLOCK_FEATURES,
                        BLOCK_ROWS,
                        BLOCK_DEPTH,
                    )
                half += pair
            total += half
        if HAS_BIAS:
            total += tl.load(bias + feature).to(tl.float32)[:, None]
    at = output + (first_row + row)[None, :] * OUT_FEATURES + feature[:, None]
    real = (features < OUT_FEATURES)[:, None] & (rows < num_rows)[None, :]
    tl.store(at, total.to(output.dtype.element_ty), mask=real)


@triton.jit
def _nested_sum(
    partials,
    stride,
    OUTER: tl.constexpr,
    MIDDLE: tl.constexpr,
    INNER: tl.constexpr,
    BLOCK: tl.constexpr,
    inside,
):
    """Sum of the numbers `stride` apart at `partials`, in the order of the nest."""
    total = tl.zeros((BLOCK,), tl.float32)
    for outer in tl.static_range(OUTER):
        half = tl.zeros((BLOCK,), tl.float32)
        for middle in tl.static_range(MIDDLE):
            pair = tl.zeros((BLOCK,), tl.float32)
            for inner in tl.static_range(INNER):
                part = (outer * MIDDLE + middle) * INNER + inner
                pair += tl.load(partials + part * stride, mask=inside, other=0.0)
            half += pair
        total += half
    return total


@triton.jit(do_not_specialize=["num_rows"])
def _add_kernel(
    partials,
    bias,
    output,
    num_rows,
    OUT_FEATURES: tl.constexpr,
    OUTER: tl.constexpr,
    MIDDLE: tl.constexpr,
    INNER: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """output[r, f] = sum over p of partials[p, r, f] in the order of the nest, + bias[f].

    partials float32 [parts, num_rows, OUT_FEATURES]; output [num_rows, OUT_FEATURES].
    """
    row = tl.program_id(0).to(tl.int64)
    features = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = features < OUT_FEATURES
    at = row * OUT_FEATURES + features
    stride = tl.cast(num_rows, tl.int64) * OUT_FEATURES
    total = _nested_sum(partials + at, stride, OUTER, MIDDLE, INNER, BLOCK, inside)
    if HAS_BIAS:
        total += tl.load(bias + features, mask=inside, other=0.0).to(tl.float32)
    tl.store(output + at, total.to(output.dtype.element_ty), mask=inside)


def linear(
    x: torch.Tensor,
    weight: LinearWeight,
    out: torch.Tensor,
    workspace: torch.Tensor | None,
    tiles: LinearTiles,
) -> torch.Tensor:
    """See `spectrie_kernels.linear`."""
    if x.shape[0] == 0:
        return out
    if is_interpreted_bfloat16(out):
        return out.copy_(linear(x, weight, out.float(), workspace, tiles))
    if not tiles.split:
        _multiply(x, weight, weight.bias, out, tiles)
        return out
    partials = workspace if workspace is not None else _partials(x, weight)
    _multiply(x, weight, None, partials, tiles)
    _add(partials, weight.bias, out, weight.order.nest)
    return out


def linear_sums(
    x: torch.Tensor, weight: LinearWeight, out: torch.Tensor, tiles: LinearTiles
) -> None:
    """See `spectrie_kernels.linear_sums`."""
    if x.shape[0]:
        _multiply(x, weight, None, out, tiles)


def add_rank_sums(sums: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> torch.Tensor:
    """See `spectrie_kernels.add_rank_sums`."""
    return add_parts(PartialSums(sums, bias), out)


def add_parts(sums: PartialSums, out: torch.Tensor) -> torch.Tensor:
    """Writes the sum of the parts and their bias to `out`, [rows, features], and returns it."""
    if is_interpreted_bfloat16(out):
        return out.copy_(add_parts(sums, out.float()))
    if out.shape[0]:
        _add(sums.values, sums.bias, out, sums.nest)
    return out


def _multiply(
    x: torch.Tensor,
    weight: LinearWeight,
    bias: torch.Tensor | None,
    target: torch.Tensor,
    tiles: LinearTiles,
) -> None:
    """Writes the product to `target`, or its segments' sums where the tiles are split."""
    rows = x.shape[0]
    order = weight.order
    outer, middle, inner = order.nest
    values = operand(weight.values)
    grid = (
        triton.cdiv(rows, tiles.rows),
        triton.cdiv(weight.out_features, tiles.features),
        order.segments if tiles.split else 1,
    )
    _linear_kernel[grid](
        operand(x),
        values,
        values if bias is None else bias,
        target,
        rows,
        order.padded_segment,
        OUT_FEATURES=weight.out_features,
        IN_FEATURES=order.in_features,
        SEGMENT=order.segment,
        EVEN=order.is_even,
        OUTER=outer,
        MIDDLE=middle,
        INNER=inner,
        SPLIT=tiles.split,
        HAS_BIAS=bias is not None,
        BLOCK_FEATURES=tiles.features,
        BLOCK_ROWS=tiles.rows,
        BLOCK_DEPTH=tiles.depth,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )


def _partials(x: torch.Tensor, weight: LinearWeight) -> torch.Tensor:
    shape = (weight.order.segments, x.shape[0], weight.out_features)
    return torch.empty(shape, dtype=torch.float32, device=x.device)


def operand(values: torch.Tensor) -> torch.Tensor:
    """Returns a factor as the interpreter can multiply it."""
    return values.float() if is_interpreted_bfloat16(values) else values


def _add(
    partials: torch.Tensor,
    bias: torch.Tensor | None,
    out: torch.Tensor,
    nest: tuple[int, int, int],
) -> None:
    rows, out_features = out.shape
    outer, middle, inner = nest
    _add_kernel[(rows, triton.cdiv(out_features, _ADD_FEATURES))](
        partials,
        partials if bias is None else bias,
        out,
        rows,
        OUT_FEATURES=out_features,
        OUTER=outer,
        MIDDLE=middle,
        INNER=inner,
        HAS_BIAS=bias is not None,
        BLOCK=_ADD_FEATURES,
    )
