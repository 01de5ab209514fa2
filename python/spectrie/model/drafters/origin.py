"""Where a drafter comes from, as its weights' file says: the model it is for, and whose text it learned."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.files.weights import Weights

__all__ = ["Origin", "read_origin"]

_KEY = "spectrie"


@dataclass(frozen=True, slots=True)
class Origin:
    """What `spectrie train-head` wrote beside the weights.

    Attributes:
        model_hash: Hash of the model that the drafter was trained for.
        namespaces: Namespaces whose text it was trained on, and that alone may draft from it; None: it holds
            text of no tenant, and all may.
        licence: Licence of that text.
        held_out_top_1: By level, how often it was right on text it was not trained on.
    """

    model_hash: str
    namespaces: tuple[str, ...] | None
    licence: str
    held_out_top_1: tuple[float, ...]


def read_origin(weights: Weights, where: str) -> Origin | None:
    """Returns the origin; None where the files name none, as heads from elsewhere do.

    Args:
        weights: The drafter's files.
        where: The folder to name in errors.

    Raises:
        ModelError: There is one that cannot be understood: whose text it is must not be guessed.
    """
    text = weights.metadata(_KEY)
    if text is None:
        return None
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ModelError(f"{where}: metadata {_KEY!r} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ModelError(f"{where}: metadata {_KEY!r} is {text[:80]}, expected an object")
    namespaces = _field(values, "namespaces", where)
    if namespaces is not None and (not _are_names(namespaces) or not namespaces):
        raise _refuse(where, "namespaces", namespaces, "null or a list of names")
    top_1 = values.get("held_out_top_1", [])
    if not isinstance(top_1, list) or not all(isinstance(share, int | float) for share in top_1):
        raise _refuse(where, "held_out_top_1", top_1, "a list of numbers")
    return Origin(
        model_hash=str(_field(values, "model_hash", where)),
        namespaces=None if namespaces is None else tuple(sorted(set(namespaces))),
        licence=str(values.get("licence", "unknown")),
        held_out_top_1=tuple(float(share) for share in top_1),
    )


def _field(values: dict[str, Any], name: str, where: str) -> Any:
    if name not in values:
        raise ModelError(f"{where}: metadata {_KEY!r} has no {name}")
    return values[name]


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) and name for name in value)


def _refuse(where: str, name: str, found: object, expected: str) -> ModelError:
    return ModelError(f"{where}: metadata {_KEY!r}: {name} is {found!r}, expected {expected}")
