"""Residual and root mean square norm in plain torch."""

from __future__ import annotations

import torch

from spectrie_kernels.partial_sums import PartialSums
from spectrie_kernels.reference.linear import add_in_order
from spectrie_kernels.sum_order import sum_nest

__all__ = ["add_norm"]


def add_norm(
    residual: torch.Tensor,
    delta: PartialSums | None,
    weight: torch.Tensor,
    epsilon: float,
    out: torch.Tensor,
) -> torch.Tensor:
    """See `spectrie_kernels.add_norm`."""
    if delta is not None:
        nest = sum_nest(delta.values.shape[0], pairwise=True)
        total = add_in_order(delta.values.unbind(0), nest)
        residual += total if delta.bias is None else total + delta.bias.float()
    mean = residual.pow(2).mean(dim=-1, keepdim=True)
    out.copy_(residual * (1 / torch.sqrt(mean + epsilon)) * weight.float())
    return out
