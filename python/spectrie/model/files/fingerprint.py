"""Identity of a model's bytes, and of the arithmetic that runs it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from spectrie.model.files.checkpoint import RANDOM_WEIGHTS, weight_files
from spectrie.model.files.measurements import Measurements

__all__ = ["KERNEL_VERSION", "model_hash"]

KERNEL_VERSION = 4
"""Version of the arithmetic of operators and sampling: increases with each change of bits. Part of
every numeric fingerprint."""

_CHUNK = 1 << 22


def model_hash(folder: Path, measurements: Measurements) -> str:
    """Returns the first 16 hex characters of the SHA-256 of configuration and weights.

    Reading the weights takes a second per gigabyte, so the result is cached by the files' names, sizes
    and modification times.

    Raises:
        ModelError: The weights are missing.
        OSError: A file cannot be read.
    """
    drawn = folder / RANDOM_WEIGHTS
    files = [folder / "config.json", *([drawn] if drawn.is_file() else weight_files(folder))]
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = f"hash {folder.resolve()} {stats}"
    stored = measurements.get(key)
    if isinstance(stored, str):
        return stored
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    result = digest.hexdigest()[:16]
    measurements.put(key, result)
    return result
