"""The second half of a layer in torch: a gated MLP, or a mixture of experts."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from spectrie.model.decoder.exchange import Exchange, IntoStream
from spectrie.model.decoder.linear import ExpertLinear, OpenProduct
from spectrie.model.operators import Operators, Result

__all__ = ["Dense", "Mixture"]


@dataclass(frozen=True, slots=True)
class Dense:
    """A gated MLP."""

    gate_up: OpenProduct
    down: IntoStream

    def __call__(self, x: torch.Tensor, operators: Operators, exchange: Exchange) -> Result:
        """[rows, hidden] to the same."""
        scratch = operators.scratch
        gated = operators.gate(self.gate_up(x, scratch))
        return exchange.into_stream(self.down, gated, "inner", scratch)


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

    def __call__(self, x: torch.Tensor, operators: Operators, exchange: Exchange) -> Result:
        """[rows, hidden] to the same, float32."""
        scratch = operators.scratch
        ids, shares = operators.choose(self.router(x, scratch), self.num_chosen, self.normalised)
        work = self.gate_up.work(ids, scratch)
        gated = exchange.whole(operators.gate(self.gate_up(x, work, scratch)), "expert")
        part = operators.add_experts(self.down(gated, work, scratch), ids, shares)
        return exchange.whole(part, "hidden")
