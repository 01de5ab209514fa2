"""Tensors of a published head under whichever of their known names a file has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spectrie.errors import ModelError
from spectrie.model.decoder.packing import Product, Vector, address
from spectrie.model.files.arrays import Array, widened
from spectrie.model.files.weights import Weights

__all__ = ["Tensors"]

_PREFIXES = ("", "model.")


class Tensors:
    """Reads tensors by the first of their names that is there, by default with or without `model.` before it.

    Args:
        weights: The file.
        alive: Receives what products name by address.
        where: The folder to name in errors.
        prefixes: What may stand before a name.
    """

    def __init__(
        self,
        weights: Weights,
        alive: list[Array],
        where: str,
        prefixes: tuple[str, ...] = _PREFIXES,
    ) -> None:
        self._prefixes = prefixes
        self._weights = weights
        self._alive = alive
        self._where = where

    def find(self, *names: str) -> str | None:
        """Returns the one name that the file has, None if it has none.

        Raises:
            ModelError: It has more than one.
        """
        found = [
            prefix + name
            for name in names
            for prefix in self._prefixes
            if prefix + name in self._weights
        ]
        if len(found) > 1:
            raise ModelError(f"{self._where}: {' and '.join(found)} are names of the same tensor")
        return found[0] if found else None

    def required(self, *names: str) -> str:
        """Like `find`, but there must be one.

        Raises:
            ModelError: The file has none, or more than one.
        """
        found = self.find(*names)
        if found is None:
            raise ModelError(f"{self._where}: tensor {' or '.join(names)} is missing")
        return found

    def shape(self, *names: str) -> tuple[int, ...]:
        """Returns a tensor's shape."""
        return self._weights.shape(self.required(*names))

    def take(self, names: Sequence[str], shape: tuple[int, ...]) -> Array:
        """Returns a tensor."""
        return self._weights.take(self.required(*names), shape)

    def numbers(self, names: Sequence[str], shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Returns a tensor of whole numbers, int64."""
        return self._weights.numbers(self.required(*names), shape)

    def vector(self, names: Sequence[str], width: int) -> Vector:
        """Returns a norm's weights."""
        return widened(self.take(names, (width,)))

    def product(
        self, parts: Sequence[tuple[Sequence[str], int]], in_features: int, *, bias: bool
    ) -> Product:
        """Returns stacked matrices: of each the names without `.weight`, and its outputs.

        Args:
            parts: The matrices.
            in_features: Inputs of every one.
            bias: Whether they have one.
        """
        matrices, biases = [], []
        for names, rows in parts:
            found = self.take([f"{name}.weight" for name in names], (rows, in_features))
            matrices.append(address(found, self._alive))
            if bias:
                biases.append(self.vector([f"{name}.bias" for name in names], rows))
        return Product(matrices, np.concatenate(biases) if bias else None, in_features)
