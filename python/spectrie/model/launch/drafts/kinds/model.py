"""A whole decoder that drafts: token vectors are the stream."""

from __future__ import annotations

import torch

from spectrie.model.drafters.model import ModelWeights
from spectrie.model.launch.drafts.kinds.kind import BaseKind, Entered, vectors_of
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.tensors import DraftTensors

__all__ = ["Model"]


class Model(BaseKind):
    """Reads no features: keys of committed tokens are made up before a level."""

    taps: tuple[int | None, ...] = ()

    def __init__(self, weights: ModelWeights, tensors: DraftTensors, table: torch.Tensor) -> None:
        """Copies the weights; takes token vectors from `table` where there are none of its own."""
        super().__init__(weights.layers, weights.output_norm, weights.embedding, tensors, table)

    def enter(
        self,
        tokens: torch.Tensor,
        before: torch.Tensor | None,
        operators: DraftOperators,
        *,
        is_state: bool,
    ) -> Entered:
        """See `BaseKind`."""
        return None, vectors_of(self.table, tokens, "stream", operators)
