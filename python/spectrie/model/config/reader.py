"""Reads values of `config.json` by name and checks their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectrie.errors import ModelError

__all__ = ["Reader"]


class Reader:
    """Typed look-ups in `config.json`; a null field counts as absent.

    Each method raises a `ModelError` with file, field, value and the expected type.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self._where = where

    def refuse(self, name: str, expected: str) -> ModelError:
        """Returns the error for a field with a wrong value."""
        return ModelError(f"{self._where}: {name} is {self._values[name]!r}, expected {expected}")

    def count(self, name: str, default: int | None = None, *, minimum: int = 1) -> int:
        """Returns an integer of at least `minimum`; the field is required if there is no default."""
        value = self._values.get(name)
        if value is None:
            value = default
        if value is None:
            raise ModelError(f"{self._where}: {name} is missing")
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self.refuse(name, f"an integer of at least {minimum}")
        return value

    def optional_count(self, name: str) -> int | None:
        """Returns an integer of at least 1, or None."""
        return None if self._values.get(name) is None else self.count(name)

    def number(self, name: str, default: float) -> float:
        """Returns a positive number."""
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise self.refuse(name, "a positive number")
        return float(value)

    def switch(self, name: str, default: bool = False) -> bool:
        """Returns a boolean."""
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false")
        return value

    def per_layer(self, name: str, num_layers: int) -> list[Any] | None:
        """Returns the entries of a list, one per layer; None for an empty list."""
        value = self._values.get(name)
        if not value:
            return None
        if not isinstance(value, list) or len(value) < num_layers:
            raise self.refuse(name, f"an entry for each of the {num_layers} layers")
        return value[:num_layers]

    def layers(self, name: str, num_layers: int) -> frozenset[int]:
        """Returns a list of layer indices; empty by default."""
        value = self._values.get(name) or []
        fits = isinstance(value, list) and all(
            isinstance(layer, int) and 0 <= layer < num_layers for layer in value
        )
        if not fits:
            raise self.refuse(name, f"a list of layers, 0 to {num_layers - 1}")
        return frozenset(value)
