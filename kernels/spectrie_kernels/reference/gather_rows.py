"""Rows taken by their numbers, in plain torch."""

from __future__ import annotations

import torch

__all__ = ["gather_rows", "lift_rows", "token_logits"]


def gather_rows(x: torch.Tensor, rows: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """See `spectrie_kernels.embed` and `spectrie_kernels.gather_rows`."""
    taken = x[rows.clamp(min=0).long()].to(out.dtype)
    return out.copy_(taken.masked_fill_(rows[:, None] < 0, 0))


def lift_rows(x: torch.Tensor, rows: torch.Tensor) -> None:
    """See `spectrie_kernels.lift_rows`."""
    x[: rows.shape[0]] = x[rows.long()]


def token_logits(
    x: torch.Tensor,
    rows: torch.Tensor,
    weight: torch.Tensor,
    tokens: torch.Tensor,
    out: torch.Tensor,
) -> torch.Tensor:
    """See `spectrie_kernels.token_logits`."""
    counts = (rows >= 0) & (tokens >= 0)
    states = x[rows.clamp(min=0).long()].float()
    own = weight[tokens.clamp(min=0).long()].float()
    return out.copy_(((states * own).sum(dim=1)).where(counts, 0.0))
