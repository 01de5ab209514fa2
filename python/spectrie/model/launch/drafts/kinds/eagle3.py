"""EAGLE-3: vector and state, each normed, side by side; the first state is a product of features."""

from __future__ import annotations

import torch

from spectrie.errors import ModelError
from spectrie.model.drafters.eagle3 import Eagle3Weights
from spectrie.model.launch.drafts.kinds.kind import BaseKind, Entered, joined, vectors_of
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.tensors import DraftTensors

__all__ = ["Eagle3"]


class Eagle3(BaseKind):
    """One or more layers over token vectors and states."""

    def __init__(self, weights: Eagle3Weights, tensors: DraftTensors, table: torch.Tensor) -> None:
        """Copies the weights; takes token vectors from `table` where there are none of its own."""
        super().__init__(weights.layers, weights.output_norm, weights.embedding, tensors, table)
        self.taps: tuple[int | None, ...] = tuple(weights.tapped_layers) or (None,)
        self._feature_norms = [tensors.norm(norm) for norm in weights.feature_norms]
        self._fc = None if weights.fc is None else tensors.wide("fc", weights.fc)
        norm = weights.layers[0].attention_norm
        if norm is None:
            raise ModelError("an EAGLE-3 head without a norm of the token's vector")
        self._vector_norm = tensors.norm(norm)
        self._hidden_norm = tensors.norm(weights.hidden_norm)
        self._norm_before_residual = weights.norm_before_residual

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
        vectors = vectors_of(self.table, tokens, "vector", operators)
        stream = before if is_state else self._first(before, operators)
        normed = operators.normed("normed state", stream, self._hidden_norm)
        vector = operators.normed("normed vector", vectors, self._vector_norm)
        x = joined(vector, normed, operators)
        if self._norm_before_residual:
            stream.copy_(normed)
        return x, stream

    def _first(self, features: torch.Tensor, operators: DraftOperators) -> torch.Tensor:
        """The states of features, float32 [rows, hidden]."""
        rows, scratch = features.shape[0], operators.scratch
        width = features.shape[1] // len(self.taps)
        for index, norm in enumerate(self._feature_norms):
            part = features[:, index * width : (index + 1) * width]
            wide = scratch.empty("feature part", (rows, width), torch.float32).copy_(part)
            part.copy_(operators.normed("normed part", wide, norm))
        if self._fc is not None:
            return self._fc(features, scratch)
        return scratch.empty("stream", (rows, self.hidden), torch.float32).copy_(features)
