"""A weight with the order in which its products are added."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from spectrie_kernels.sum_order import SumOrder

__all__ = ["LINEAR_DTYPES", "LinearWeight"]

LINEAR_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
"""Number formats of weights."""


@dataclass(frozen=True, slots=True)
class LinearWeight:
    """One matrix of a model, or one rank's share of it.

    Attributes:
        values: [out_features, in_features], contiguous, float32, float16 or bfloat16.
        order: Made from the shape of the whole matrix, also where ranks share it.
        bias: [out_features], contiguous, added to finished sums; None for none. A rank that sends
            its sum has none.
    """

    values: torch.Tensor
    order: SumOrder
    bias: torch.Tensor | None = None

    def __post_init__(self) -> None:
        shape = list(self.values.shape)
        if len(shape) != 2 or shape[0] == 0 or shape[1] != self.order.in_features:
            raise ValueError(
                f"values have shape {shape}, expected [out_features, {self.order.in_features}]"
            )
        if self.values.dtype not in LINEAR_DTYPES:
            raise ValueError(f"values are {self.values.dtype}, expected one of {LINEAR_DTYPES}")
        if not self.values.is_contiguous():
            raise ValueError("values are not contiguous")
        bias = self.bias
        if bias is None:
            return
        if list(bias.shape) != shape[:1] or not bias.is_contiguous():
            raise ValueError(f"bias has shape {list(bias.shape)}, expected {shape[:1]}, contiguous")
        if bias.device != self.values.device:
            raise ValueError(f"bias is on {bias.device}, values on {self.values.device}")

    @property
    def out_features(self) -> int:
        """Features of this rank's outputs."""
        return int(self.values.shape[0])

    @property
    def in_features(self) -> int:
        """Terms of each of this rank's sums."""
        return self.order.in_features
