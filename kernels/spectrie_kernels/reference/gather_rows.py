"""Rows taken by their numbers, in plain torch."""

from __future__ import annotations

import torch

__all__ = ["gather_rows", "lift_rows"]


def gather_rows(x: torch.Tensor, rows: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """See `spectrie_kernels.embed` and `spectrie_kernels.gather_rows`."""
    taken = x[rows.clamp(min=0).long()].to(out.dtype)
    return out.copy_(taken.masked_fill_(rows[:, None] < 0, 0))


def lift_rows(x: torch.Tensor, rows: torch.Tensor) -> None:
    """See `spectrie_kernels.lift_rows`."""
    x[: rows.shape[0]] = x[rows.long()]
