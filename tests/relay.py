"""Ways to a server that a test can hold still, or cut, after a number of bytes, as a network would."""

from __future__ import annotations

import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

__all__ = ["Cutting", "Gate"]

HELD_S = 60.0


class _Relay(ABC):
    """Passes connections on to a server.

    Attributes:
        address: Where clients connect.
        accepted: Connections so far that reached the server.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._target: tuple[str, int] | None = None
        self._ends: list[socket.socket] = []
        self._relays: list[threading.Thread] = []
        self.accepted = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @abstractmethod
    def _allowed(self, connection: int, wanted: int) -> int:
        """How many of `wanted` bytes of answers may pass on this connection, counted from 0; 0 ends it.

        May wait.
        """

    def _lead_to(self, target: str | None) -> None:
        """Ends every connection; those from now on lead to `HOST:PORT`, or nowhere."""
        host, _, port = (target or ":0").rpartition(":")
        with self._changed:
            ends, self._ends = self._ends, []
            self._target = (host, int(port)) if target else None
        for end in ends:
            _shut(end)

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
                with self._changed:
                    self._ends += [client, server]
                    ends = (client, server, self.accepted)
                    self.accepted += 1
                    relay = threading.Thread(target=self._relay, args=ends, daemon=True)
                    self._relays.append(relay)
                relay.start()

    def _relay(self, client: socket.socket, server: socket.socket, connection: int) -> None:
        """Passes a connection on in both directions, until both have ended."""
        with client, server:
            asking = threading.Thread(
                target=self._pass_on, args=(client, server, None), daemon=True
            )
            asking.start()
            self._pass_on(server, client, connection)
            asking.join()

    def _pass_on(
        self, source: socket.socket, target: socket.socket, answers_of: int | None
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                while data:
                    num_bytes = len(data)
                    if answers_of is not None:
                        num_bytes = self._allowed(answers_of, num_bytes)
                        if num_bytes == 0:
                            raise ConnectionAbortedError
                    target.sendall(data[:num_bytes])
                    data = data[num_bytes:]
        _shut(source)
        _shut(target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        self._close()
        for relay in self._relays:
            relay.join(HELD_S)

    def _close(self) -> None:
        self._lead_to(None)


class Gate(_Relay):
    """Passes connections on to whichever server is behind it; refuses them while none is."""

    def __init__(self) -> None:
        self._left: int | None = None
        super().__init__()

    def lead_to(self, target: str | None, *, hold_after: int | None = None) -> None:
        """Ends every connection; those from now on lead to `HOST:PORT`, or nowhere.

        Args:
            target: The server; None for nowhere.
            hold_after: As of `hold_after`; None to pass everything on.
        """
        self._lead_to(target)
        # Ended before anything may pass again: what was held never arrives.
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

    def _allowed(self, connection: int, wanted: int) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._left != 0)
            if self._left is None:
                return wanted
            num_bytes = min(wanted, self._left)
            self._left -= num_bytes
            self._changed.notify_all()
            return num_bytes

    def _close(self) -> None:
        self.lead_to(None)


class Cutting(_Relay):
    """Cuts each connection to `target` after a number of bytes of its answers.

    Args:
        target: `HOST:PORT`.
        allowances: How many bytes the first connection passes on before it is cut, the second, and so on;
            connections after these stay.
    """

    def __init__(self, target: str, allowances: Sequence[int]) -> None:
        self._allowances = list(allowances)
        super().__init__()
        self._lead_to(target)

    def _allowed(self, connection: int, wanted: int) -> int:
        if connection >= len(self._allowances):
            return wanted
        num_bytes = min(wanted, self._allowances[connection])
        self._allowances[connection] -= num_bytes
        return num_bytes


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
