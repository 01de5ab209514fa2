"""Moves inside the cache, in plain torch."""

from __future__ import annotations

import torch

__all__ = ["compact_slots", "move_rows", "move_slots"]


def move_slots(
    keys: torch.Tensor, values: torch.Tensor, moves: torch.Tensor, count: torch.Tensor
) -> None:
    """See `spectrie_kernels.move_slots`."""
    for source, destination in moves[: int(count[0])].tolist():
        for cache in (keys, values):
            cache[:, destination] = cache[:, source]


def move_rows(x: torch.Tensor, moves: torch.Tensor, count: torch.Tensor) -> None:
    """See `spectrie_kernels.move_rows`."""
    for source, destination in moves[: int(count[0])].tolist():
        x[destination] = x[source]


def compact_slots(
    keys: torch.Tensor,
    values: torch.Tensor,
    drawn: torch.Tensor,
    rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    walks: torch.Tensor,
    count: torch.Tensor,
) -> None:
    """See `spectrie_kernels.compact_slots`."""
    for first, num_rows, sample, _ in walks[: int(count[0])].tolist():
        choices = drawn[sample : sample + num_rows].tolist()
        tokens, parents, slots = (one[first : first + num_rows].tolist() for one in rows)
        node, depth = 0, 0
        while True:
            below = range(node + 1, num_rows)
            children = (c for c in below if parents[c] == node and tokens[c] == choices[node])
            child = next(children, None)
            if child is None:
                break
            node, depth = child, depth + 1
            for cache in (keys, values):
                cache[:, slots[depth]] = cache[:, slots[node]]
