"""A matrix product of the decoder in torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

__all__ = ["Linear"]


@dataclass(frozen=True, slots=True)
class Linear:
    """A product `x @ weight.T + bias`: [rows, in] to [rows, out]."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight, self.bias)
