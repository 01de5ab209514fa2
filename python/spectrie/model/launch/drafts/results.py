"""Where the results of a level lie in one int32 buffer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from spectrie.model.operators import TOP_K

__all__ = ["LevelResults", "LevelSizes"]


@dataclass(frozen=True, slots=True)
class LevelResults:
    """Views of the buffer.

    Attributes:
        ids: int32 [rows, TOP_K], numbers of the head's tokens.
        probabilities: float32 [rows, TOP_K].
        best: float32 [rows], the greatest logit.
        scored: float32 [scored], logits of the tokens asked for.
    """

    ids: torch.Tensor
    probabilities: torch.Tensor
    best: torch.Tensor
    scored: torch.Tensor


@dataclass(frozen=True, slots=True)
class LevelSizes:
    """Rows and scored tokens of a level."""

    rows: int
    scored: int

    @property
    def words(self) -> int:
        """int32 words of all of it; scored tokens come last."""
        return (2 * TOP_K + 1) * self.rows + self.scored

    def split(self, words: torch.Tensor) -> LevelResults:
        """Returns the views."""
        each = TOP_K * self.rows
        sizes = [each, each, self.rows, self.scored]
        ids, probabilities, best, scored = words[: self.words].split_with_sizes(sizes)
        return LevelResults(
            ids.view(-1, TOP_K),
            probabilities.view(torch.float32).view(-1, TOP_K),
            best.view(torch.float32),
            scored.view(torch.float32),
        )
