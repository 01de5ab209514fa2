"""The private folder of one worker's draft memory, locked against other workers."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spectrie.errors import ConfigError

__all__ = ["claimed"]

_PRIVATE_FOLDER = 0o700
_PRIVATE_FILE = 0o600


@contextmanager
def claimed(folder: Path | None) -> Iterator[None]:
    """Creates a folder readable by its owner only, and locks it against other processes.

    Two workers writing to one folder would overwrite each other's memory. The lock is on a file
    beside the folder and ends with the process, even by SIGKILL.

    Args:
        folder: The folder; None locks nothing.

    Raises:
        ConfigError: It cannot be created, or another process holds the lock.
    """
    if folder is None:
        yield
        return
    try:
        folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        lock = os.open(
            folder.with_name(f"{folder.name}.lock"), os.O_CREAT | os.O_RDWR, _PRIVATE_FILE
        )
    except OSError as error:
        raise ConfigError(f"--state-dir: cannot use {folder}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ConfigError(
            f"--state-dir: another worker uses {folder}: give each its own --worker-index"
        ) from error
    try:
        yield
    finally:
        os.close(lock)
