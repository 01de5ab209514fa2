"""Heads of low rank: two thin factors find some candidates among all tokens, which the target's head then weighs.

Factors are fitted to the states that they will see, not to the target's head alone: what a state never does costs no
rank. With `E` the head, `C` the mean of `h hT` and `S ST = C`, the mean of `|E h - E B D h|^2` is least for `B = S W` and
`D = WT S^-1`, where `W` holds the right singular vectors of `E S` with the largest singular values; it then is the sum
of the squares of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

__all__ = ["CANDIDATES", "LowRank", "factors", "fit_low_rank"]

CANDIDATES = 64
"""Tokens that are weighed exactly, as where such a head serves."""

_RIDGE = 1e-6
"""Added to the states' moment, as a share of its mean diagonal: directions that no state had stay defined."""
_ROWS = 8192


@dataclass(frozen=True, slots=True)
class LowRank:
    """The factors.

    Attributes:
        down: float32 [rank, hidden], from a state.
        basis: float32 [hidden, rank]; the target's head times this is `up`.
        up: float32 [vocabulary, rank].
    """

    down: torch.Tensor
    basis: torch.Tensor
    up: torch.Tensor

    @classmethod
    def of(cls, head: torch.Tensor, down: torch.Tensor, basis: torch.Tensor) -> LowRank:
        """Factors as bfloat16 stores them, so that what is found in training is found in serving.

        Args:
            head: The target's, [vocabulary, hidden].
            down: [rank, hidden].
            basis: [hidden, rank].
        """
        down, basis = (one.to(torch.bfloat16).float().contiguous() for one in (down, basis))
        return cls(down, basis, head.float() @ basis)

    def found(self, states: torch.Tensor) -> torch.Tensor:
        """Returns the tokens that are weighed exactly: [N, hidden] to int64 [N, 64], or all of a smaller vocabulary."""
        # In bfloat16 too many would be alike.
        with torch.autocast("cpu", enabled=False):
            near = functional.linear(functional.linear(states.float(), self.down), self.up)
        return near.topk(min(CANDIDATES, len(self.up)), dim=1).indices

    def kept(self, states: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Returns the exact logits where a token is found, and minus infinity elsewhere: [N, vocabulary].

        Args:
            states: What the LM head takes, [N, hidden].
            logits: What the target's head makes of them, [N, vocabulary].
        """
        found = self.found(states)
        return torch.full_like(logits, -torch.inf).scatter(1, found, logits.gather(1, found))


def fit_low_rank(head: torch.Tensor, moment: torch.Tensor, rank: int) -> LowRank:
    """Returns the factors that lose least of the target's logits on states like those of the moment; see `factors`."""
    return LowRank.of(head, *factors(head, moment, rank))


def factors(
    head: torch.Tensor, moment: torch.Tensor, rank: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns `D` [rank, hidden] and `B` [hidden, rank], float64.

    Args:
        head: The target's, [vocabulary, hidden].
        moment: Mean of `h hT` over states `h` that the head takes, [hidden, hidden].
        rank: 1 to hidden.

    Raises:
        ValueError: The rank is another.
    """
    hidden = head.shape[1]
    if not 1 <= rank <= hidden:
        raise ValueError(f"rank is {rank}, expected 1 to {hidden}")
    moment = moment.double()
    ridge = _RIDGE * moment.trace() / hidden + torch.finfo(torch.float64).tiny
    root = torch.linalg.cholesky(moment + ridge * torch.eye(hidden, dtype=torch.float64))
    gram = torch.zeros(hidden, hidden, dtype=torch.float64)
    for rows in torch.split(head, _ROWS):
        gram += rows.double().T @ rows.double()
    _, vectors = torch.linalg.eigh(root.T @ gram @ root)
    # They come with ascending values.
    chosen = vectors[:, -rank:].flip(1)
    down = torch.linalg.solve_triangular(root.T, chosen, upper=True).T
    return down, root @ chosen
