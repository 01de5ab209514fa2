"""The gate of an MLP, as a Triton kernel.

Source: Shazeer, GLU Variants Improve Transformer, arXiv 2002.05202.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from spectrie_kernels.backend import is_interpreted_bfloat16
from spectrie_kernels.device.product import (
    as_float32,
    load_product,
    product_arguments,
)
from spectrie_kernels.partial_sums import PartialSums

__all__ = ["compiled_form", "gate"]


@triton.jit(do_not_specialize=["parts", "num_rows"])
def _gate_kernel(
    gate_up,
    bias,
    output,
    parts,
    num_rows,
    INNER: tl.constexpr,
    SUMS: tl.constexpr,
    ASCENDING: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """output = g / (1 + exp(-g)) * u, of a product whose rows are g and then u, INNER numbers each.

    gate_up and bias as in `load_product`; output [num_rows, INNER].
    """
    rounded: tl.constexpr = output.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = feature < INNER
    stride = tl.cast(num_rows, tl.int64) * (2 * INNER)
    at = row * (2 * INNER) + feature
    up_at = at + INNER
    g = load_product(
        gate_up, bias, parts, stride, at, feature, inside, rounded, SUMS, ASCENDING, HAS_BIAS
    )
    u = load_product(
        gate_up,
        bias,
        parts,
        stride,
        up_at,
        feature + INNER,
        inside,
        rounded,
        SUMS,
        ASCENDING,
        HAS_BIAS,
    )
    # exp of the negative side alone, which cannot overflow.
    e = tl.exp(-tl.abs(g))
    result = tl.div_rn(tl.where(g < 0.0, g * e, g), 1.0 + e) * u
    tl.store(output + row * INNER + feature, result.to(rounded), mask=inside)


def gate(gate_up: torch.Tensor | PartialSums, out: torch.Tensor) -> torch.Tensor:
    """See `spectrie_kernels.gate`."""
    rows, inner = out.shape
    if rows == 0:
        return out
    if is_interpreted_bfloat16(out):
        return out.copy_(gate(as_float32(gate_up, out.dtype), out.float()))
    product, bias, parts, form = product_arguments(gate_up)
    constants, options = compiled_form(inner)
    grid = (rows, triton.cdiv(inner, constants["BLOCK"]))
    _gate_kernel[grid](product, bias, out, parts, rows, **form, **constants, **options)
    return out


def compiled_form(inner: int) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options for rows of `inner` results."""
    return {"INNER": inner, "BLOCK": 1024}, {"num_warps": 4, "enable_fp_fusion": False}
