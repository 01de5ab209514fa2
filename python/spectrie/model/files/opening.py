"""Opens the weights of a model folder, read or drawn."""

from __future__ import annotations

from pathlib import Path

from spectrie.model.files.checkpoint import RANDOM_WEIGHTS
from spectrie.model.files.weights import Weights
from spectrie.model.machine import require_torch

__all__ = ["open_weights"]


def open_weights(folder: Path, device: str) -> Weights:
    """Opens the weights of a model folder.

    Args:
        folder: The model.
        device: Where weights are drawn that are not read, as torch names it.

    Raises:
        ModelError: There are none, or a file is not safetensors; or they are drawn, and torch is not installed.
    """
    if not (folder / RANDOM_WEIGHTS).is_file():
        return Weights(folder)
    require_torch(f"{folder} has no weights, and drawing them")
    from spectrie.model.files.random_weights import RandomWeights

    return RandomWeights(device)
