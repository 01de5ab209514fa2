"""How a drafter names tokens on a device: by the model's head, by a cut of it, or by one of low rank."""

from __future__ import annotations

from typing import Protocol

import torch

from spectrie.model.decoder.linear import Product
from spectrie.model.drafters.description import Drafter, LowRankHead, ShapedHead
from spectrie.model.drafters.plan import Answers
from spectrie.model.launch.drafts.naming.low_rank import LowRankNaming
from spectrie.model.launch.drafts.naming.plain import LogitShape, PlainNaming
from spectrie.model.launch.drafts.naming.scored import Asked, Found, Int32, Scored
from spectrie.model.launch.drafts.naming.selector import SelectorNaming
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.results import LevelResults, LevelSizes
from spectrie.model.launch.drafts.tensors import DraftTensors

__all__ = ["Naming", "naming_of"]


class Naming(Protocol):
    """A head.

    Attributes:
        rows: The vectors of the tokens that it names, [tokens, hidden].
        names: int32 [tokens], these tokens, on the device; None where they are all of the model's.
    """

    rows: torch.Tensor
    names: torch.Tensor | None

    @property
    def weighs_single(self) -> bool:
        """Whether the model's head weighs single tokens that a level scores."""

    def sizes(self, rows: int, scored: int) -> LevelSizes:
        """Returns where results lie of so many rows and scored tokens."""

    def scored(self, indptr: Int32, tokens: Int32) -> Scored:
        """Returns where the logits of the tokens are that each row is to score.

        Args:
            indptr: int32 [rows + 1].
            tokens: int32, those of the first row first.
        """

    def answer(
        self,
        x: torch.Tensor,
        asked: Asked,
        operators: DraftOperators,
        results: LevelResults,
    ) -> Found:
        """Launches what answers rows; returns what `score` needs of it, which stays until others are answered.

        Args:
            x: [rows, hidden], what the head takes.
            asked: What the level asks.
            operators: Of the layers.
            results: Written, but for scored tokens.
        """

    def score(
        self,
        x: torch.Tensor,
        found: Found,
        asked: Asked,
        operators: DraftOperators,
        out: torch.Tensor,
    ) -> None:
        """Launches what scores tokens of rows that were answered.

        Args:
            x: As for `answer`.
            found: What that gave.
            asked: The tokens.
            operators: Of the layers.
            out: float32 [scored], written.
        """

    def answers(
        self, results: torch.Tensor, sizes: LevelSizes, rows: int, scored: Scored, indptr: Int32
    ) -> Answers:
        """Returns the answers of the first `rows` rows, given what was computed, in memory of the host."""


def naming_of(
    drafter: Drafter, tensors: DraftTensors, target: tuple[Product, torch.Tensor]
) -> Naming:
    """Copies a drafter's head to the device.

    Args:
        drafter: As it was read.
        tensors: Copies.
        target: The model's head, and its rows.

    Raises:
        ModelError: Heads of this form do not run on a GPU.
    """
    vocabulary = drafter.vocabulary
    if isinstance(vocabulary, LowRankHead):
        return LowRankNaming(vocabulary, tensors, target[1])
    if not isinstance(vocabulary, ShapedHead):
        return PlainNaming(vocabulary, tensors, target)
    shape = LogitShape(vocabulary.multiplier, vocabulary.cap)
    if vocabulary.selector is not None:
        return SelectorNaming(vocabulary.selector, shape, tensors, target)
    return PlainNaming(None, tensors, target, shape)
