"""How often a head is right on text that it was not trained on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from spectrie.training.batches import Batch
from spectrie.training.kinds.base import Head
from spectrie.training.low_rank import LowRank

__all__ = ["HeldOut", "evaluate", "found_share", "second_moment"]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Results by level.

    Attributes:
        losses: Mean loss of a row.
        top_1: Share of the rows whose likeliest guess is the next token, among those where the guesses of
            all levels before were right.
        asked: How many rows that is.
    """

    losses: tuple[float, ...]
    top_1: tuple[float, ...]
    asked: tuple[int, ...]

    def weighted(self, level_weight: float) -> float:
        """One loss of all levels."""
        return sum(loss * level_weight**level for level, loss in enumerate(self.losses))

    @property
    def chain_length(self) -> float:
        """Tokens that a chain of these levels gets right, on average."""
        length, reached = 0.0, 1.0
        for share in self.top_1:
            reached *= share
            length += reached
        return length

    def __str__(self) -> str:
        return " / ".join(f"{share:.3f}" for share in self.top_1)


@torch.no_grad()
def evaluate(head: Head, batches: Iterable[Batch]) -> HeldOut:
    """Runs a head over batches."""
    losses: list[float] = []
    rows: list[int] = []
    right: list[int] = []
    asked: list[int] = []
    for batch in batches:
        if not losses:
            losses, rows, right, asked = ([0] * len(batch.levels) for _ in range(4))  # type: ignore[assignment]
        so_far = torch.ones(len(batch.levels[0].rows), dtype=torch.bool)
        for number, (level, loss, guesses) in enumerate(
            zip(batch.levels, *head.judged(batch), strict=True)
        ):
            if number:
                so_far = so_far[level.parents]
            losses[number] += float(loss)
            rows[number] += len(level.rows)
            asked[number] += int(so_far.sum())
            so_far = so_far & (guesses == level.next_tokens)
            right[number] += int(so_far.sum())
    return HeldOut(_shares(losses, rows), _shares(right, asked), tuple(asked))


@torch.no_grad()
def second_moment(head: Head, batches: Iterable[Batch], least: int) -> torch.Tensor:
    """Returns the mean of `h hT` over what a head's LM head takes, of all levels alike: float64 [hidden, hidden].

    Args:
        head: The head.
        batches: Texts; at least one row.
        least: Rows after which no further batch is taken.
    """
    total, rows = torch.zeros((), dtype=torch.float64), 0
    for batch in batches:
        for states in head.named_states(batch):
            total = total + states.double().T @ states.double()
            rows += len(states)
        if rows >= least:
            break
    return total / rows


@torch.no_grad()
def found_share(head: Head, low_rank: LowRank, batches: Iterable[Batch]) -> float:
    """Share of the answers' tokens that are among those found at the first level: no head can be right more often."""
    right = rows = 0
    for batch in batches:
        level, states = batch.levels[0], next(head.named_states(batch))
        right += int((low_rank.found(states) == level.next_tokens[:, None]).any(1).sum())
        rows += len(states)
    return right / max(rows, 1)


def _shares(parts: Sequence[float], wholes: Sequence[int]) -> tuple[float, ...]:
    return tuple(part / max(whole, 1) for part, whole in zip(parts, wholes, strict=True))
