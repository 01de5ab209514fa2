"""The processes that share a model with another."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["follower_ids"]


def follower_ids(parent: int | None = None) -> list[int]:
    """Ids of those that run and that `parent` started, by default this process."""
    parent = os.getpid() if parent is None else parent
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            status = (folder / "status").read_text()
            command = (folder / "cmdline").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if f"PPid:\t{parent}\n" in status and b"runner.follower" in command:
            found.append(int(folder.name))
    return found
