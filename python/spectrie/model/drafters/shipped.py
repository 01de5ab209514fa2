"""Heads that ship with the package: each a folder named as `--drafter` takes it, found by the weights it is for.

A name says nothing about weights: a fine-tune or a copy in another format may have the alias of the original.
So the hash in a head's origin decides, which covers configuration and weights as they are stored; the number
format that they are computed in does not change it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spectrie.errors import ModelError
from spectrie.model.drafters.origin import read_origin
from spectrie.model.files.weights import Weights

__all__ = ["HEADS", "ShippedHead", "head_for", "shipped_heads"]

HEADS = Path(__file__).parents[1] / "sources/heads"
"""Where they lie; each folder holds `config.json`, safetensors, and a NOTICE with hashes and licences."""


@dataclass(frozen=True, slots=True)
class ShippedHead:
    """What was found for a model.

    Attributes:
        folder: The head; None if none ships for it.
        damaged: A line for each head that cannot say which model it is for.
    """

    folder: Path | None
    damaged: tuple[str, ...] = ()


def shipped_heads() -> dict[str, Path]:
    """Returns the folders of all heads that ship, by name."""
    if not HEADS.is_dir():
        return {}
    return {path.name: path for path in sorted(HEADS.iterdir()) if path.is_dir()}


def head_for(model_hash: str) -> ShippedHead:
    """Returns the head that was trained for exactly these weights.

    Args:
        model_hash: Identity of the model's configuration and weights, as `model_hash` gives it.
    """
    damaged = []
    for name, folder in shipped_heads().items():
        try:
            origin = read_origin(Weights(folder), str(folder))
        except ModelError as error:
            damaged.append(f"the head {name} that ships is damaged: {error}")
            continue
        if origin is not None and origin.model_hash == model_hash:
            return ShippedHead(folder, tuple(damaged))
    return ShippedHead(None, tuple(damaged))
