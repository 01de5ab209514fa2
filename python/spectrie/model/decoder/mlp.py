"""The second half of a layer in torch: a gated MLP, or a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, TypeVar

import torch

from spectrie.model.decoder.linear import Product
from spectrie.model.operators import Delta, Operators

__all__ = ["Dense", "Mixture", "Whole"]

Whole = Callable[[torch.Tensor, str], torch.Tensor]
"""Returns all columns of a product of which a rank may hold some, named as in `Partition`."""

Down = TypeVar("Down", bound=Delta, covariant=True)
"""Result of the last product of a gated MLP."""


@dataclass(frozen=True, slots=True)
class Dense(Generic[Down]):
    """A gated MLP."""

    gate_up: Product
    down: Callable[[torch.Tensor], Down]

    def __call__(self, x: torch.Tensor, operators: Operators, whole: Whole) -> Down:
        """[rows, hidden] to this rank's columns of the same."""
        return self.down(whole(operators.gate(self.gate_up(x)), "inner"))


@dataclass(frozen=True, slots=True)
class Mixture:
    """Experts, of which each row uses the few with the highest scores.

    An expert computes all its rows together; experts without rows are not read. A GPU synchronises
    once, for the number of rows of each. The router is float32, so that rounding selects no expert.
    """

    router: Product
    experts: tuple[Dense[torch.Tensor], ...]
    num_chosen: int
    normalised: bool

    def __call__(self, x: torch.Tensor, operators: Operators, whole: Whole) -> torch.Tensor:
        """[rows, hidden] to this rank's columns of the same."""
        shares, ids = self.router(x.float()).softmax(dim=-1).topk(self.num_chosen, dim=-1)
        if self.normalised:
            shares = shares / shares.sum(dim=-1, keepdim=True)
        choices = ids.flatten()
        by_expert = choices.argsort(stable=True)
        counts = choices.bincount(minlength=len(self.experts)).tolist()
        ends = list(accumulate(counts))
        busy = [
            (expert, slice(end - count, end))
            for expert, count, end in zip(self.experts, counts, ends, strict=True)
            if count
        ]
        gathered = x[by_expert // self.num_chosen]
        gated = [operators.gate(expert.gate_up(gathered[rows])) for expert, rows in busy]
        activated = whole(torch.cat(gated), "expert")
        results = torch.cat([expert.down(activated[rows]) for expert, rows in busy])
        by_row = torch.empty_like(results)
        by_row[by_expert] = results
        weighted = by_row.view(*ids.shape, -1).float() * shares.unsqueeze(-1)
        return weighted.sum(dim=1).to(x.dtype)
