"""Tiny models that draft for one another, with a tokenizer that says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.model.families import save_family

__all__ = ["SMALLER", "tokenizer", "with_tokenizer", "write_smaller"]

SMALLER: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
"""Sizes other than the target's in everything."""


def tokenizer(size: int = 200, **changed: str) -> str:
    """The text of a `tokenizer.json` of so many tokens; `changed` names other ones by id, as `t17`."""
    vocabulary = {changed.get(f"t{id}", f"t{id}"): id for id in range(size)}
    return json.dumps({"version": "1.0", "added_tokens": [], "model": {"vocab": vocabulary}})


def with_tokenizer(model: Path, folder: Path, text: str | None = None) -> Path:
    """Copies a model beside a tokenizer and returns its folder."""
    shutil.copytree(model, folder)
    (folder / "tokenizer.json").write_text(tokenizer() if text is None else text)
    return folder


def write_smaller(folder: Path, family: str = "llama", **changes: Any) -> Path:
    """Writes a smaller model with the same tokenizer and returns its folder."""
    save_family(family, folder, **(SMALLER | changes))
    (folder / "tokenizer.json").write_text(tokenizer())
    return folder
