"""Writes a trained head under published names, with what it was trained on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from spectrie.training.kinds.base import Head
from spectrie.training.texts.samples import Sample

__all__ = ["PROVENANCE", "export_head", "samples_hash"]

PROVENANCE = "spectrie"
"""Key of the origin in the metadata of `model.safetensors`, as JSON: there no copy of the weights loses it."""


def samples_hash(samples: Iterable[Sample]) -> str:
    """SHA-256 of all tokens that a head was trained on, and of what it learned to guess."""
    digest = hashlib.sha256()
    for sample in samples:
        digest.update(json.dumps([sample.token_ids, sample.answers]).encode())
    return digest.hexdigest()


def export_head(
    head: Head, folder: Path, *, dtype: torch.dtype, provenance: Mapping[str, Any]
) -> int:
    """Writes `config.json` and `model.safetensors`; returns the bytes of the latter.

    The LM head and the embedding are the target's and are not stored. Equal heads give equal bytes.

    Args:
        head: The trained head.
        folder: Where to write; made if it is missing.
        dtype: Number format of the weights.
        provenance: What goes to the metadata of `model.safetensors`.
    """
    values, tensors = head.published()
    values |= {"torch_dtype": str(dtype).removeprefix("torch.")}
    stored = {
        name: (value.detach().to(dtype) if value.is_floating_point() else value).contiguous()
        for name, value in tensors.items()
    }
    origin = json.dumps(dict(provenance), sort_keys=True)
    data = _ordered(save(stored, metadata={"format": "pt", PROVENANCE: origin}))
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / "model.safetensors", data)
    _replace(folder / "config.json", (json.dumps(values, indent=1) + "\n").encode())
    return len(data)


def _ordered(data: bytes) -> bytes:
    """The same file with its header in order: the library writes metadata in any."""
    size = int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8 : 8 + size]), sort_keys=True).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def _replace(path: Path, data: bytes) -> None:
    new = path.with_name(path.name + ".new")
    new.write_bytes(data)
    os.replace(new, path)
