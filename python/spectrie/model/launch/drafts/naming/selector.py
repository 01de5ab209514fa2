"""A selector behind the model's head: it chooses among the likeliest tokens by the token before them (DFLASH 2)."""

from __future__ import annotations

import numpy as np
import torch

import spectrie_kernels
from spectrie.errors import ModelError
from spectrie.model.decoder.linear import Product
from spectrie.model.drafters.description import Selector
from spectrie.model.drafters.plan import Answers
from spectrie.model.launch.drafts.naming.candidates import Weighed, row_numbers
from spectrie.model.launch.drafts.naming.plain import LogitShape
from spectrie.model.launch.drafts.naming.scored import Asked, Found, Int32, Scored, rows_of
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.results import LevelResults, LevelSizes
from spectrie.model.launch.drafts.tensors import DraftTensors
from spectrie.model.operators import TOP_K

__all__ = ["SelectorNaming"]

_MAX_CANDIDATES = 64


class SelectorNaming:
    """Adds to a candidate's logit the sum, over a rank, of numbers of the token before, of the state, and of the
    candidate; see `Naming`. Others count for nothing."""

    weighs_single = True

    def __init__(
        self,
        selector: Selector,
        shape: LogitShape,
        tensors: DraftTensors,
        target: tuple[Product, torch.Tensor],
    ) -> None:
        """Copies it to the device.

        Args:
            selector: As it was read.
            shape: What is made of the model's logits.
            tensors: Copies.
            target: The model's head, and its rows.

        Raises:
            ModelError: It has more candidates than are found here.
        """
        self._candidates = selector.candidates
        if self._candidates > _MAX_CANDIDATES:
            raise ModelError(
                f"a selector of {self._candidates} candidates runs on a CPU alone, so far: on a GPU it has up "
                f"to {_MAX_CANDIDATES}"
            )
        self._product, self.rows = target
        self.names: torch.Tensor | None = None
        self._shape = shape
        self._projection = tensors.wide("projected", selector.projection)
        vocabulary = self.rows.shape[0]
        self._predecessor = tensors.numbers(selector.predecessor).view(vocabulary, -1)
        self._successor = tensors.numbers(selector.successor).view(vocabulary, -1)
        self._width = max(TOP_K, 1 << (self._candidates - 1).bit_length())
        self._numbers = row_numbers(self._width, tensors.device)
        self._begins = self._numbers * vocabulary

    def sizes(self, rows: int, scored: int) -> LevelSizes:
        """See `Naming`."""
        return LevelSizes(rows, scored, found=self._width, has_exact=True)

    def scored(self, indptr: Int32, tokens: Int32) -> Scored:
        """See `Naming`: the model's logit of each, and what it is worth behind the token before."""
        rows = rows_of(indptr)
        at = (rows * np.int32(self.rows.shape[0]) + tokens).astype(np.int32)
        return Scored(at, rows, tokens)

    def answer(
        self,
        x: torch.Tensor,
        asked: Asked,
        operators: DraftOperators,
        results: LevelResults,
    ) -> Found:
        """See `Naming`."""
        logits = self._product(x, operators.scratch)
        self._shape.apply(logits)
        operators.top_k(logits, results.ids, results.probabilities)
        torch.amax(logits, dim=1, out=results.best)
        projected = operators.narrowed("projected", self._projection(x, operators.scratch))
        before = operators.scratch.empty("before it", projected.shape, torch.float32)
        spectrie_kernels.embed(asked.tokens, self._predecessor, before)
        before.mul_(projected)
        tokens, exact = results.ids.view(-1), results.exact.view(-1)
        at = operators.scratch.empty("candidates", tokens.shape, torch.int32)
        torch.add(self._begins[: tokens.shape[0]], tokens, out=at)
        self._worth(
            logits, at, before, (self._numbers[: tokens.shape[0]], tokens), exact, operators
        )
        return logits, before

    def score(
        self,
        x: torch.Tensor,
        found: Found,
        asked: Asked,
        operators: DraftOperators,
        out: torch.Tensor,
    ) -> None:
        """See `Naming`."""
        logits, before = found
        self._worth(logits, asked.at, before, (asked.row, asked.token), out, operators)

    def _worth(
        self,
        logits: torch.Tensor,
        at: torch.Tensor,
        before: torch.Tensor,
        single: tuple[torch.Tensor, torch.Tensor],
        out: torch.Tensor,
        operators: DraftOperators,
    ) -> None:
        """Writes what tokens, of these rows, are worth: the logit that stands at a place, and what is added to it."""
        spectrie_kernels.gather_rows(logits.view(-1, 1), at, out.view(-1, 1))
        added = operators.scratch.empty("added", out.shape, torch.float32)
        rows, tokens = single
        out.add_(spectrie_kernels.token_logits(before, rows, self._successor, tokens, added))

    def answers(
        self, results: torch.Tensor, sizes: LevelSizes, rows: int, scored: Scored, indptr: Int32
    ) -> Answers:
        """See `Naming`. A token that is no candidate has the probability that it would have as one more of them."""
        found = sizes.split(results)
        ids = found.ids[:rows].numpy().copy()
        ids[:, self._candidates :] = -1
        weighed = Weighed(ids, found.exact[:rows].numpy())
        owner = rows_of(indptr)
        apart = ~(ids[owner] == scored.token[:, None]).any(axis=1)
        logits = found.scored[: len(scored.at)].numpy()
        return weighed.answers(weighed.scores(logits, owner, apart))
