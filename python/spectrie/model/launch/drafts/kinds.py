"""How a drafter of each kind gets from tokens, and what they continue, to its first layer."""

from __future__ import annotations

from typing import Protocol

import torch

import spectrie_kernels
from spectrie.errors import ModelError
from spectrie.model.decoder.packing import Vector
from spectrie.model.drafters.description import Drafter, FusedWeights
from spectrie.model.drafters.eagle3 import Eagle3Weights
from spectrie.model.drafters.model import ModelWeights
from spectrie.model.launch.drafts.layers import DraftLayers
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.tensors import DraftTensors

__all__ = ["Kind", "kind_of"]

Entered = tuple[torch.Tensor | None, torch.Tensor]
"""What the first layer's products take, None for the stream; and the residual stream, float32."""


class Kind(Protocol):
    """A kind of drafter.

    Attributes:
        taps: Layers of the model whose outputs, side by side, make a feature; None for its last norm's.
        layers: Its layers.
        carries_normed: Whether the next level continues from what the head takes.
        table: Token vectors.
    """

    taps: tuple[int | None, ...]
    layers: DraftLayers
    carries_normed: bool
    table: torch.Tensor

    def enter(
        self,
        tokens: torch.Tensor,
        before: torch.Tensor | None,
        operators: DraftOperators,
        *,
        is_state: bool,
    ) -> Entered:
        """Launches what leads to the first layer.

        Args:
            tokens: int32 [rows], negative for none.
            before: [rows, any]: features of the tokens before, in the format of products; or states that an
                earlier level left, float32. None for a drafter that reads none.
            operators: Of the layers.
            is_state: Which of both.
        """


def kind_of(
    drafter: Drafter, tensors: DraftTensors, table: torch.Tensor, head: torch.Tensor
) -> Kind:
    """Copies a drafter's weights to the device.

    Args:
        drafter: As it was read.
        tensors: Copies.
        table: The model's token vectors, [vocabulary, hidden].
        head: Rows of the drafter's head, which are the token vectors of a model that has none.

    Raises:
        ModelError: Drafters of this form do not run on a GPU.
    """
    weights = drafter.weights
    if isinstance(weights, ModelWeights):
        return _Model(weights, tensors, head)
    is_eagle3 = isinstance(weights, Eagle3Weights) and weights.parallel is None
    if not (is_eagle3 or isinstance(weights, FusedWeights)):
        raise ModelError(f"drafters of the kind {drafter.kind} run on a CPU alone, so far")
    return (_Eagle3 if is_eagle3 else _Fused)(weights, tensors, table)


class _Base:
    def __init__(
        self,
        weights: Eagle3Weights | FusedWeights | ModelWeights,
        tensors: DraftTensors,
        table: torch.Tensor,
    ) -> None:
        """Takes token vectors of the model's, `table`, where the drafter has none of its own."""
        self.layers = DraftLayers(weights.layers, weights.output_norm, tensors)
        own = weights.embedding
        self.table = table if own is None else tensors.numbers(own).view(-1, self.hidden)

    @property
    def hidden(self) -> int:
        return self.layers.hidden

    def vectors(self, tokens: torch.Tensor, name: str, operators: DraftOperators) -> torch.Tensor:
        """Token vectors, float32 [rows, hidden]."""
        shape = (tokens.shape[0], self.hidden)
        out = operators.scratch.empty(name, shape, torch.float32)
        return spectrie_kernels.embed(tokens, self.table, out)

    def joined(
        self, left: torch.Tensor, right: torch.Tensor, operators: DraftOperators
    ) -> torch.Tensor:
        """Both, [rows, hidden], side by side in the format of products."""
        rows, hidden = left.shape
        x = operators.scratch.empty("inputs", (rows, 2 * hidden), operators.dtype)
        x[:, :hidden].copy_(left)
        x[:, hidden:].copy_(right)
        return x


class _Eagle3(_Base):
    """Vector and state, each normed, side by side; the first state is a product of features."""

    carries_normed = False

    def __init__(self, weights: Eagle3Weights, tensors: DraftTensors, table: torch.Tensor) -> None:
        super().__init__(weights, tensors, table)
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
        """See `Kind`."""
        assert before is not None
        vectors = self.vectors(tokens, "vector", operators)
        stream = before if is_state else self._first(before, operators)
        normed = operators.normed("normed state", stream, self._hidden_norm)
        vector = operators.normed("normed vector", vectors, self._vector_norm)
        x = self.joined(vector, normed, operators)
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


class _Fused(_Base):
    """A product of vector and state makes the stream: EAGLE-2 and layers for multi-token prediction."""

    taps: tuple[int | None, ...] = (None,)

    def __init__(self, weights: FusedWeights, tensors: DraftTensors, table: torch.Tensor) -> None:
        super().__init__(weights, tensors, table)
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
        """See `Kind`."""
        assert before is not None
        rows, hidden, scratch = tokens.shape[0], self.hidden, operators.scratch
        vectors = self.vectors(tokens, "vector", operators)
        if not is_state:
            wide = scratch.empty("wide state", (rows, hidden), torch.float32)
            before = wide.copy_(before)
        vector = _maybe_normed("normed vector", vectors, self._vector_norm, operators)
        state = _maybe_normed("normed state", before, self._state_norm, operators)
        left, right = (state, vector) if self._state_first else (vector, state)
        return None, self._fc(self.joined(left, right, operators), scratch)


class _Model(_Base):
    """A whole decoder: token vectors are the stream."""

    taps: tuple[int | None, ...] = ()
    carries_normed = False

    def enter(
        self,
        tokens: torch.Tensor,
        before: torch.Tensor | None,
        operators: DraftOperators,
        *,
        is_state: bool,
    ) -> Entered:
        """See `Kind`."""
        return None, self.vectors(tokens, "stream", operators)


def _maybe(tensors: DraftTensors, norm: Vector | None) -> torch.Tensor | None:
    return None if norm is None else tensors.norm(norm)


def _maybe_normed(
    name: str, stream: torch.Tensor, norm: torch.Tensor | None, operators: DraftOperators
) -> torch.Tensor:
    return stream if norm is None else operators.normed(name, stream, norm)
