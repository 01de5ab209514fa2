"""gRPC channel options, credentials and metadata of a client."""

from __future__ import annotations

import grpc

from spectrie.client.policy import ClientConfig

__all__ = ["channel_options", "credentials", "metadata"]


def channel_options(config: ClientConfig, target: str) -> list[tuple[str, int | str]]:
    """Keepalive, message sizes and reconnection.

    A ping after 30 s without data finds a dead peer during a long silence; servers accept pings
    at intervals of at least 10 s. A failed connection is retried within 5 s.
    """
    connect_ms = max(1, int(config.connect_timeout * 1000))
    options: list[tuple[str, int | str]] = [
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_send_message_length", config.max_message_bytes),
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.min_reconnect_backoff_ms", connect_ms),
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 5_000),
        ("grpc.use_local_subchannel_pool", 1),
        # The environment's proxy is for other machines.
        ("grpc.enable_http_proxy", 0 if _is_local(target) else 1),
        # Retries are ours: they know whether a token has been handed out.
        ("grpc.enable_retries", 0),
    ]
    if target.startswith("unix:"):
        # grpc would send the escaped path, which HTTP/2 servers in Rust refuse as no authority.
        options.append(("grpc.default_authority", "localhost"))
    return options


def _is_local(target: str) -> bool:
    host = target.rpartition(":")[0]
    return target.startswith("unix:") or host in ("localhost", "[::1]") or host.startswith("127.")


def credentials(config: ClientConfig) -> grpc.ChannelCredentials | None:
    """TLS credentials, or None for a plain channel."""
    if not config.tls:
        return None
    return grpc.ssl_channel_credentials(
        root_certificates=config.root_certificates,
        private_key=config.private_key,
        certificate_chain=config.certificate_chain,
    )


def metadata(config: ClientConfig) -> tuple[tuple[str, str], ...]:
    """Metadata of every call."""
    return (("authorization", f"Bearer {config.api_key}"),) if config.api_key else ()
