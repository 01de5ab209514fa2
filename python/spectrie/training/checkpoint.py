"""The state of a training on disk: the last whole one survives a crash at any moment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from spectrie.errors import ConfigError

__all__ = ["load_state", "save_state"]


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Replaces the file by one with this state."""
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def load_state(path: Path, key: str) -> dict[str, Any] | None:
    """Returns the stored state; None if there is none, or if it belongs to another training.

    Args:
        path: The file.
        key: What the training follows from.

    Raises:
        ConfigError: The file is damaged.
    """
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True)
        return state if state["key"] == key else None
    except Exception as error:  # torch raises many kinds, with pages of text
        raise ConfigError(
            f"{path} is damaged ({type(error).__name__}); remove it to start again"
        ) from error
