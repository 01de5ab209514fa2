"""Finds the weight files of a model folder without reading a tensor."""

from __future__ import annotations

import json
from pathlib import Path

from spectrie.errors import ModelError

__all__ = ["RANDOM_WEIGHTS", "weight_files"]

RANDOM_WEIGHTS = "random_weights.json"
"""File of a model folder whose weights are drawn instead of read."""


def weight_files(folder: Path) -> list[Path]:
    """Returns the safetensors files of a model folder: one, or the shards that its index names.

    Raises:
        ModelError: There is none, or a shard is missing.
    """
    index = folder / "model.safetensors.index.json"
    if index.exists():
        try:
            names = sorted(
                set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            )
            files = [folder / name for name in names]
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise ModelError(f"cannot read {index}: {error!r}") from error
        missing = [file.name for file in files if not file.exists()]
        if missing:
            raise ModelError(
                f"{folder}: shards named by the index are missing: {', '.join(missing)}"
            )
        return files
    single = folder / "model.safetensors"
    if not single.exists():
        raise ModelError(f"{folder} has no model.safetensors and no model.safetensors.index.json")
    return [single]
