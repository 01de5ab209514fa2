"""Reads values of `config.json` by name and checks their types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spectrie.errors import ModelError

__all__ = ["LARGEST_COUNT", "Reader", "read_object", "shown"]

LARGEST_COUNT = 2**31 - 1
"""Rows, positions and tokens are int32."""

_FLOAT32 = (1.18e-38, 3.4e38)
"""The models compute in float32 at least: what is outside would be zero or infinite."""


class Reader:
    """Typed look-ups in `config.json`; a null field counts as absent.

    Each method raises a `ModelError` with file, field, value and the expected type.
    """

    def __init__(self, values: Mapping[str, Any], where: str, inside: str = "") -> None:
        """Reads `values`.

        Args:
            values: The fields.
            where: The file to name in errors.
            inside: What of the file they are, such as `rope`; nothing for the whole.
        """
        self._values = values
        self._where = f"{where}: {inside} " if inside else f"{where}: "

    def refuse(self, name: str, expected: str) -> ModelError:
        """Returns the error for a field with a wrong value."""
        return self._refuse(name, self._values.get(name), expected)

    def count(
        self,
        name: str,
        default: int | None = None,
        *,
        minimum: int = 1,
        maximum: int = LARGEST_COUNT,
        may_have_point: bool = False,
    ) -> int:
        """Returns an integer of `minimum` to `maximum`; the field is required if there is no default.

        Args:
            name: The field.
            default: Where it is missing.
            minimum: The least.
            maximum: The greatest.
            may_have_point: Whether files write it as a number with a decimal point too, as `4096.0`.
        """
        value = self._required(name, default)
        if may_have_point and isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self._refuse(name, value, f"an integer of at least {minimum}")
        if value > maximum:
            raise self._refuse(name, value, f"an integer of at most {maximum}")
        return value

    def optional_count(self, name: str) -> int | None:
        """Returns an integer of at least 1, or None."""
        return None if self._values.get(name) is None else self.count(name)

    def number(self, name: str, default: float | None = None) -> float:
        """Returns a positive number; the field is required if there is no default."""
        value = self._required(name, default)
        least, most = _FLOAT32
        # Compared before it is converted: an integer of JSON can be too large for a float.
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not least <= value <= most
        ):
            raise self._refuse(name, value, "a positive number")
        return float(value)

    def switch(self, name: str, default: bool = False) -> bool:
        """Returns a boolean."""
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false")
        return value

    def fields(self, name: str) -> Mapping[str, Any]:
        """Returns the fields of an object; empty by default."""
        value = self._values.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.refuse(name, "an object")
        return value

    def token_ids(self, name: str) -> tuple[int, ...]:
        """Returns a token or a list of tokens; empty by default."""
        value = self._values.get(name)
        if value is None:
            return ()
        ids = value if isinstance(value, list) else [value]
        if not all(_is_index(token, LARGEST_COUNT) for token in ids):
            raise self.refuse(name, "a token id or a list of them")
        return tuple(ids)

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
        if not isinstance(value, list) or not all(_is_index(one, num_layers) for one in value):
            raise self.refuse(name, f"a list of layers, 0 to {num_layers - 1}")
        return frozenset(value)

    def _required(self, name: str, default: Any) -> Any:
        value = self._values.get(name)
        value = default if value is None else value
        if value is None:
            raise ModelError(f"{self._where}{name} is missing")
        return value

    def _refuse(self, name: str, value: Any, expected: str) -> ModelError:
        return ModelError(f"{self._where}{name} is {shown(value)}, expected {expected}")


def read_object(path: Path, whose: str = "") -> dict[str, Any]:
    """Returns the fields of a JSON file.

    Args:
        path: The file.
        whose: What to say before it where it cannot be read, such as `the drafter's `.

    Raises:
        ModelError: It cannot be read, or holds something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"cannot read {whose}{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ModelError(f"{path} holds a {type(values).__name__}, expected a JSON object")
    return values


def shown(value: Any) -> str:
    """Returns a value as an error shows it: cut, as a damaged file may hold anything."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _is_index(value: Any, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end
