"""P-EAGLE: an EAGLE-3 head whose rows of a token and a feature that stand for unknown ones answer all levels."""

from __future__ import annotations

import torch

from spectrie.model.drafters.eagle3 import Eagle3Weights, Parallel
from spectrie.model.launch.drafts.kinds.eagle3 import Eagle3
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.tensors import DraftTensors

__all__ = ["Peagle"]


class Peagle(Eagle3):
    """A row of a first level becomes a block, each row of which sees those before it."""

    def __init__(
        self,
        weights: Eagle3Weights,
        parallel: Parallel,
        tensors: DraftTensors,
        table: torch.Tensor,
    ) -> None:
        """Copies the weights; takes token vectors from `table` where there are none of its own."""
        super().__init__(weights, tensors, table)
        self._rows = parallel.block
        self._mask_feature = tensors.numbers(parallel.mask_feature)

    def states(
        self,
        tokens: torch.Tensor,
        before: torch.Tensor | None,
        operators: DraftOperators,
        *,
        is_state: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Kind`: of each block the states of all its rows, behind the last norm."""
        assert before is not None
        blocks, width = before.shape
        shape = (blocks, self._rows, width)
        features = operators.scratch.empty("block features", shape, operators.dtype)
        features[:, 0].copy_(before)
        features[:, 1:].copy_(self._mask_feature)
        states, _ = super().states(tokens, features.view(-1, width), operators, is_state=False)
        first = operators.scratch.empty("first states", (blocks, self.hidden), operators.dtype)
        return first.copy_(states.view(blocks, self._rows, self.hidden)[:, 0]), states
