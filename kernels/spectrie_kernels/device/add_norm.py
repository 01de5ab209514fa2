"""Residual and root mean square norm as a Triton kernel: one program a row.

Source: Zhang and Sennrich, Root Mean Square Layer Normalization, arXiv 1910.07467.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

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

    rms(r) = sqrt(mean(r * r) + epsilon). residual float32 [num_rows, FEATURES]; sums float32
    [parts, num_rows, FEATURES], added pairwise; bias, weight [FEATURES]; output
    [num_rows, FEATURES].

    The number of parts is no constant: the compiler lays a sum over features out among threads as
    it likes, so all numbers of parts share one compiled kernel. Parts that do not exist are zeros,
    which leave pairwise sums of 1, 2 or 4 parts as they are, and are not read.
    """
    row = tl.program_id(0).to(tl.int64)
    features = tl.arange(0, BLOCK)
    inside = features < FEATURES
    at = row * FEATURES + features
    stride = tl.cast(num_rows, tl.int64) * FEATURES
    total = tl.zeros((BLOCK,), tl.float32)
    for outer in tl.static_range(2):
        half = tl.zeros((BLOCK,), tl.float32)
        for middle in tl.static_range(2):
            pair = tl.zeros((BLOCK,), tl.float32)
            for inner in tl.static_range(2):
                part = (outer * 2 + middle) * 2 + inner
                there = inside & (part < parts)
                pair += tl.load(sums + part * stride + at, mask=there, other=0.0)
            half += pair
        total += half
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
    delta: PartialSums | None,
    weight: torch.Tensor,
    epsilon: float,
    out: torch.Tensor,
) -> torch.Tensor:
    """See `spectrie_kernels.add_norm`."""
    rows, features = residual.shape
    if rows == 0:
        return out
    if out.dtype == torch.bfloat16 and not out.is_cuda:
        # The interpreter cuts the lower bits of bfloat16 off instead of rounding.
        return out.copy_(add_norm(residual, delta, weight, epsilon, out.float()))
    bias = delta.bias if delta is not None else None
    constants, options = compiled_form(features, bias is not None)
    _add_norm_kernel[(rows,)](
        residual,
        residual if delta is None else delta.values,
        weight if bias is None else bias,
        weight,
        out,
        0 if delta is None else delta.values.shape[0],
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
