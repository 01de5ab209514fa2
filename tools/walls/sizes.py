"""Files that are too long and folders that are too full."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

__all__ = ["SOURCES", "full_folders", "long_files", "tracked"]

SOURCES = (".rs", ".py", ".pyi")


def tracked(root: Path, part: str) -> list[Path]:
    """The files below `part` that version control knows and that are there, relative to `root`."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", part],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return sorted({Path(line) for line in done.stdout.splitlines() if (root / line).is_file()})


def long_files(
    root: Path, files: Collection[Path], limit: int, generated: Collection[str] = ()
) -> Iterator[str]:
    """Each source file of more than `limit` lines, with its number of lines."""
    for file in files:
        if file.suffix in SOURCES and not _is_generated(file, generated):
            lines = len((root / file).read_text(encoding="utf-8").splitlines())
            if lines > limit:
                yield f"{file}: {lines} lines"


def full_folders(
    files: Collection[Path], root: Path, limit: int, generated: Collection[str] = ()
) -> Iterator[str]:
    """Each folder from `root` on with more than `limit` entries, files and folders alike."""
    entries = {
        place
        for file in files
        if not _is_generated(file, generated)
        for place in (file, *file.parents)
        if place != root and place.is_relative_to(root)
    }
    counted = Counter(place.parent for place in entries)
    for folder, count in sorted(counted.items()):
        if count > limit:
            yield f"{folder}: {count} entries"


def _is_generated(file: Path, generated: Collection[str]) -> bool:
    return any(file.is_relative_to(one) for one in generated)
