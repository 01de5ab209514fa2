"""Heads whose logits are final: the model's own, or one for some of its tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

import spectrie_kernels
from spectrie.model.decoder.linear import Product
from spectrie.model.drafters.description import CutHead
from spectrie.model.drafters.plan import Answers
from spectrie.model.launch.drafts.naming.scored import Asked, Found, Int32, Scored, rows_of
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.results import LevelResults, LevelSizes
from spectrie.model.launch.drafts.tensors import DraftTensors

__all__ = ["LogitShape", "PlainNaming"]


@dataclass(frozen=True, slots=True)
class LogitShape:
    """What is made of logits.

    Attributes:
        multiplier: What they are multiplied by.
        cap: What they come no further than, by a hyperbolic tangent; None for no bound.
    """

    multiplier: float
    cap: float | None

    def apply(self, logits: torch.Tensor) -> None:
        """Changes float32 logits of any shape in place."""
        logits.mul_(self.multiplier)
        if self.cap is not None:
            logits.div_(self.cap).tanh_().mul_(self.cap)


class PlainNaming:
    """A head of all of the model's tokens, or of some; see `Naming`."""

    def __init__(
        self,
        cut: CutHead | None,
        tensors: DraftTensors,
        target: tuple[Product, torch.Tensor],
        shape: LogitShape | None = None,
    ) -> None:
        """Copies the head to the device.

        Args:
            cut: The tokens that it names; None for all.
            tensors: Copies.
            target: The model's head, and its rows.
            shape: What is made of the logits; None for nothing.
        """
        self._shape = shape
        self._product, self.rows = target
        self.names: torch.Tensor | None = None
        self._tokens: Int32 | None = None
        self._weighs_single = False
        self.num_named = int(self.rows.shape[0])
        self._target_rows = self.rows
        if cut is None:
            return
        self._tokens = np.array(cut.tokens, dtype=np.int32)
        self.names = tensors.indices(self._tokens)
        self._names = np.full(self.num_named, -1, dtype=np.int32)
        self._names[self._tokens] = np.arange(len(self._tokens), dtype=np.int32)
        self._weighs_single = cut.is_targets
        self.num_named = len(self._tokens)
        self.rows, _ = tensors.matrix(cut.head)
        self._product = tensors.head("head", self.rows)

    @property
    def weighs_single(self) -> bool:
        """See `Naming`: tokens that a cut of the model's head does not name."""
        return self._weighs_single

    def sizes(self, rows: int, scored: int) -> LevelSizes:
        """See `Naming`."""
        return LevelSizes(rows, scored)

    def scored(self, indptr: Int32, tokens: Int32) -> Scored:
        """See `Naming`."""
        rows = rows_of(indptr)
        names = tokens if self._tokens is None else self._names[tokens]
        at = np.where(names >= 0, rows * np.int32(self.num_named) + names, -1).astype(np.int32)
        if not self._weighs_single:
            return Scored(at, at[:0], at[:0])
        other = names < 0
        return Scored(
            at,
            np.where(other, rows, -1).astype(np.int32),
            np.where(other, tokens, -1).astype(np.int32),
        )

    def answer(
        self,
        x: torch.Tensor,
        asked: Asked,
        operators: DraftOperators,
        results: LevelResults,
    ) -> Found:
        """See `Naming`."""
        logits = self._product(x, operators.scratch)
        if self._shape is not None:
            self._shape.apply(logits)
        operators.top_k(logits, results.ids, results.probabilities)
        torch.amax(logits, dim=1, out=results.best)
        return (logits,)

    def score(
        self,
        x: torch.Tensor,
        found: Found,
        asked: Asked,
        operators: DraftOperators,
        out: torch.Tensor,
    ) -> None:
        """See `Naming`."""
        (logits,) = found
        spectrie_kernels.gather_rows(logits.view(-1, 1), asked.at, out.view(-1, 1))
        if self._weighs_single:
            others = operators.scratch.empty("others", asked.row.shape, torch.float32)
            spectrie_kernels.token_logits(x, asked.row, self._target_rows, asked.token, others)
            out.add_(others)

    def answers(
        self, results: torch.Tensor, sizes: LevelSizes, rows: int, scored: Scored, indptr: Int32
    ) -> Answers:
        """See `Naming`."""
        found = sizes.split(results)
        ids = found.ids[:rows].numpy().copy()
        probabilities = found.probabilities[:rows].numpy().copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            total = found.best[:rows].numpy() - np.log(probabilities[:, 0])
        logits = found.scored[: len(scored.at)].numpy()
        owner = rows_of(indptr)
        can_name = scored.at >= 0
        if self._weighs_single:
            can_name = can_name | (scored.row >= 0)
        named = can_name & (ids[owner, 0] >= 0)
        scores = np.full(len(logits), -np.inf, dtype=np.float32)
        scores[named] = (logits - total[owner])[named]
        if self._tokens is not None:
            ids = np.where(ids >= 0, self._tokens[ids], -1).astype(np.int32)
        return Answers(ids, probabilities, scores)
