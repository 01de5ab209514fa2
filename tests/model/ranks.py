"""The processes that share a model with another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spectrie.model import Runner, load_runner
from tests.cores import require_cores

__all__ = ["OPTIONS", "follower_ids", "two_ranks"]

OPTIONS: dict[str, Any] = {"threads": 1, "num_pages": 64}
"""Of a small model, on two ranks or on one."""


@contextmanager
def two_ranks(folder: Path, **options: Any) -> Iterator[Runner]:
    """A model on two ranks, with `OPTIONS` where nothing else is given."""
    require_cores(2)
    runner = load_runner(folder, tensor_parallel=2, **(OPTIONS | options))
    try:
        yield runner
    finally:
        runner.close()


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
