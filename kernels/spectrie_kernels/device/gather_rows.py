"""Rows taken by their numbers, as Triton kernels: embedding, rows before the head, rows of logits."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["compiled_form", "gather_rows", "lift_rows", "lifting_form"]


@triton.jit
def _gather_rows_kernel(x, rows, output, FEATURES: tl.constexpr, BLOCK: tl.constexpr):
    """output[i] = x[rows[i]], 0 where rows[i] is negative; x [any, FEATURES]."""
    index = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = feature < FEATURES
    row = tl.load(rows + index).to(tl.int64)
    taken = tl.load(x + row * FEATURES + feature, mask=inside & (row >= 0), other=0.0)
    tl.store(output + index * FEATURES + feature, taken.to(output.dtype.element_ty), mask=inside)


def gather_rows(x: torch.Tensor, rows: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """See `spectrie_kernels.embed` and `spectrie_kernels.gather_rows`."""
    count, features = out.shape
    if count:
        constants, options = compiled_form(features)
        grid = (count, triton.cdiv(features, constants["BLOCK"]))
        _gather_rows_kernel[grid](x, rows, out, **constants, **options)
    return out


def compiled_form(features: int) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options for rows of `features`."""
    return {"FEATURES": features, "BLOCK": 1024}, {"num_warps": 4}


@triton.jit(do_not_specialize=["count"])
def _lift_rows_kernel(x, rows, count, FEATURES: tl.constexpr, BLOCK: tl.constexpr):
    """x[i] = x[rows[i]], for i ascending; x [any, FEATURES].

    Rows ascend, so that none is written before it is read: a program has the same features of all rows, and
    a thread of it too.
    """
    feature = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = feature < FEATURES
    for index in range(0, count):
        row = tl.load(rows + index).to(tl.int64)
        value = tl.load(x + row * FEATURES + feature, mask=inside)
        tl.store(x + tl.cast(index, tl.int64) * FEATURES + feature, value, mask=inside)


def lift_rows(x: torch.Tensor, rows: torch.Tensor) -> None:
    """See `spectrie_kernels.lift_rows`."""
    features = x.shape[1]
    if rows.shape[0]:
        constants, options = lifting_form(features)
        grid = (triton.cdiv(features, constants["BLOCK"]),)
        _lift_rows_kernel[grid](x, rows, rows.shape[0], **constants, **options)


def lifting_form(features: int) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options for rows of `features`."""
    # No stages: no load may come before the store of the round before it.
    return {"FEATURES": features, "BLOCK": 1024}, {"num_warps": 4, "num_stages": 1}
