"""Rows of the target's head that name tokens in training: those of a cut, all, or some that stand for all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from spectrie.training.batches import Level

__all__ = ["Weighed"]

_DRAWN = 2048
"""Tokens that a step draws of those that it does not weigh by itself."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Some rows.

    Attributes:
        head: [N, hidden].
        places: int64 [vocabulary], the row of each token; -1 for those that have none.
        added: float32 [N], the logarithm of how many tokens a row stands for; None: each for its own.
    """

    head: torch.Tensor
    places: torch.Tensor
    added: torch.Tensor | None = None

    @classmethod
    def of(cls, head: torch.Tensor, tokens: torch.Tensor) -> Weighed:
        """The rows of these tokens.

        Args:
            head: The target's, [vocabulary, hidden].
            tokens: int64 [N].
        """
        places = torch.full((len(head),), -1, dtype=torch.int64)
        places[tokens] = torch.arange(len(tokens))
        return cls(head[tokens], places)

    @classmethod
    def drawn(cls, head: torch.Tensor, tokens: torch.Tensor, seed: int) -> Weighed:
        """The rows of these tokens, and of some others that stand for all others: their weights in a sum are
        those of all on average.

        Args:
            head: The target's, [vocabulary, hidden].
            tokens: int64, those that are weighed in any case; may repeat.
            seed: Equal ones draw equally.
        """
        is_own = torch.zeros(len(head), dtype=torch.bool)
        is_own[tokens] = True
        own, others = (mask.nonzero().flatten() for mask in (is_own, ~is_own))
        generator = torch.Generator().manual_seed(seed)
        drawn = others[torch.randperm(len(others), generator=generator)[:_DRAWN]]
        found = cls.of(head, torch.cat([own, drawn]))
        added = torch.zeros(len(own) + len(drawn))
        added[len(own) :] = math.log(max(len(others), 1) / max(len(drawn), 1))
        return cls(found.head, found.places, added)

    def guess(self, states: torch.Tensor) -> torch.Tensor:
        """Logits of the rows by the target's LM head, float32 [N, rows]."""
        return functional.linear(states, self.head).float()

    def loss(self, level: Level, logits: torch.Tensor) -> torch.Tensor:
        """Cross-entropy with the target's likeliest tokens, summed over the level's rows.

        Tokens without a row do not count, so a place counts as much as the head could know.
        """
        places = self.places[level.top_ids]
        known = places >= 0
        shares = level.top_probabilities * known
        named = logits.gather(1, places.clamp(min=0))
        weights = logits if self.added is None else logits + self.added
        return (shares.sum(1) * weights.logsumexp(1)).sum() - (shares * named).sum()
