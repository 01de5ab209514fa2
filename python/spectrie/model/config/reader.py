"""Values of `config.json` by name, with their types checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectrie.errors import ModelError

__all__ = ["Reader"]


class Reader:
    """Typed look-ups in `config.json`; a field that is null counts as absent.

    Each method raises a `ModelError` that names file and field, what it is and what was expected.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self._where = where

    def refuse(self, name: str, expected: str) -> ModelError:
        """The error about a field with a wrong value."""
        return ModelError(f"{self._where}: {name} is {self._values[name]!r}, expected {expected}")

    def count(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """An integer of at least `least`; without a default it must be there."""
        value = self._values.get(name)
        if value is None:
            value = default
        if value is None:
            raise ModelError(f"{self._where}: {name} is missing")
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.refuse(name, f"an integer of at least {least}")
        return value

    def optional_count(self, name: str) -> int | None:
        """An integer of at least 1, or None."""
        return None if self._values.get(name) is None else self.count(name)

    def number(self, name: str, default: float) -> float:
        """A positive number."""
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise self.refuse(name, "a positive number")
        return float(value)

    def switch(self, name: str, default: bool = False) -> bool:
        """True or false."""
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false")
        return value

    def per_layer(self, name: str, num_layers: int) -> list[Any] | None:
        """A list's entries for the layers; None for an empty one."""
        value = self._values.get(name)
        if not value:
            return None
        if not isinstance(value, list) or len(value) < num_layers:
            raise self.refuse(name, f"an entry for each of the {num_layers} layers")
        return value[:num_layers]

    def layers(self, name: str, num_layers: int) -> frozenset[int]:
        """A list of indices of layers, by default none."""
        value = self._values.get(name) or []
        fits = isinstance(value, list) and all(
            isinstance(layer, int) and 0 <= layer < num_layers for layer in value
        )
        if not fits:
            raise self.refuse(name, f"a list of layers, 0 to {num_layers - 1}")
        return frozenset(value)
