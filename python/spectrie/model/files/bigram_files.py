"""Where the tables of bigrams are kept, found without anything that only a worker needs."""

from __future__ import annotations

from pathlib import Path

from spectrie.errors import ModelError
from spectrie.model.files.fingerprint import model_hash
from spectrie.model.files.measurements import Measurements
from spectrie.model.files.store import cache_folder

__all__ = ["BIGRAMS_SUFFIX", "bigrams_file", "model_hash_of"]

BIGRAMS_SUFFIX = ".bigrams"
"""How the name of a file of bigrams ends; it begins with the hash of the model."""


def bigrams_file(model_hash: str) -> Path | None:
    """Where the table of a model is or would be; None where there is no place for a cache."""
    try:
        return cache_folder() / "bigrams" / f"{model_hash}{BIGRAMS_SUFFIX}"
    except ModelError:
        return None


def model_hash_of(folder: Path) -> str | None:
    """The hash of the model in a folder; None where only its tokenizer is, or nothing readable."""
    try:
        return model_hash(folder, Measurements(cache_folder() / "measurements.json"))
    except (ModelError, OSError):
        return None
