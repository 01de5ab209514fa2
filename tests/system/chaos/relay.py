"""A relay before the router's socket for workers, whose connections a test can cut."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from pathlib import Path

__all__ = ["Relay"]


class Relay:
    """Takes the place of a Unix socket: what dials its path from now on is passed on to the old listener.

    Connections that exist stay as they are.

    Args:
        path: The socket.
    """

    def __init__(self, path: Path) -> None:
        self._behind = path.with_suffix(".behind")
        os.rename(path, self._behind)
        self._lock = threading.Lock()
        self._pairs: dict[int, tuple[socket.socket, socket.socket]] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def has(self, pid: int) -> bool:
        """Whether a process is connected through it."""
        with self._lock:
            return pid in self._pairs

    def cut(self, pid: int) -> bool:
        """Cuts the connection of a process in the middle of whatever goes through it."""
        with self._lock:
            pair = self._pairs.pop(pid, None)
        for end in pair or ():
            _close(end)
        return pair is not None

    def close(self) -> None:
        """Takes no more connections, and cuts those there are."""
        _close(self._listener)
        for pid in list(self._pairs):
            self.cut(pid)

    def _accept(self) -> None:
        while True:
            try:
                worker, _ = self._listener.accept()
            except OSError:
                return
            credentials = worker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid = struct.unpack("3i", credentials)[0]
            router = socket.socket(socket.AF_UNIX)
            try:
                router.connect(str(self._behind))
            except OSError:
                _close(worker)
                continue
            with self._lock:
                self._pairs[pid] = (worker, router)
            for source, target in ((worker, router), (router, worker)):
                threading.Thread(target=_pass_on, args=(source, target), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        _close(end)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
