"""Whether the arguments of the kernels of mixtures fit one another."""

from __future__ import annotations

import torch

from spectrie_kernels.checks import check_tensor
from spectrie_kernels.experts.weight import ExpertWeight
from spectrie_kernels.experts.work import ExpertWork
from spectrie_kernels.partial_sums import PartialSums

__all__ = ["check_choice", "check_expert_linear", "check_expert_sum", "check_groups"]

_MOST_EXPERTS = 1024


def check_choice(
    scores: torch.Tensor | PartialSums,
    tokens: torch.Tensor,
    ids: torch.Tensor,
    shares: torch.Tensor,
) -> None:
    """Raises ValueError naming the first argument of `choose_experts` that does not fit."""
    device = ids.device
    check_tensor("ids", ids, torch.int32, [None, None], device)
    rows, chosen = ids.shape
    check_tensor("shares", shares, torch.float32, [rows, chosen], device)
    check_tensor("tokens", tokens, torch.int32, [rows], device)
    if isinstance(scores, PartialSums):
        check_tensor("scores", scores.values, torch.float32, [None, rows, None], device)
        experts = scores.values.shape[2]
    else:
        check_tensor("scores", scores, torch.float32, [rows, None], device)
        experts = scores.shape[1]
    if not 1 <= chosen <= experts <= _MOST_EXPERTS:
        raise ValueError(
            f"ids have {chosen} columns and scores {experts}, expected 1 or more of at most "
            f"{_MOST_EXPERTS} experts"
        )


def check_groups(ids: torch.Tensor, work: ExpertWork) -> None:
    """Raises ValueError naming the first argument of `group_choices` that does not fit."""
    check_tensor("ids", ids, torch.int32, [work.rows, work.num_chosen], work.choices.device)


def check_expert_linear(
    x: torch.Tensor, weight: ExpertWeight, work: ExpertWork, out: torch.Tensor
) -> None:
    """Raises ValueError naming the first argument of `expert_linear` that does not fit."""
    values, total = weight.values, work.choices.shape[0]
    check_tensor("x", x, values.dtype, [None, weight.in_features], values.device)
    if x.shape[0] not in (total, work.rows):
        raise ValueError(
            f"x has {x.shape[0]} rows, expected {work.rows}, or {total} for each choice of a row"
        )
    if weight.num_experts != work.num_experts:
        raise ValueError(
            f"the weight has {weight.num_experts} experts, the work {work.num_experts}"
        )
    if out.dtype not in (x.dtype, torch.float32):
        raise ValueError(f"out is {out.dtype}, expected {x.dtype} or torch.float32")
    check_tensor("out", out, out.dtype, [total, weight.out_features], values.device)


def check_expert_sum(
    results: torch.Tensor, ids: torch.Tensor, shares: torch.Tensor, out: torch.Tensor
) -> None:
    """Raises ValueError naming the first argument of `add_experts` that does not fit."""
    check_tensor("out", out, out.dtype, [None, None], out.device)
    rows, features = out.shape
    check_tensor("ids", ids, torch.int32, [rows, None], out.device)
    chosen = ids.shape[1]
    check_tensor("shares", shares, torch.float32, [rows, chosen], out.device)
    check_tensor("results", results, results.dtype, [rows * chosen, features], out.device)
