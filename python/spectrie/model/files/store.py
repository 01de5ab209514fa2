"""The folder of fetched and converted models; its entries appear atomically.

An entry is built in a sibling folder and renamed, under a lock per name. Readers see all of it or
nothing. An interrupted run leaves a hidden folder behind, which the next one removes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spectrie.errors import ModelError

__all__ = ["Report", "cache_folder", "check_space", "entry", "models_folder", "publish", "remove"]


Report = Callable[[str], None]
"""Receives one line of progress, such as `converting: 40 %`."""

_PARTIAL = ".partial-"


def cache_folder() -> Path:
    """Returns the folder for everything that can be fetched or computed again.

    `$SPECTRIE_CACHE`, else `$XDG_CACHE_HOME/spectrie`, else `~/.cache/spectrie`. It need not exist.

    Raises:
        ModelError: None of the variables nor HOME is set.
    """
    own = os.environ.get("SPECTRIE_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared:
        return Path(shared).expanduser().absolute() / "spectrie"
    home = os.environ.get("HOME")
    if not home:
        raise ModelError(
            "no cache folder: none of SPECTRIE_CACHE, XDG_CACHE_HOME and HOME is set; "
            "set SPECTRIE_CACHE to a writable folder"
        )
    return Path(home).absolute() / ".cache" / "spectrie"


def models_folder() -> Path:
    """Returns the folder with one subfolder per model. It need not exist."""
    return cache_folder() / "models"


def entry(name: str) -> Path:
    """Returns the folder of the model `name`, present or not."""
    return models_folder() / name


def check_space(folder: Path, needed_bytes: int) -> None:
    """Raises ModelError if the existing `folder` has less than `needed_bytes` of free disk space."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise ModelError(
            f"not enough disk space in {folder}: {needed_bytes / 1e6:.0f} MB needed, "
            f"{free / 1e6:.0f} MB free; free some, or set SPECTRIE_CACHE to another folder"
        )


def publish(
    name: str, is_current: Callable[[Path], bool], make: Callable[[Path], None], report: Report
) -> Path:
    """Returns the entry `name`, built by `make(folder)` unless `is_current(folder)` holds already.

    Waits while another process builds the same entry. `make` receives an empty folder, which becomes
    the entry when it returns, and is removed when it raises or is interrupted.

    Raises:
        ModelError: The folder cannot be written, or the disk is full.
    """
    final = entry(name)
    try:
        if is_current(final):
            return final
        with _lock(name, report):
            if is_current(final):
                return final
            _remove_leftovers(name)
            partial = final.parent / f"{_PARTIAL}{name}-{os.getpid()}"
            partial.mkdir()
            try:
                make(partial)
                _sync_files(partial)
                _replace(partial, final)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise _explained(error, final) from error
    return final


def remove(name: str, report: Report) -> bool:
    """Removes the entry `name`; returns False if there is none.

    Raises:
        ModelError: The folder cannot be written.
    """
    final = entry(name)
    try:
        if not final.is_dir():
            return False
        with _lock(name, report):
            _remove_leftovers(name)
            _remove_whole(final)
    except OSError as error:
        raise _explained(error, final) from error
    return True


@contextmanager
def _lock(name: str, report: Report) -> Iterator[None]:
    models_folder().mkdir(parents=True, exist_ok=True)
    path = models_folder() / f".{name}.lock"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another process that works on {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_leftovers(name: str) -> None:
    # Under the lock no other process can be writing them.
    for folder in models_folder().glob(f"{_PARTIAL}{name}-*"):
        if folder.name.removeprefix(f"{_PARTIAL}{name}-").isdigit():
            shutil.rmtree(folder)


def _remove_whole(folder: Path) -> None:
    # Renamed first, so that no reader finds half an entry under its name.
    name = f"{_PARTIAL}{folder.name}-0"
    folder.rename(folder.parent / name)
    shutil.rmtree(folder.parent / name)


def _replace(partial: Path, final: Path) -> None:
    if final.exists():
        _remove_whole(final)
    partial.rename(final)


def _sync_files(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _explained(error: OSError, final: Path) -> ModelError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ModelError(f"the disk of {final.parent} is full; nothing was kept")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOENT):
        return ModelError(
            f"cannot write {final.parent} ({error.strerror}); "
            "set SPECTRIE_CACHE to a writable folder"
        )
    return ModelError(f"cannot store {final.name} in {final.parent}: {error}")
