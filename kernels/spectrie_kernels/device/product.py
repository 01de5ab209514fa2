"""A product as other kernels read it: finished and rounded, or sums that remain to be added."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from spectrie_kernels.device.linear import add_parts
from spectrie_kernels.partial_sums import PartialSums

__all__ = [
    "as_float32",
    "load_product",
    "product_arguments",
    "sum_parts",
]


@triton.jit
def sum_parts(sums, parts, stride, at, inside):
    """The sum over p of sums[p * stride + at], pairwise; 0 where not `inside`.

    Parts that do not exist are zeros, which leave pairwise sums of 1, 2 or 4 parts as they are, and
    are not read.
    """
    total = tl.zeros(at.shape, tl.float32)
    for outer in tl.static_range(2):
        half = tl.zeros(at.shape, tl.float32)
        for middle in tl.static_range(2):
            pair = tl.zeros(at.shape, tl.float32)
            for inner in tl.static_range(2):
                part = (outer * 2 + middle) * 2 + inner
                there = inside & (part < parts)
                pair += tl.load(sums + part * stride + at, mask=there, other=0.0).to(tl.float32)
            half += pair
        total += half
    return total


@triton.jit
def load_product(
    product,
    bias,
    parts,
    stride,
    at,
    feature,
    inside,
    rounded: tl.constexpr,
    SUMS: tl.constexpr,
    ASCENDING: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):
    """float32 of a finished product at `at`, or of its sums, with their bias, rounded to `rounded`.

    product [rows, features], or with SUMS [parts, rows, features], `stride` numbers a part, which are
    added pairwise, or if ASCENDING is their number, ascending; `feature` is where the bias of each number
    stands.
    """
    if SUMS:
        if ASCENDING > 0:
            total = tl.zeros(at.shape, tl.float32)
            for part in tl.static_range(ASCENDING):
                total += tl.load(product + part * stride + at, mask=inside, other=0.0)
        else:
            total = sum_parts(product, parts, stride, at, inside)
        if HAS_BIAS:
            total += tl.load(bias + feature, mask=inside, other=0.0).to(tl.float32)
        value = total.to(rounded).to(tl.float32)
    else:
        value = tl.load(product + at, mask=inside, other=0.0).to(tl.float32)
    return value


def product_arguments(
    product: torch.Tensor | PartialSums,
) -> tuple[torch.Tensor, torch.Tensor, int, dict[str, Any]]:
    """Returns pointers to a product and its bias, its number of parts, and the constants of
    `load_product`."""
    if isinstance(product, torch.Tensor):
        return product, product, 0, {"SUMS": False, "ASCENDING": 0, "HAS_BIAS": False}
    values, bias = product.values, product.bias
    ascending = 0 if product.pairwise else values.shape[0]
    constants = {"SUMS": True, "ASCENDING": ascending, "HAS_BIAS": bias is not None}
    return values, values if bias is None else bias, values.shape[0], constants


def as_float32(product: torch.Tensor | PartialSums, dtype: torch.dtype) -> torch.Tensor:
    """Returns float32 of a product rounded to `dtype`, for the interpreter."""
    if isinstance(product, torch.Tensor):
        return product.float()
    rounded = torch.empty(product.values.shape[1:], dtype=dtype, device=product.values.device)
    return add_parts(product, rounded).float()
