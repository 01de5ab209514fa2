"""EAGLE-2, and layers for multi-token prediction: a product of vector and state makes the stream."""

from __future__ import annotations

import torch

from spectrie.model.decoder.packing import Vector
from spectrie.model.drafters.description import FusedWeights
from spectrie.model.launch.drafts.kinds.kind import BaseKind, Entered, joined, vectors_of
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.tensors import DraftTensors

__all__ = ["Fused"]


class Fused(BaseKind):
    """Layers behind one product of token vectors and states."""

    def __init__(self, weights: FusedWeights, tensors: DraftTensors, table: torch.Tensor) -> None:
        """Copies the weights; takes token vectors from `table` where there are none of its own."""
        super().__init__(weights.layers, weights.output_norm, weights.embedding, tensors, table)
        self.taps: tuple[int | None, ...] = (None,)
        self.carries_normed = weights.carries_normed
        self._state_first = weights.state_first
        self._vector_norm = _maybe(tensors, weights.vector_norm)
        self._state_norm = _maybe(tensors, weights.state_norm)
        self._fc = tensors.wide("fc", weights.fc)

    def enter(
        self,
        tokens: torch.Tensor,
        before: torch.Tensor | None,
        operators: DraftOperators,
        *,
        is_state: bool,
    ) -> Entered:
        """See `BaseKind`."""
        assert before is not None
        rows, hidden, scratch = tokens.shape[0], self.hidden, operators.scratch
        vectors = vectors_of(self.table, tokens, "vector", operators)
        if not is_state:
            wide = scratch.empty("wide state", (rows, hidden), torch.float32)
            before = wide.copy_(before)
        vector = _maybe_normed("normed vector", vectors, self._vector_norm, operators)
        state = _maybe_normed("normed state", before, self._state_norm, operators)
        left, right = (state, vector) if self._state_first else (vector, state)
        return None, self._fc(joined(left, right, operators), scratch)


def _maybe(tensors: DraftTensors, norm: Vector | None) -> torch.Tensor | None:
    return None if norm is None else tensors.norm(norm)


def _maybe_normed(
    name: str, stream: torch.Tensor, norm: torch.Tensor | None, operators: DraftOperators
) -> torch.Tensor:
    return stream if norm is None else operators.normed(name, stream, norm)
