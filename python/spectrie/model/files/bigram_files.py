"""Paths of bigram tables; imports nothing that only a worker needs."""

from __future__ import annotations

from pathlib import Path

from spectrie.errors import ModelError
from spectrie.model.files.fingerprint import model_hash
from spectrie.model.files.measurements import Measurements
from spectrie.model.files.store import cache_folder

__all__ = ["BIGRAMS_SUFFIX", "bigrams_file", "model_hash_of"]

BIGRAMS_SUFFIX = ".bigrams"
"""Suffix of a bigram file; its stem is the hash of the model."""


def bigrams_file(model_hash: str) -> Path | None:
    """Returns the path of a model's table, present or not; None if there is no cache folder."""
    try:
        return cache_folder() / "bigrams" / f"{model_hash}{BIGRAMS_SUFFIX}"
    except ModelError:
        return None


def model_hash_of(folder: Path) -> str | None:
    """Returns the hash of the model in a folder; None if the folder has no readable weights."""
    try:
        return model_hash(folder, Measurements(cache_folder() / "measurements.json"))
    except (ModelError, OSError):
        return None
