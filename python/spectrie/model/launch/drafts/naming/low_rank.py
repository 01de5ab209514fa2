"""A head of low rank: it finds candidates among all tokens, which the model's own head weighs exactly."""

from __future__ import annotations

import numpy as np
import torch

import spectrie_kernels
from spectrie.model.drafters.description import LowRankHead
from spectrie.model.drafters.plan import Answers
from spectrie.model.launch.drafts.naming.candidates import Weighed, row_numbers
from spectrie.model.launch.drafts.naming.scored import Asked, Found, Int32, Scored, rows_of
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.results import LevelResults, LevelSizes
from spectrie.model.launch.drafts.tensors import DraftTensors

__all__ = ["LowRankNaming"]

CANDIDATES = 64
"""Tokens that are weighed exactly, as on a CPU."""


class LowRankNaming:
    """Two thin products in place of the model's head; see `Naming`. What is not weighed exactly counts in the sum as
    the low rank has it."""

    weighs_single = True

    def __init__(self, head: LowRankHead, tensors: DraftTensors, target_rows: torch.Tensor) -> None:
        """Copies the head to the device.

        Args:
            head: As it was read.
            tensors: Copies.
            target_rows: Of the model's head, [vocabulary, hidden].
        """
        self.rows = target_rows
        self.names: torch.Tensor | None = None
        self._down = tensors.wide("down rank", head.down)
        self._up = tensors.wide("near", head.up)
        self._numbers = row_numbers(CANDIDATES, tensors.device)

    def sizes(self, rows: int, scored: int) -> LevelSizes:
        """See `Naming`."""
        return LevelSizes(rows, scored, found=CANDIDATES, has_exact=True)

    def scored(self, indptr: Int32, tokens: Int32) -> Scored:
        """See `Naming`: all of them are weighed by themselves."""
        return Scored(np.full(len(tokens), -1, np.int32), rows_of(indptr), tokens)

    def answer(
        self,
        x: torch.Tensor,
        asked: Asked,
        operators: DraftOperators,
        results: LevelResults,
    ) -> Found:
        """See `Naming`."""
        ranked = operators.narrowed("ranked", self._down(x, operators.scratch))
        near = self._up(ranked, operators.scratch)
        operators.top_k(near, results.ids, results.probabilities)
        torch.amax(near, dim=1, out=results.best)
        numbers = self._numbers[: results.exact.numel()]
        tokens, exact = results.ids.view(-1), results.exact.view(-1)
        spectrie_kernels.token_logits(x, numbers, self.rows, tokens, exact)
        return ()

    def score(
        self,
        x: torch.Tensor,
        found: Found,
        asked: Asked,
        operators: DraftOperators,
        out: torch.Tensor,
    ) -> None:
        """See `Naming`."""
        spectrie_kernels.token_logits(x, asked.row, self.rows, asked.token, out)

    def answers(
        self, results: torch.Tensor, sizes: LevelSizes, rows: int, scored: Scored, indptr: Int32
    ) -> Answers:
        """See `Naming`."""
        found = sizes.split(results)
        ids = found.ids[:rows].numpy()
        near = found.probabilities[:rows].numpy().astype(np.float64)
        weighed = Weighed(ids, found.exact[:rows].numpy())
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # The sum of all as they are near, without the candidates; rounding leaves less than nothing.
            every = np.exp(found.best[:rows].numpy() - np.log(near[:, 0]) - weighed.best)
            rest = every * np.maximum(0.0, 1.0 - near.sum(axis=1))
        weighed.total += np.where(weighed.is_answered, rest, 0.0)
        logits = found.scored[: len(scored.at)].numpy()
        return weighed.answers(weighed.scores(logits, rows_of(indptr)))
