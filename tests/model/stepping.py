"""Feeding a runner by hand."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from spectrie.model import Runner
from spectrie.model.plan import StepPlan

__all__ = ["in_pieces", "tokens"]


def tokens(count: int, vocabulary: int, seed: int = 0) -> list[int]:
    """Random token ids."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocabulary, (count,), generator=generator).tolist()


def in_pieces(
    runner: Runner, ids: Sequence[int], sizes: Sequence[int], pages: Sequence[int]
) -> torch.Tensor:
    """Logits of all tokens, pushed through in chunks of the given sizes."""
    parts = []
    done = 0
    for size in sizes:
        plan = StepPlan.single(ids[done : done + size], kv_len=done, pages=pages)
        parts.append(runner.forward(plan).clone())
        done += size
    assert done == len(ids)
    return torch.cat(parts)
