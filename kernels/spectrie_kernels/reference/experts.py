"""Mixtures of experts, in plain torch."""

from __future__ import annotations

import torch

from spectrie_kernels.experts.weight import ExpertWeight
from spectrie_kernels.experts.work import ExpertWork
from spectrie_kernels.linear_weight import LinearWeight
from spectrie_kernels.partial_sums import PartialSums
from spectrie_kernels.reference.linear import finished, linear

__all__ = ["add_experts", "choose_experts", "expert_linear", "group_choices"]


def choose_experts(
    scores: torch.Tensor | PartialSums,
    tokens: torch.Tensor,
    ids: torch.Tensor,
    shares: torch.Tensor,
    normalised: bool,
) -> None:
    """See `spectrie_kernels.choose_experts`."""
    values = finished(scores, torch.float32)
    seen = values.where(~values.isnan(), float("-inf"))
    # Stable, so that of equal scores the lowest expert comes first.
    chosen = seen.sort(dim=-1, descending=True, stable=True).indices[:, : ids.shape[1]]
    weights = (values - seen.amax(dim=-1, keepdim=True)).exp()
    taken = weights.gather(1, chosen)
    total = _ascending(taken) if normalised else _neighbours_first(weights)
    real = (tokens >= 0)[:, None]
    ids.copy_(chosen.where(real, -1))
    shares.copy_((taken / total[:, None]).where(real, 0.0))


def _ascending(values: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(values[:, 0])
    for one in values.unbind(1):
        total = total + one
    return total


def _neighbours_first(values: torch.Tensor) -> torch.Tensor:
    """Sums of two, with zeros behind up to a power of two."""
    width = 1 << (values.shape[1] - 1).bit_length()
    values = torch.nn.functional.pad(values, (0, width - values.shape[1]))
    while values.shape[1] > 1:
        values = values[:, 0::2] + values[:, 1::2]
    return values[:, 0]


def group_choices(ids: torch.Tensor, work: ExpertWork) -> None:
    """See `spectrie_kernels.group_choices`."""
    flat = ids.flatten().long()
    order = flat.where(flat >= 0, work.num_experts).argsort(stable=True)
    work.choices.copy_(order)
    counts = torch.bincount(flat[flat >= 0], minlength=work.num_experts).tolist()
    items, begin = [], 0
    for expert, count in enumerate(counts):
        for first in range(0, count, work.height):
            items.append([expert, begin + first, min(count - first, work.height), 0])
        begin += count
    work.count.fill_(len(items))
    if items:
        found = torch.tensor(items, dtype=torch.int32)
        work.tiles[: len(items)].copy_(found)


def expert_linear(
    x: torch.Tensor, weight: ExpertWeight, work: ExpertWork, out: torch.Tensor
) -> torch.Tensor:
    """See `spectrie_kernels.expert_linear`; as in `linear`, torch orders the terms inside a segment."""
    count = int(work.count)
    per_row = work.choices.shape[0] // max(1, x.shape[0])
    for expert, first, number, _ in work.tiles[:count].tolist():
        choices = work.choices[first : first + number].long()
        of_expert = LinearWeight(weight.values[expert], weight.order)
        result = out.new_empty(number, weight.out_features)
        out[choices] = linear(x[choices // per_row], of_expert, result)
    return out


def add_experts(
    results: torch.Tensor, ids: torch.Tensor, shares: torch.Tensor, out: torch.Tensor
) -> torch.Tensor:
    """See `spectrie_kernels.add_experts`."""
    rows, chosen = ids.shape
    by_rank = results.float().view(rows, chosen, -1).where((ids >= 0)[:, :, None], 0.0)
    total = torch.zeros_like(by_rank[:, 0])
    for rank in range(chosen):
        total = total + shares[:, rank, None] * by_rank[:, rank]
    return out.copy_(total)
