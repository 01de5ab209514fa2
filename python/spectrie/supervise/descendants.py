"""The processes that a process started, and that they started."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

__all__ = ["descendants"]


def descendants(pid: int) -> list[int]:
    """Returns their process ids, of those that run now; none on a system without /proc."""
    children = defaultdict[int, list[int]](list)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        children[int(parent)].append(int(folder.name))
    found = list(children[pid])
    # Grows while it is gone through.
    for child in found:
        found.extend(children[child])
    return found
