"""A product whose last additions are left to the kernel that reads it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from spectrie_kernels.sum_order import MAX_SEGMENTS, sum_nest

__all__ = ["PartialSums"]


@dataclass(frozen=True, slots=True)
class PartialSums:
    """Sums that remain to be added, and the bias after them.

    Attributes:
        values: [parts, rows, features] float32, contiguous, the parts in their order: segments of a
            product, sums of ranks, or one finished sum. Pairwise there are 1, 2, 4 or 8, ascending at
            most 16.
        bias: [features], contiguous, or None.
        pairwise: Whether they are added pairwise, or ascending.
    """

    values: torch.Tensor
    bias: torch.Tensor | None = None
    pairwise: bool = True

    def __post_init__(self) -> None:
        values = self.values
        if values.dim() != 3 or values.dtype != torch.float32 or not values.is_contiguous():
            raise ValueError(
                f"values are {values.dtype} {list(values.shape)}, expected float32 [parts, rows, "
                "features], contiguous"
            )
        parts = values.shape[0]
        if not self.pairwise and not 1 <= parts <= MAX_SEGMENTS:
            raise ValueError(f"ascending sums have 1 to {MAX_SEGMENTS} parts, not {parts}")
        sum_nest(parts, self.pairwise)
        bias = self.bias
        if bias is None:
            return
        if list(bias.shape) != list(values.shape[2:]) or not bias.is_contiguous():
            raise ValueError(
                f"bias has shape {list(bias.shape)}, expected {list(values.shape[2:])}, contiguous"
            )
        if bias.device != values.device:
            raise ValueError(f"bias is on {bias.device}, values on {values.device}")

    @property
    def shape(self) -> torch.Size:
        """[rows, features] of the product that they are of."""
        return self.values.shape[1:]

    @property
    def nest(self) -> tuple[int, int, int]:
        """Trip counts of three nested sums that add the parts in their order."""
        return sum_nest(self.values.shape[0], self.pairwise)
