"""What the core packs: tensors by address, and the products and layers made of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrie.model.files.arrays import Array, format_of

__all__ = ["Dense", "Layer", "Mixture", "Product", "Tensor", "Vector", "address"]

Tensor = tuple[int, str, int]
"""Address, dtype and number of elements."""
Vector = NDArray[np.float32]


def address(array: Array, alive: list[Array]) -> Tensor:
    """Returns where an array's elements lie, contiguous; appends what must stay alive until then."""
    array = np.require(array, requirements=["C", "A"])
    alive.append(array)
    return array.ctypes.data, format_of(array), array.size


@dataclass(frozen=True, slots=True)
class Product:
    """Input of the core's packing: addresses, dtypes and sizes of stacked matrices, and their bias."""

    parts: list[Tensor]
    bias: Vector | None
    in_features: int


@dataclass(frozen=True, slots=True)
class Dense:
    """A gated MLP."""

    gate_up: Product
    down: Product


@dataclass(frozen=True, slots=True)
class Mixture:
    """Experts, and the product that chooses among them."""

    router: Product
    experts: list[Dense]
    chosen: int
    normalised: bool


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer; without an attention norm the first product takes the residual stream as it is."""

    attention_norm: Vector | None
    qkv: Product
    output: Product
    mlp_norm: Vector
    mlp: Dense | Mixture
