"""Heads that join a token's vector and the state before it in one product: EAGLE-2 and MTP layers."""

from __future__ import annotations

from dataclasses import dataclass

from spectrie.model.decoder.packing import Layer, Product, Tensor, Vector

__all__ = ["FusedWeights"]


@dataclass(frozen=True, slots=True)
class FusedWeights:
    """What the core packs. The feature is the output of the target's last norm.

    Attributes:
        vector_norm: Norm of the token's vector; None for as it is.
        state_norm: Norm of the state; None for as it is.
        state_first: Whether `fc` takes the state before the vector.
        fc: Product from both to the residual stream.
        layers: The layers behind it.
        output_norm: Norm before the head; None for none.
        carries_normed: Whether the next level continues from the state after that norm.
        embedding: Token vectors of its own.
    """

    vector_norm: Vector | None
    state_norm: Vector | None
    state_first: bool
    fc: Product
    layers: list[Layer]
    output_norm: Vector | None
    carries_normed: bool
    embedding: Tensor | None
