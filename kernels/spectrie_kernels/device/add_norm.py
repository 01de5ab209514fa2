"""Residual and root mean square norm as a Triton kernel: one program a row.

Source: Zhang and Sennrich, Root Mean Square Layer Normalization, arXiv 1910.07467.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from spectrie_kernels.backend import is_interpreted_bfloat16
from spectrie_kernels.device.product import sum_parts
from spectrie_kernels.partial_sums import PartialSums

__all__ = ["add_norm", "compiled_form"]


@triton.jit(do_not_specialize=["parts", "num_rows"])
def _add_norm_kernel(
    residual,
    sums,
    bias,
    weight,
    output,
    parts,
    num_rows,
    epsilon,
    FEATURES: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """residual += sum over p of sums[p] + bias; output = residual / rms(residual) * weight.

    rms(r) = sqrt(mean(r * r) + epsilon). residual float32 [num_rows, FEATURES]; sums
    [parts, num_rows, FEATURES], added pairwise; bias, weight [FEATURES]; output
    [num_rows, FEATURES].

    The number of parts is no constant: the compiler lays a sum over features out among threads as
    it likes, so all numbers of parts share one compiled kernel.
    """
    row = tl.program_id(0).to(tl.int64)
    features = tl.arange(0, BLOCK)
    inside = features < FEATURES
    at = row * FEATURES + features
    stride = tl.cast(num_rows, tl.int64) * FEATURES
    total = sum_parts(sums, parts, stride, at, inside)
    if HAS_BIAS:
        total += tl.load(bias + features, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(residual + at, mask=inside, other=0.0) + total
    tl.store(residual + at, x, mask=inside)
    mean = tl.div_rn(tl.sum(x * x, axis=0), FEATURES * 1.0)
    scale = tl.div_rn(1.0, tl.sqrt_rn(mean + epsilon))
    gain = tl.load(weight + features, mask=inside, other=0.0).to(tl.float32)
    tl.store(output + at, (x * scale * gain).to(output.dtype.element_ty), mask=inside)


def add_norm(
    residual: torch.Tensor,
    delta: torch.Tensor | PartialSums | None,
    weight: torch.Tensor,
    epsilon: float,
    out: torch.Tensor,
) -> torch.Tensor:
    """See `spectrie_kernels.add_norm`."""
    rows, features = residual.shape
    if rows == 0:
        return out
    if is_interpreted_bfloat16(out):
        return out.copy_(add_norm(residual, delta, weight, epsilon, out.float()))
    # What is not there is not read.
    sums, bias, parts = residual, None, 0
    if isinstance(delta, torch.Tensor):
        sums, parts = delta, 1
    elif delta is not None:
        sums, bias, parts = delta.values, delta.bias, delta.values.shape[0]
    constants, options = compiled_form(features, bias is not None)
    _add_norm_kernel[(rows,)](
        residual,
        sums,
        weight if bias is None else bias,
        weight,
        out,
        parts,
        rows,
        epsilon,
        **constants,
        **options,
    )
    return out


def compiled_form(features: int, has_bias: bool) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options of the one kernel for rows of `features`."""
    block = triton.next_power_of_2(features)
    constants = {"FEATURES": features, "HAS_BIAS": has_bias, "BLOCK": block}
    # A product and the sum that takes it are rounded apart.
    return constants, {"num_warps": min(16, max(4, block // 512)), "enable_fp_fusion": False}
