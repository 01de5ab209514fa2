"""Moves inside the cache, in plain torch."""

from __future__ import annotations

import torch

__all__ = ["move_slots"]


def move_slots(
    keys: torch.Tensor, values: torch.Tensor, moves: torch.Tensor, count: torch.Tensor
) -> None:
    """See `spectrie_kernels.move_slots`."""
    for source, destination in moves[: int(count[0])].tolist():
        for cache in (keys, values):
            cache[:, destination] = cache[:, source]
