"""Identity of a model's bytes, and of the arithmetic that runs it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from spectrie.model.files.checkpoint import weight_files
from spectrie.model.files.measurements import Measurements

__all__ = ["KERNEL_VERSION", "model_hash"]

KERNEL_VERSION = 2
"""Counts changes of the operators that change bits; part of every numeric fingerprint."""

_CHUNK = 1 << 22


def model_hash(folder: Path, measurements: Measurements) -> str:
    """SHA-256 over configuration and weights, in hex, the first 16 characters.

    Reading the weights takes a second per gigabyte, so the answer is kept under the files' names, sizes
    and times.

    Raises:
        ModelError: The weights are missing.
        OSError: A file cannot be read.
    """
    files = [folder / "config.json", *weight_files(folder)]
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = f"hash {folder.resolve()} {stats}"
    known = measurements.get(key)
    if isinstance(known, str):
        return known
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    result = digest.hexdigest()[:16]
    measurements.put(key, result)
    return result
