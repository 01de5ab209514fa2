"""DFLASH: one forward over a block fills in masks behind the last token. DFLASH 2 has convolutions in it."""

from __future__ import annotations

import torch

from spectrie.model.drafters.dflash import DflashWeights
from spectrie.model.launch.drafts.blocks import Block
from spectrie.model.launch.drafts.kinds.convolution import Convolution
from spectrie.model.launch.drafts.kinds.kind import vectors_of
from spectrie.model.launch.drafts.layers import DraftLayers
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.tensors import DraftTensors
from spectrie.model.operators import Result

__all__ = ["Dflash"]


class _BlockLayers(DraftLayers):
    """Layers whose keys and values of committed tokens are products of one state, the context."""

    def context_entries(self, context: torch.Tensor, operators: DraftOperators) -> None:
        """Writes keys and values of all layers, given [rows, hidden] in the format of products."""
        for index, layer in enumerate(self._layers):
            operators.write_entries(index, layer.kv(context, operators.scratch))

    def fill_in(
        self, stream: torch.Tensor, context: torch.Tensor, operators: DraftOperators
    ) -> torch.Tensor:
        """Computes blocks; returns the normed rows, like `stream` in the format of products.

        Args:
            stream: float32 [blocks, rows, hidden], of which the first row of each stands for the context; changed.
            context: [blocks, hidden], that of each block.
            operators: Have begun with the rows of all blocks.
        """
        shape = stream.shape
        flat = stream.view(-1, self.hidden)
        delta: Result | None = None
        for index, layer in enumerate(self._layers):
            x = self._entered(layer, flat, delta, operators).view(shape)
            delta = self._attended(index, x, context, operators)
            normed = operators.add_norm(flat, delta, layer.mlp_norm).view(shape)
            delta = self._mixed(index, normed, operators)
        return self.left(flat, delta, operators).view(shape)

    def _attended(
        self, index: int, x: torch.Tensor, context: torch.Tensor, operators: DraftOperators
    ) -> Result:
        """The first half of a layer; `x` is changed."""
        layer = self._layers[index]
        x[:, 0].copy_(context)
        qkv = layer.qkv(x.view(-1, self.hidden), operators.scratch)
        return layer.output(operators.attend(index, qkv), operators.scratch)

    def _mixed(self, index: int, x: torch.Tensor, operators: DraftOperators) -> Result:
        """The second half of a layer."""
        return self._layers[index].mlp(x.view(-1, self.hidden), operators, self._exchange)


class _ConvolvedLayers(_BlockLayers):
    """Such layers with convolutions around both halves."""

    def __init__(self, weights: DflashWeights, tensors: DraftTensors) -> None:
        """Copies them to the device."""
        super().__init__(weights.layers, weights.output_norm, tensors, finishes=True)
        self._around = [
            (Convolution(around.attention, tensors), Convolution(around.mlp, tensors))
            for around in weights.convolutions
        ]

    def _attended(
        self, index: int, x: torch.Tensor, context: torch.Tensor, operators: DraftOperators
    ) -> Result:
        half = super()._attended
        around, _ = self._around[index]
        return around.around(x, operators, lambda: half(index, x, context, operators))

    def _mixed(self, index: int, x: torch.Tensor, operators: DraftOperators) -> Result:
        half = super()._mixed
        _, around = self._around[index]
        return around.around(x, operators, lambda: half(index, x, operators))


class Dflash:
    """A block of the last token and masks, whose rows attend to each other and to the context. See `Kind`."""

    entries_attend = False

    def __init__(
        self, weights: DflashWeights, block: Block, tensors: DraftTensors, table: torch.Tensor
    ) -> None:
        """Copies the weights.

        Args:
            weights: As they were read.
            block: What a row becomes.
            tensors: Copies.
            table: The model's token vectors, [vocabulary, hidden].
        """
        self.taps: tuple[int | None, ...] = tuple(weights.tapped_layers)
        self._layers = (
            _ConvolvedLayers(weights, tensors)
            if weights.convolutions
            else _BlockLayers(weights.layers, weights.output_norm, tensors)
        )
        self.layers: DraftLayers = self._layers
        self.table = table
        self._block = block
        self._fc = tensors.wide("fc", weights.fc)
        self._context_norm = tensors.norm(weights.context_norm)
        vector = weights.mask_vector
        self._mask_vector = None if vector is None else tensors.norm(vector)
        self._vector_scale = weights.vector_scale

    def entries(
        self, tokens: torch.Tensor, before: torch.Tensor | None, operators: DraftOperators
    ) -> None:
        """See `Kind`."""
        self._layers.context_entries(self._context(before, operators), operators)

    def states(
        self,
        tokens: torch.Tensor,
        before: torch.Tensor | None,
        operators: DraftOperators,
        *,
        is_state: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Kind`: of each block the states of its masks."""
        block, hidden = self._block, self.layers.hidden
        context = self._context(before, operators)
        blocks = context.shape[0]
        stream = vectors_of(self.table, tokens, "stream", operators)
        stream = stream.view(blocks, block.rows, hidden)
        if self._mask_vector is not None:
            stream[:, block.rows - block.states :].copy_(self._mask_vector)
        if self._vector_scale != 1.0:
            stream.mul_(self._vector_scale)
        left = self._layers.fill_in(stream, context, operators)
        shape = (blocks, block.states, hidden)
        states = operators.scratch.empty("states", shape, operators.dtype)
        states.copy_(left[:, block.rows - block.states :])
        first = operators.scratch.empty("first states", (blocks, hidden), operators.dtype)
        return first.copy_(states[:, 0]), states.view(-1, hidden)

    def _context(self, features: torch.Tensor | None, operators: DraftOperators) -> torch.Tensor:
        """What all layers take in place of committed tokens, [rows, hidden] in the format of products."""
        assert features is not None
        state = self._fc(features, operators.scratch)
        return operators.normed("context", state, self._context_norm)
