"""A folder for the sockets of one run, on a path that a socket's address can hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

__all__ = ["private_folder"]

_MAX_SOCKET_PATH_BYTES = 103
"""The longest path of a Unix socket that every system takes."""

_ROOM_BYTES = len("/spectrie-01234567/worker.sock")
"""What the longest name of a socket adds to the folder of temporary files."""

_SHORT = Path("/tmp")


def private_folder() -> tempfile.TemporaryDirectory[str]:
    """A new folder that only this user may enter, gone at its end.

    It is where temporary files are (`TMPDIR`), or in `/tmp` where a socket's path would be too long
    there.
    """
    parent = Path(tempfile.gettempdir())
    if len(bytes(parent.absolute())) + _ROOM_BYTES > _MAX_SOCKET_PATH_BYTES and _SHORT.is_dir():
        parent = _SHORT
    return tempfile.TemporaryDirectory(prefix="spectrie-", dir=parent)
