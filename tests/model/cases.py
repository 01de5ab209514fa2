"""The models of `torch_free.py`: one with a head, one to convert, one of every family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.model.drafters.heads import write_tiny_head
from tests.model.families import FAMILIES, save_family
from tests.tiny_gguf import write_tiny_gguf
from tests.tiny_model import write_tiny_model

__all__ = ["write_cases"]


def write_cases(folder: Path) -> dict[str, Any]:
    """Writes them into a folder; returns their paths by what they are."""
    families = folder / "families"
    for name in FAMILIES:
        save_family(name, families / name)
    write_tiny_gguf(folder / "tiny.gguf")
    return {
        "gguf": str(folder / "tiny.gguf"),
        "model": str(write_tiny_model(folder / "tiny")),
        "head": str(write_tiny_head(folder / "head")),
        "folders": [str(families / name) for name in FAMILIES],
    }
