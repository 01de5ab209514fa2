"""The channel by which a worker dials its router."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc

from spectrie.worker.config import LinkOptions

__all__ = ["CHANNEL_OPTIONS", "router_channel"]

# grpc-core ignores keys it does not know: tests/worker/test_link.py looks each up in its library.
CHANNEL_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_send_message_length", 16 << 20),
    # The loop below is the one that backs off; a channel left to itself waits up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.min_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),
]
# For a socket's path grpc would send the path, escaped, which the router's HTTP/2 refuses.
_PLAIN_OPTIONS = [*CHANNEL_OPTIONS, ("grpc.default_authority", "localhost")]


def router_channel(options: LinkOptions) -> grpc.Channel:
    """A channel to the router of `options`, by TLS where it names an authority and a TCP address.

    Certificates are read anew for each channel, so that renewed ones are in use after a dial.

    Raises:
        OSError: A file of `options` cannot be read.
    """
    if options.tls_ca is None or options.target.startswith("unix:"):
        return grpc.insecure_channel(options.target, options=_PLAIN_OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=Path(options.tls_ca).read_bytes(),
        private_key=_read(options.tls_key),
        certificate_chain=_read(options.tls_cert),
    )
    return grpc.secure_channel(options.target, credentials, options=CHANNEL_OPTIONS)


def _read(path: str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()
