"""A relay of TCP connections that can be cut, as a network would."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import Self

__all__ = ["Cutting"]


class Cutting:
    """Passes connections to `target` on, until they are cut.

    Args:
        target: `HOST:PORT`.
        allowances: How many bytes of the target's answers the first connection passes on before it is cut,
            the second, and so on; connections after these are cut by `cut` alone.
    """

    def __init__(self, target: str, allowances: Sequence[int] = ()) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._lock = threading.Lock()
        self._allowances = list(allowances)
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.accepted = 0
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def cut(self) -> int:
        """Ends every connection; how many there were."""
        with self._lock:
            ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        return len(ends) // 2

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                with self._lock:
                    self._ends += [client, server]
                    self.accepted += 1
                    allowance = self._allowances.pop(0) if self._allowances else None
                for ends in ((client, server, None), (server, client, allowance)):
                    threading.Thread(target=_pass_on, args=ends, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        self.cut()


def _pass_on(source: socket.socket, target: socket.socket, allowance: int | None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536 if allowance is None else min(allowance, 65536)):
            target.sendall(data)
            if allowance is not None:
                allowance -= len(data)
                if allowance == 0:
                    break
    for end in (source, target) if allowance == 0 else (target,):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
