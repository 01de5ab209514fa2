"""Products in segments, in plain torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from spectrie_kernels.linear_weight import LinearWeight
from spectrie_kernels.partial_sums import PartialSums
from spectrie_kernels.sum_order import sum_nest

__all__ = ["add_in_order", "add_rank_sums", "finished", "linear", "linear_sums"]


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
    total = add_in_order(_segments(x, weight), weight.order.nest)
    return _finished(total, weight.bias, out)


def linear_sums(x: torch.Tensor, weight: LinearWeight, out: torch.Tensor) -> None:
    """See `spectrie_kernels.linear_sums`."""
    segments = _segments(x, weight)
    if out.shape[0] == 1:
        segments = [add_in_order(segments, weight.order.nest)]
    torch.stack(segments, out=out)


def _segments(x: torch.Tensor, weight: LinearWeight) -> list[torch.Tensor]:
    """The float32 sums of each segment, [rows, out_features]."""
    order = weight.order
    starts = range(0, order.in_features, order.segment)
    cuts = [slice(start, start + order.segment) for start in starts]
    return [x[:, cut].float() @ weight.values[:, cut].float().T for cut in cuts]


def add_rank_sums(sums: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> torch.Tensor:
    """See `spectrie_kernels.add_rank_sums`."""
    nest = sum_nest(sums.shape[0], pairwise=True)
    return _finished(add_in_order(sums.unbind(0), nest), bias, out)


def finished(product: torch.Tensor | PartialSums, dtype: torch.dtype) -> torch.Tensor:
    """Returns a product, its last additions done, rounded to `dtype`."""
    if isinstance(product, torch.Tensor):
        return product
    total = add_in_order(product.values.unbind(0), product.nest)
    return _finished(total, product.bias, torch.empty_like(total, dtype=dtype))


def _finished(total: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> torch.Tensor:
    if bias is not None:
        total += bias.float()
    out.copy_(total)
    return out
