"""Products in segments, in plain torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from spectrie_kernels.linear_weight import LinearWeight
from spectrie_kernels.sum_order import sum_nest

__all__ = ["add_in_order", "add_rank_sums", "linear"]


def add_in_order(parts: Sequence[torch.Tensor], nest: tuple[int, int, int]) -> torch.Tensor:
    """Returns the sum of float32 tensors of one shape, in the order of a nest of three sums."""
    outer, middle, inner = nest
    total = torch.zeros_like(parts[0])
    left = iter(parts)
    for _ in range(outer):
        half = torch.zeros_like(total)
        for _ in range(middle):
            pair = torch.zeros_like(total)
            for _ in range(inner):
                pair += next(left)
            half += pair
        total += half
    return total


def linear(x: torch.Tensor, weight: LinearWeight, out: torch.Tensor) -> torch.Tensor:
    """See `spectrie_kernels.linear`. Segment sums are added in the weight's order; torch orders the
    terms inside a segment, so that here the number of rows may change bits."""
    order = weight.order
    ends = [*range(order.segment, order.in_features, order.segment), order.in_features]
    starts = [0, *ends[:-1]]
    segments = [
        x[:, start:end].float() @ weight.values[:, start:end].float().T
        for start, end in zip(starts, ends, strict=True)
    ]
    return _finished(add_in_order(segments, order.nest), weight.bias, out)


def add_rank_sums(sums: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> torch.Tensor:
    """See `spectrie_kernels.add_rank_sums`."""
    nest = sum_nest(sums.shape[0], pairwise=True)
    return _finished(add_in_order(sums.unbind(0), nest), bias, out)


def _finished(total: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> torch.Tensor:
    if bias is not None:
        total += bias.float()
    out.copy_(total)
    return out
