"""The layers of a drafter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from spectrie.errors import ModelError
from spectrie.model.decoder.exchange import Exchange, IntoStream
from spectrie.model.decoder.linear import OpenProduct
from spectrie.model.decoder.mlp import Dense
from spectrie.model.decoder.packing import Dense as DescribedDense
from spectrie.model.decoder.packing import Layer, Vector
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.tensors import DraftTensors
from spectrie.model.operators import Result

__all__ = ["DraftLayers"]


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer; `kv` are the rows of `qkv` that give keys and values."""

    attention_norm: torch.Tensor | None
    qkv: OpenProduct
    kv: OpenProduct
    output: IntoStream
    mlp_norm: torch.Tensor
    mlp: Dense


class DraftLayers:
    """Layers of a decoder, of which the first may take other rows than the residual stream."""

    def __init__(
        self,
        layers: Sequence[Layer],
        output_norm: Vector | None,
        tensors: DraftTensors,
        *,
        finishes: bool = False,
    ) -> None:
        """Copies them to the device.

        Args:
            layers: As they were read.
            output_norm: Norm before the head; None for none.
            tensors: Copies.
            finishes: Whether the halves of layers give float32 rows, not sums that the stream finishes.

        Raises:
            ModelError: A layer is of a kind that is not computed here.
        """
        self._layers = [_layer(layer, tensors, finishes=finishes) for layer in layers]
        self.hidden = len(layers[0].mlp_norm)
        """Width of the residual stream."""
        self.count = len(self._layers)
        """How many."""
        self._output_norm = None if output_norm is None else tensors.norm(output_norm)
        # In place of a norm where only the sum is wanted.
        self._ones = torch.ones(self.hidden, dtype=torch.float32, device=tensors.device)
        self._exchange = Exchange(None)

    def states(
        self, x: torch.Tensor | None, stream: torch.Tensor, operators: DraftOperators
    ) -> torch.Tensor:
        """Computes all layers; returns what the head takes, and leaves the last layer's output in the stream.

        Args:
            x: What the first layer's products take; None for the stream, normed if the layer has a norm.
            stream: float32 [rows, hidden], changed.
            operators: Have begun with the rows.
        """
        delta = self._through(x, stream, operators, len(self._layers))
        return self.left(stream, delta, operators)

    def left(
        self, stream: torch.Tensor, delta: Result | None, operators: DraftOperators
    ) -> torch.Tensor:
        """Adds what the last layer gives to the stream; returns what the head takes."""
        if self._output_norm is not None:
            return operators.add_norm(stream, delta, self._output_norm)
        operators.add_norm(stream, delta, self._ones)
        return operators.narrowed("state", stream)

    def entries(
        self, x: torch.Tensor | None, stream: torch.Tensor, operators: DraftOperators
    ) -> None:
        """Writes the rows' keys and values of all layers; arguments as for `states`."""
        last = len(self._layers) - 1
        delta = self._through(x, stream, operators, last)
        layer = self._layers[last]
        if x is None or last:
            x = self._entered(layer, stream, delta, operators)
        operators.write_entries(last, layer.kv(x, operators.scratch))

    def _through(
        self,
        x: torch.Tensor | None,
        stream: torch.Tensor,
        operators: DraftOperators,
        count: int,
    ) -> Result | None:
        """The first `count` layers: what is to be added to the stream behind them."""
        delta: Result | None = None
        for index, layer in enumerate(self._layers[:count]):
            if x is None or index:
                x = self._entered(layer, stream, delta, operators)
            attended = operators.attend(index, layer.qkv(x, operators.scratch))
            delta = layer.output(attended, operators.scratch)
            normed = operators.add_norm(stream, delta, layer.mlp_norm)
            delta = layer.mlp(normed, operators, self._exchange)
        return delta

    def _entered(
        self, layer: _Layer, stream: torch.Tensor, delta: Result | None, operators: DraftOperators
    ) -> torch.Tensor:
        """What a layer's products take of the stream."""
        if layer.attention_norm is not None:
            return operators.add_norm(stream, delta, layer.attention_norm)
        if delta is not None:
            operators.add_norm(stream, delta, self._ones)
        return operators.narrowed("entered", stream)


def _layer(layer: Layer, tensors: DraftTensors, *, finishes: bool) -> _Layer:
    if not isinstance(layer.mlp, DescribedDense):
        raise ModelError("a drafter whose layers have a mixture of experts runs on a CPU alone")
    into_stream = tensors.wide if finishes else tensors.into_stream
    weight, bias = tensors.matrix(layer.qkv)
    # Queries come first, as wide as what the output projection takes.
    queries = layer.output.in_features
    norm = layer.attention_norm
    return _Layer(
        attention_norm=None if norm is None else tensors.norm(norm),
        qkv=tensors.open("qkv", weight, bias),
        kv=tensors.open("kv", weight[queries:], None if bias is None else bias[queries:]),
        output=into_stream("output", layer.output),
        mlp_norm=tensors.norm(layer.mlp_norm),
        mlp=Dense(
            tensors.open("gate_up", *tensors.matrix(layer.mlp.gate_up)),
            into_stream("down", layer.mlp.down),
        ),
    )
