"""A product whose last additions are left to the kernel that reads it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["PartialSums"]


@dataclass(frozen=True, slots=True)
class PartialSums:
    """Sums that remain to be added pairwise, and the bias after them.

    Attributes:
        values: [parts, rows, features] float32, contiguous; 1, 2, 4 or 8 parts in their order:
            segments of a product, sums of ranks, or one finished sum.
        bias: [features], contiguous, or None.
    """

    values: torch.Tensor
    bias: torch.Tensor | None = None

    def __post_init__(self) -> None:
        values = self.values
        if values.dim() != 3 or values.dtype != torch.float32 or not values.is_contiguous():
            raise ValueError(
                f"values are {values.dtype} {list(values.shape)}, expected float32 [parts, rows, "
                "features], contiguous"
            )
        if values.shape[0] not in (1, 2, 4, 8):
            raise ValueError(f"pairwise sums have 1, 2, 4 or 8 parts, not {values.shape[0]}")
        bias = self.bias
        if bias is None:
            return
        if list(bias.shape) != list(values.shape[2:]) or not bias.is_contiguous():
            raise ValueError(
                f"bias has shape {list(bias.shape)}, expected {list(values.shape[2:])}, contiguous"
            )
        if bias.device != values.device:
            raise ValueError(f"bias is on {bias.device}, values on {values.device}")
