"""The folder of a release: made beside its place, and put there whole, instead of an earlier release alone."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["SUMS", "Occupied", "fresh", "replaced", "write_sums"]

SUMS = "SHA256SUMS"


class Occupied(Exception):
    """The folder holds what no release has put there."""


@contextmanager
def fresh(folder: Path) -> Iterator[Path]:
    """An empty folder for a release, which takes the place of an earlier one alone: see `replaced`.

    Args:
        folder: The place. It may hold an earlier release, as its checksums list it.

    Raises:
        Occupied: It holds other files.
    """
    with replaced(folder) as building:
        foreign = sorted(_names(folder) - _listed(folder))
        if foreign:
            raise Occupied(f"{folder} holds what is of no release: {', '.join(foreign[:3])}")
        yield building


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """An empty folder, which takes the place of `folder` at the end; where that fails, `folder` stays as it was.

    What a kill leaves beside it, the next time puts right: an earlier folder whose place is empty goes back there.
    """
    building, earlier = (
        folder.with_name(f".{folder.name}.{what}") for what in ("unfinished", "earlier")
    )
    _settle(folder, building, earlier)
    building.mkdir(parents=True)
    try:
        yield building
        if folder.exists():
            folder.rename(earlier)
        building.rename(folder)
    finally:
        _settle(folder, building, earlier)


def _settle(folder: Path, building: Path, earlier: Path) -> None:
    """Leaves one folder: the earlier one takes its place again where no other did."""
    if earlier.exists() and not folder.exists():
        earlier.rename(folder)
    for left in (building, earlier):
        if left.exists():
            shutil.rmtree(left)


def write_sums(folder: Path) -> int:
    """Writes the checksums of a folder's files; how many there are."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
        for path in sorted(folder.iterdir())
    ]
    (folder / SUMS).write_text("\n".join([*lines, ""]), encoding="utf-8")
    return len(lines)


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def _listed(folder: Path) -> set[str]:
    sums = folder / SUMS
    if not sums.is_file():
        return set()
    lines = sums.read_text(encoding="utf-8").splitlines()
    return {SUMS, *(line.partition("  ")[2] for line in lines)}
