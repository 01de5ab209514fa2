"""The weights of all experts of a layer, with the order in which their products are added."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from spectrie_kernels.linear_weight import LINEAR_DTYPES
from spectrie_kernels.sum_order import SumOrder

__all__ = ["ExpertWeight"]


@dataclass(frozen=True, slots=True)
class ExpertWeight:
    """One matrix of each expert of a layer, or one rank's outputs of them.

    Attributes:
        values: [experts, out_features, in_features], contiguous, float32, float16 or bfloat16.
        order: Made by `order_of` from the shape of the whole matrices; ascending.
    """

    values: torch.Tensor
    order: SumOrder

    def __post_init__(self) -> None:
        shape = list(self.values.shape)
        if len(shape) != 3 or 0 in shape or shape[2] != self.order.in_features:
            raise ValueError(
                f"values have shape {shape}, expected [experts, out_features, {self.order.in_features}]"
            )
        if self.values.dtype not in LINEAR_DTYPES:
            raise ValueError(f"values are {self.values.dtype}, expected one of {LINEAR_DTYPES}")
        if not self.values.is_contiguous():
            raise ValueError("values are not contiguous")
        if self.order.pairwise:
            raise ValueError("products of experts are added ascending, the order is pairwise")

    @staticmethod
    def order_of(out_features: int, in_features: int, num_chosen: int) -> SumOrder:
        """Returns the order for matrices of [out_features, in_features] before ranks share them.

        A row computes `num_chosen` of them at once, so that fewer segments keep a device busy.
        """
        return SumOrder.of(num_chosen * out_features, in_features)

    @property
    def num_experts(self) -> int:
        """Experts of the layer."""
        return int(self.values.shape[0])

    @property
    def out_features(self) -> int:
        """Features of each expert's outputs."""
        return int(self.values.shape[1])

    @property
    def in_features(self) -> int:
        """Terms of each sum."""
        return self.order.in_features
