"""Where the results of a step lie in one int32 buffer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from spectrie.model.operators import TOP_K

__all__ = ["Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens first, then ids of the likeliest tokens, then their probabilities' bits.

    Attributes:
        samples: Rows with a token.
        tops: Rows with `TOP_K` ids and probabilities.
    """

    samples: int
    tops: int

    @property
    def words(self) -> int:
        """int32 words of all of it."""
        return self.samples + 2 * TOP_K * self.tops

    def split(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns views: int32 [samples], int32 [tops, TOP_K], float32 [tops, TOP_K]."""
        sizes = [self.samples, TOP_K * self.tops, TOP_K * self.tops]
        tokens, ids, probabilities = words[: self.words].split_with_sizes(sizes)
        return tokens, ids.view(-1, TOP_K), probabilities.view(torch.float32).view(-1, TOP_K)
