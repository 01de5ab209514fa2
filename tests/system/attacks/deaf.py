"""A client of HTTP/2 that asks, and takes nothing of the answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.router.floods import PREFACE, fields, frame, written

__all__ = ["deaf"]

_HEADERS, _SETTINGS, _PING = 1, 4, 6
_ACK, _END_STREAM, _END_HEADERS = 1, 1, 4
_NO_WINDOW = b"\0\4" + bytes(4)
"""The setting by which a peer may send nothing of a body."""
_EMPTY_MESSAGE = bytes(5)


@contextmanager
def deaf(
    address: str,
    path: str,
    dial: Callable[[socket.socket], socket.socket] = lambda connection: connection,
    get: bool = False,
) -> Iterator[None]:
    """Asks for `path` on a new connection, which it keeps alive as long as it is used.

    Args:
        address: `HOST:PORT`.
        path: A route, or a gRPC method whose request may be empty.
        dial: Puts TLS on the connection.
        get: Whether it is a route, not a method.
    """
    host, _, port = address.rpartition(":")
    connection = dial(socket.create_connection((host, int(port)), timeout=30))
    connection.sendall(PREFACE + frame(_SETTINGS, 0, 0, _NO_WINDOW))
    if get:
        asked = {":method": "GET", ":scheme": "https", ":path": path, ":authority": "localhost"}
        connection.sendall(frame(_HEADERS, _END_HEADERS | _END_STREAM, 1, written(asked)))
    else:
        connection.sendall(frame(_HEADERS, _END_HEADERS, 1, fields(path)))
        connection.sendall(frame(0, _END_STREAM, 1, _EMPTY_MESSAGE))
    living = threading.Thread(target=_live, args=(connection,), daemon=True)
    living.start()
    try:
        yield
    finally:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        living.join(30)
        connection.close()


def _live(connection: socket.socket) -> None:
    """Acknowledges settings and pings until the connection ends."""
    buffer = b""
    while True:
        try:
            received = connection.recv(1 << 16)
        except TimeoutError:
            continue
        except OSError:
            return
        if not received:
            return
        buffer += received
        while len(buffer) >= 9 and len(buffer) >= (end := 9 + int.from_bytes(buffer[:3], "big")):
            kind, flags, payload = buffer[3], buffer[4], buffer[9:end]
            buffer = buffer[end:]
            try:
                if kind == _SETTINGS and not flags & _ACK:
                    connection.sendall(frame(_SETTINGS, _ACK, 0, b""))
                if kind == _PING and not flags & _ACK:
                    connection.sendall(frame(_PING, _ACK, 0, payload))
            except OSError:
                return
