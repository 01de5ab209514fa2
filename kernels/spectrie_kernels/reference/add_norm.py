"""Residual and root mean square norm in plain torch."""

from __future__ import annotations

import torch

from spectrie_kernels.partial_sums import PartialSums
from spectrie_kernels.reference.linear import finished

__all__ = ["add_norm"]


def add_norm(
    residual: torch.Tensor,
    delta: torch.Tensor | PartialSums | None,
    weight: torch.Tensor,
    epsilon: float,
    out: torch.Tensor,
) -> torch.Tensor:
    """See `spectrie_kernels.add_norm`."""
    if delta is not None:
        residual += finished(delta, torch.float32)
    mean = residual.pow(2).mean(dim=-1, keepdim=True)
    out.copy_(residual * (1 / torch.sqrt(mean + epsilon)) * weight.float())
    return out
