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
        ids: int32 [rows, found], numbers of the head's tokens.
        probabilities: float32 [rows, found].
        best: float32 [rows], the greatest logit.
        exact: float32 [rows, found], logits of the same tokens as they are weighed again; [rows, 0] where none are.
        scored: float32 [scored], logits of the tokens asked for.
    """

    ids: torch.Tensor
    probabilities: torch.Tensor
    best: torch.Tensor
    exact: torch.Tensor
    scored: torch.Tensor

    @property
    def weights(self) -> torch.Tensor:
        """float32 [rows, found], by which tokens are the likelier."""
        return self.exact if self.exact.shape[1] else self.probabilities


@dataclass(frozen=True, slots=True)
class LevelSizes:
    """How large the results of a level are.

    Attributes:
        rows: Rows that are answered.
        scored: Tokens that are scored.
        found: Tokens that are found for each row.
        has_exact: Whether these are weighed again.
    """

    rows: int
    scored: int
    found: int = TOP_K
    has_exact: bool = False

    @property
    def words(self) -> int:
        """int32 words of all of it; scored tokens come last."""
        return sum(self._parts)

    @property
    def _parts(self) -> list[int]:
        each = self.found * self.rows
        return [each, each, self.rows, each if self.has_exact else 0, self.scored]

    def split(self, words: torch.Tensor) -> LevelResults:
        """Returns the views."""
        ids, probabilities, best, exact, scored = words[: self.words].split_with_sizes(self._parts)
        width = self.found if self.has_exact else 0
        return LevelResults(
            ids.view(self.rows, self.found),
            probabilities.view(torch.float32).view(self.rows, self.found),
            best.view(torch.float32),
            exact.view(torch.float32).view(self.rows, width),
            scored.view(torch.float32),
        )
