"""Trees of files as the layers of an image: what one has that another has not, packed the same way each time."""

from __future__ import annotations

import filecmp
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["apply_layer", "pack"]

_OWN_OF_EACH_START = ("dev", "proc", "run", "sys", "tmp")
"""Folders whose content a container gets when it starts; an image has them empty."""
_GONE = ".wh."
"""A file of this name and another's says that the other is gone."""


def pack(tree: Path, below: Path | None, to: IO[bytes], newest_s: int) -> int:
    """Writes what `tree` has and `below` has not, or has otherwise, as a tar archive; returns the number of entries.

    Files that are gone are named as OCI wants it. Equal trees give equal bytes: entries are sorted, owners have
    numbers only, and no entry is newer than `newest_s`.

    Args:
        tree: A folder.
        below: What lies below this layer; None if nothing.
        to: Gets the archive.
        newest_s: Seconds since 1970.
    """
    number = 0
    first_of: dict[tuple[int, int], str] = {}
    with tarfile.open(fileobj=to, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, is_gone in _changes(tree, below, newest_s):
            number += 1
            if is_gone:
                folder, _, last = name.rpartition("/")
                archive.addfile(tarfile.TarInfo(f"{folder}/{_GONE}{last}".lstrip("/")))
                continue
            _add(archive, tree / name, name, newest_s, first_of)
    return number


def apply_layer(layer: IO[bytes], tree: Path) -> None:
    """Unpacks a layer over what `tree` has already. Owners are kept, so root is needed for those of others."""
    with tarfile.open(fileobj=layer, mode="r|") as archive:
        for member in archive:
            folder, _, last = member.name.rpartition("/")
            if last.startswith(_GONE):
                _remove(tree / folder / last.removeprefix(_GONE))
                continue
            at = tree / member.name
            if at.is_symlink() or (at.exists() and not (at.is_dir() and member.isdir())):
                _remove(at)
            archive.extract(member, tree, numeric_owner=True, filter=_as_it_is)


def _as_it_is(member: tarfile.TarInfo, _: str) -> tarfile.TarInfo:
    """Everything of a layer of ours: links that lead outside are right once it is a root."""
    return member


def _changes(tree: Path, below: Path | None, newest_s: int) -> Iterator[tuple[str, bool]]:
    """Names that a layer has, in order, and whether it says that they are gone."""
    old = set(_names(below)) if below is not None else set()
    new = set(_names(tree))
    for name in sorted(old | new):
        if name not in new:
            # What lies in a folder goes with it, or with what takes its place.
            folder = os.path.dirname(name)
            # A folder that became a link is no folder of the new tree, nor is what lies below it.
            if not folder or (folder in new and stat.S_ISDIR((tree / folder).lstat().st_mode)):
                yield name, True
        elif below is None or name not in old or _differ(tree / name, below / name, newest_s):
            yield name, False


def _names(tree: Path) -> Iterator[str]:
    """What is in a tree, relative to it; folders before their content."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        if folder in _OWN_OF_EACH_START:
            continue
        with os.scandir(tree / folder) as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                yield name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)


def _differ(one: Path, other: Path, newest_s: int) -> bool:
    new, old = one.lstat(), other.lstat()
    if (new.st_mode, new.st_uid, new.st_gid) != (old.st_mode, old.st_uid, old.st_gid):
        return True
    if stat.S_ISLNK(new.st_mode):
        return os.readlink(one) != os.readlink(other)
    if not stat.S_ISREG(new.st_mode):
        return False
    if new.st_size != old.st_size:
        return True
    if new.st_mtime_ns == old.st_mtime_ns:
        return False
    if min(int(new.st_mtime), newest_s) != min(int(old.st_mtime), newest_s):
        return True
    return not filecmp.cmp(one, other, shallow=False)


def _add(
    archive: tarfile.TarFile,
    path: Path,
    name: str,
    newest_s: int,
    first_of: dict[tuple[int, int], str],
) -> None:
    found = path.lstat()
    entry = tarfile.TarInfo(name)
    entry.mode = stat.S_IMODE(found.st_mode)
    entry.uid, entry.gid = found.st_uid, found.st_gid
    entry.mtime = min(int(found.st_mtime), newest_s)
    if stat.S_ISDIR(found.st_mode):
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    elif stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(path)
        archive.addfile(entry)
    elif stat.S_ISREG(found.st_mode):
        same = first_of.setdefault((found.st_dev, found.st_ino), name)
        if same != name:
            entry.type, entry.linkname = tarfile.LNKTYPE, same
            archive.addfile(entry)
            return
        entry.size = found.st_size
        with path.open("rb") as content:
            archive.addfile(entry, content)
    else:
        raise ValueError(f"{path} is neither file, folder nor link; an image has no place for it")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
