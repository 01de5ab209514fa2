"""From a drafter's states to answers: the heads that name tokens."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

import spectrie_kernels
from spectrie.errors import ModelError
from spectrie.model.decoder.linear import Product
from spectrie.model.drafters.description import CutHead, Drafter
from spectrie.model.drafters.plan import Answers
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.results import LevelResults, LevelSizes
from spectrie.model.launch.drafts.tensors import DraftTensors

__all__ = ["Naming", "Scored"]

Int32 = NDArray[np.int32]


class Scored:
    """Which tokens of a level are scored, as the device reads it.

    Attributes:
        at: int32, the logit of each, row after row, -1 for a token that the head does not name.
        row: int32, its row where the model's head weighs it, else -1; none where that weighs no token.
        token: int32, it itself there, else -1; likewise.
    """

    def __init__(self, at: Int32, row: Int32, token: Int32) -> None:
        self.at, self.row, self.token = at, row, token


class Naming:
    """A head of all of the model's tokens, or of some."""

    def __init__(
        self,
        drafter: Drafter,
        tensors: DraftTensors,
        target: tuple[Product, torch.Tensor],
    ) -> None:
        """Copies the head to the device.

        Args:
            drafter: As it was read.
            tensors: Copies.
            target: The model's head, and its rows.

        Raises:
            ModelError: Heads of this form do not run on a GPU.
        """
        vocabulary = drafter.vocabulary
        self._product, self.rows = target
        self._tokens: Int32 | None = None
        self._weighs_others = False
        self.num_named = int(self.rows.shape[0])
        self._target_rows = self.rows
        if vocabulary is None:
            return
        if not isinstance(vocabulary, CutHead):
            raise ModelError(
                "a drafter's head of low rank, or one with a selector, runs on a CPU alone, so far"
            )
        self._tokens = np.array(vocabulary.tokens, dtype=np.int32)
        self._names = np.full(self.num_named, -1, dtype=np.int32)
        self._names[self._tokens] = np.arange(len(self._tokens), dtype=np.int32)
        self._weighs_others = vocabulary.is_targets
        self.num_named = len(self._tokens)
        self.rows, _ = tensors.matrix(vocabulary.head)
        self._product = tensors.head("head", self.rows)

    @property
    def weighs_others(self) -> bool:
        """Whether the model's head weighs tokens that this one does not name."""
        return self._weighs_others

    def scored(self, indptr: Int32, tokens: Int32) -> Scored:
        """Returns where the logits of the tokens are that each row is to score.

        Args:
            indptr: int32 [rows + 1].
            tokens: int32, those of the first row first.
        """
        rows = np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))
        names = tokens if self._tokens is None else self._names[tokens]
        at = np.where(names >= 0, rows * np.int32(self.num_named) + names, -1).astype(np.int32)
        if not self._weighs_others:
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
        at: torch.Tensor,
        others: tuple[torch.Tensor, torch.Tensor] | None,
        operators: DraftOperators,
        results: LevelResults,
    ) -> None:
        """Launches what answers rows.

        Args:
            x: [rows, hidden], what the head takes.
            at: int32 [any], as in `Scored`.
            others: Its rows and tokens, where the model's head weighs some.
            operators: Of the layers.
            results: Written.
        """
        logits = self._product(x, operators.scratch)
        operators.top_k(logits, results.ids, results.probabilities)
        torch.amax(logits, dim=1, out=results.best)
        if not at.shape[0]:
            return
        spectrie_kernels.gather_rows(logits.view(-1, 1), at, results.scored.view(-1, 1))
        if others is not None:
            results.scored.add_(self._weighed(x, *others, operators))

    def _weighed(
        self,
        x: torch.Tensor,
        rows: torch.Tensor,
        tokens: torch.Tensor,
        operators: DraftOperators,
    ) -> torch.Tensor:
        """Logits of tokens by the model's head, 0 where the row is negative: float32 [any]. Products are added
        in halves, so that no sum's order depends on how many there are."""
        count, width = rows.shape[0], x.shape[1]
        room = 1 << max(0, width - 1).bit_length()
        scratch = operators.scratch
        shape = (count, width)
        products = scratch.empty("products", (count, room), torch.float32)
        if room > width:
            products[:, width:].zero_()
        states = spectrie_kernels.gather_rows(
            x, rows, scratch.empty("scored states", shape, x.dtype)
        )
        products[:, :width].copy_(states)
        found = scratch.empty("scored rows", shape, self._target_rows.dtype)
        spectrie_kernels.gather_rows(self._target_rows, tokens, found)
        wide = scratch.empty("wide rows", shape, torch.float32).copy_(found)
        products[:, :width].mul_(wide)
        while room > 1:
            room //= 2
            products[:, :room].add_(products[:, room : 2 * room])
        return products[:, 0]

    def answers(
        self, results: torch.Tensor, sizes: LevelSizes, rows: int, scored: Scored, indptr: Int32
    ) -> Answers:
        """Returns the answers of the first `rows` rows, given what was computed, in memory of the host."""
        found = sizes.split(results)
        ids = found.ids[:rows].numpy().copy()
        probabilities = found.probabilities[:rows].numpy().copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            total = found.best[:rows].numpy() - np.log(probabilities[:, 0])
        logits = found.scored[: len(scored.at)].numpy()
        owner = np.repeat(np.arange(rows), np.diff(indptr))
        can_name = scored.at >= 0
        if self._weighs_others:
            can_name = can_name | (scored.row >= 0)
        named = can_name & (ids[owner, 0] >= 0)
        scores = np.full(len(logits), -np.inf, dtype=np.float32)
        scores[named] = (logits - total[owner])[named]
        if self._tokens is not None:
            ids = np.where(ids >= 0, self._tokens[ids], -1).astype(np.int32)
        return Answers(ids, probabilities, scores)
