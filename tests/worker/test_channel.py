"""How a worker dials by TLS."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from bench.router.certificates import Authority
from spectrie.worker.channel import router_channel
from spectrie.worker.config import LinkOptions
from tests.http.certificates import needs_openssl


@needs_openssl
def test_worker_trusts_its_authority_and_shows_its_own_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    served = authority.issue("router")
    own = authority.issue("worker")
    server = grpc.server(ThreadPoolExecutor(1))
    trusted = authority.cert.read_bytes()
    pair = (served.key.read_bytes(), served.cert.read_bytes())
    port = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([pair], trusted, require_client_auth=True)
    )
    server.start()
    target = f"127.0.0.1:{port}"
    try:
        options = LinkOptions(
            target, tls_ca=str(authority.cert), tls_cert=str(own.cert), tls_key=str(own.key)
        )
        with router_channel(options) as channel:
            grpc.channel_ready_future(channel).result(timeout=60)
        for stranger in (
            LinkOptions(target, tls_ca=str(authority.cert)),
            LinkOptions(target),
        ):
            with router_channel(stranger) as channel, pytest.raises(grpc.FutureTimeoutError):
                grpc.channel_ready_future(channel).result(timeout=2)
    finally:
        server.stop(None)


def test_socket_is_dialled_in_clear_and_missing_files_are_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    with router_channel(LinkOptions(f"unix:{tmp_path}/s", tls_ca=missing)):
        pass
    with pytest.raises(OSError, match=r"none\.pem"):
        router_channel(LinkOptions("localhost:1", tls_ca=missing))
