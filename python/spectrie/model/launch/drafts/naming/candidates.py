"""Answers from the likeliest tokens of each row, weighed again one by one."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie.model.drafters.plan import Answers
from spectrie.model.launch.drafts.memory import MAX_TOGETHER
from spectrie.model.launch.drafts.naming.scored import Int32
from spectrie.model.operators import TOP_K

__all__ = ["Weighed", "row_numbers"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]


def row_numbers(width: int, device: torch.device) -> torch.Tensor:
    """Returns the row of each candidate, `width` of each row: int32, for as many rows as any level has."""
    rows = torch.arange(MAX_TOGETHER, dtype=torch.int32)
    return rows.repeat_interleave(width).to(device)


class Weighed:
    """Candidates with the logits that count, on the host.

    Args:
        ids: int32 [rows, candidates], -1 for none.
        logits: float32 [rows, candidates].
    """

    def __init__(self, ids: Int32, logits: Float32) -> None:
        there = ids >= 0
        self._ids = ids
        self._logits: Float64 = np.where(there, logits, -np.inf).astype(np.float64)
        best = self._logits.max(axis=1)
        self.is_answered = np.isfinite(best)
        """bool [rows], whether a row has an answer: its greatest logit is a number."""
        self.best: Float64 = np.where(self.is_answered, best, 0.0)
        """float64 [rows], the greatest logit."""
        self._weights: Float64 = np.where(
            self.is_answered[:, None], np.exp(self._logits - self.best[:, None]), 0.0
        )
        self.total: Float64 = self._weights.sum(axis=1)
        """float64 [rows], the sum of weights; what else counts is added by the caller."""

    def scores(
        self, logits: Float32, owner: Int32, apart: NDArray[np.bool_] | None = None
    ) -> Float64:
        """Returns log-probabilities of further logits, float64 [any].

        Args:
            logits: float32 [any].
            owner: int32 [any], the row that each belongs to.
            apart: bool [any], which count in the sum besides what does already; None for none of them.
        """
        above = logits.astype(np.float64) - self.best[owner]
        total = self.total[owner]
        with np.errstate(divide="ignore", over="ignore"):
            if apart is not None:
                total = total + np.where(apart, np.exp(above), 0.0)
            scores = above - np.log(total)
        return np.where(self.is_answered[owner], scores, -np.inf)

    def answers(self, scores: Float64) -> Answers:
        """Returns the likeliest candidates, the lower id first of equal ones, and the scores."""
        order = np.lexsort((self._ids, -self._logits), axis=1)[:, :TOP_K]
        ids = np.take_along_axis(self._ids, order, axis=1)
        weights = np.take_along_axis(self._weights, order, axis=1)
        there = (ids >= 0) & self.is_answered[:, None]
        total = np.where(self.is_answered, self.total, 1.0)[:, None]
        return Answers(
            np.where(there, ids, -1).astype(np.int32),
            np.where(there, weights / total, 0.0).astype(np.float32),
            scores.astype(np.float32),
        )
