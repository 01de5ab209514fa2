"""The matrix products of the decoder: torch's, and those of one order of addition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

import spectrie_kernels
from spectrie_kernels import LinearWeight, PartialSums

__all__ = ["ExactLinear", "ExactSums", "Linear", "Product"]

Product = Callable[[torch.Tensor], torch.Tensor]
"""[rows, in] to [rows, out]."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A product `x @ weight.T + bias`: [rows, in] to [rows, out]; rows may change one another's bits."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class ExactLinear:
    """The product of `Linear`, in which a row's bits depend on that row alone.

    Attributes:
        weight: The matrix with its order and bias.
        dtype: Of the result: that of the weight, or float32.
    """

    weight: LinearWeight
    dtype: torch.dtype

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        out = x.new_empty((x.shape[0], self.weight.out_features), dtype=self.dtype)
        return spectrie_kernels.linear(x.contiguous(), self.weight, out)


@dataclass(frozen=True, slots=True)
class ExactSums:
    """`ExactLinear` for the residual stream: `add_norm` finishes its sums, in float32."""

    weight: LinearWeight

    def __call__(self, x: torch.Tensor) -> PartialSums:
        return spectrie_kernels.linear_sums(x.contiguous(), self.weight)
