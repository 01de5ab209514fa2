"""The second half of a layer in torch: a gated MLP, or a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from spectrie.model.decoder.linear import ExpertLinear, OpenProduct
from spectrie.model.operators import Operators, Result
from spectrie.model.step.scratch import Scratch

__all__ = ["Dense", "Mixture", "Whole"]

Whole = Callable[[torch.Tensor, str], torch.Tensor]
"""Returns all columns of a product of which a rank may hold some, named as in `Partition`."""

Down = TypeVar("Down", bound=Result, covariant=True)
"""Result of the last product of a gated MLP."""


@dataclass(frozen=True, slots=True)
class Dense(Generic[Down]):
    """A gated MLP."""

    gate_up: OpenProduct
    down: Callable[[torch.Tensor, Scratch], Down]

    def __call__(self, x: torch.Tensor, operators: Operators, whole: Whole) -> Down:
        """[rows, hidden] to this rank's columns of the same."""
        scratch = operators.scratch
        return self.down(whole(operators.gate(self.gate_up(x, scratch)), "inner"), scratch)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Experts, of which each row uses the few with the highest scores.

    An expert computes all its rows together; experts without rows are not read. Which these are is known to
    the device alone, so that the same work is launched in every step. Scores are float32, so that rounding
    selects no expert.

    Attributes:
        router: From the rows to their scores.
        gate_up: Of all experts.
        down: Of all experts.
        num_chosen: Experts of a row.
        normalised: Whether their weights are scaled to a sum of 1.
    """

    router: OpenProduct
    gate_up: ExpertLinear
    down: ExpertLinear
    num_chosen: int
    normalised: bool

    def __call__(self, x: torch.Tensor, operators: Operators, whole: Whole) -> torch.Tensor:
        """[rows, hidden] to this rank's columns of the same, float32."""
        scratch = operators.scratch
        ids, shares = operators.choose(self.router(x, scratch), self.num_chosen, self.normalised)
        work = self.gate_up.work(ids, scratch)
        gated = whole(operators.gate(self.gate_up(x, work, scratch)), "expert")
        return operators.add_experts(self.down(gated, work, scratch), ids, shares)
