"""Rows taken by their numbers, as a Triton kernel: embedding, and rows before the head."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["compiled_form", "gather_rows"]


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
