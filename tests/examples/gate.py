"""A way to a server that is held still after a number of bytes, so that an answer is surely in its middle."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

__all__ = ["Gate"]

HELD_S = 60.0


class Gate:
    """Passes connections on to whichever server is behind it; refuses them while none is.

    Attributes:
        address: Where clients connect.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._target: tuple[str, int] | None = None
        self._left: int | None = None
        self._ends: list[socket.socket] = []
        self._relays: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def lead_to(self, target: str | None, *, hold_after: int | None = None) -> None:
        """Ends every connection; those from now on lead to `HOST:PORT`, or nowhere.

        Args:
            target: The server; None for nowhere.
            hold_after: As of `hold_after`; None to pass everything on.
        """
        host, _, port = (target or ":0").rpartition(":")
        with self._changed:
            ends, self._ends = self._ends, []
            self._target = (host, int(port)) if target else None
        # Ended before anything may pass again: what was held never arrives.
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._changed:
            self._left = hold_after
            self._changed.notify_all()

    def hold_after(self, num_bytes: int) -> None:
        """Passes so many bytes of the server's answers on, and then none."""
        with self._changed:
            self._left = num_bytes

    def wait_held(self) -> None:
        """Waits until the last of these bytes has been passed on."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._left == 0, HELD_S)

    def open(self) -> None:
        """Passes everything on again."""
        with self._changed:
            self._left = None
            self._changed.notify_all()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._changed:
                    target = self._target
                try:
                    server = socket.create_connection(target) if target else None
                except OSError:
                    server = None
                if server is None:
                    client.close()
                    continue
                relay = threading.Thread(target=self._relay, args=(client, server), daemon=True)
                with self._changed:
                    self._ends += [client, server]
                    self._relays.append(relay)
                relay.start()

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        """Passes a connection on in both directions, until both have ended."""
        with client, server:
            asking = threading.Thread(
                target=self._pass_on, args=(client, server, False), daemon=True
            )
            asking.start()
            self._pass_on(server, client, True)
            asking.join()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                while data:
                    num_bytes = self._allowed(len(data)) if is_answer else len(data)
                    target.sendall(data[:num_bytes])
                    data = data[num_bytes:]
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _allowed(self, wanted: int) -> int:
        """Waits until a byte may pass; how many of those wanted may."""
        with self._changed:
            self._changed.wait_for(lambda: self._left != 0)
            if self._left is None:
                return wanted
            num_bytes = min(wanted, self._left)
            self._left -= num_bytes
            self._changed.notify_all()
            return num_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        self.lead_to(None)
        for relay in self._relays:
            relay.join(HELD_S)
