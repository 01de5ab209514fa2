"""Clients that ask and read nothing, on connections that stay alive."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import httpx
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from bench.router.certificates import Authority
from tests.http.certificates import needs_openssl
from tests.http.memory import memory_bytes
from tests.http.scripted_worker import ScriptedWorker
from tests.http.server import router
from tests.http.test_keys import entry
from tests.system.attacks.deaf import deaf
from tests.waiting import wait_until

NUM_CONNECTIONS = 8
"""As many as the router may have."""
LIMIT = ("--max-connections", str(NUM_CONNECTIONS))
NUM_WATCHES = 3_000
MAX_WATCHES_BYTES = 8 << 20
"""What they may take; without a bound they took 5.4 KB each, and this process as many more as it liked."""


def test_connections_that_read_nothing_make_room(tmp_path: Path) -> None:
    with router(tmp_path, *LIMIT) as facts, ScriptedWorker(facts["worker"]), ExitStack() as held:
        for _ in range(NUM_CONNECTIONS):
            held.enter_context(deaf(facts["grpc"], "/spectrie.v1.Inference/ListModels"))
        url = f"http://{facts['http']}"
        for _ in range(NUM_CONNECTIONS):
            wait_until(
                lambda: httpx.get(f"{url}/v1/models", timeout=30).status_code == 200,
                30.0,
                lambda: "every place is held by who reads nothing",
            )


@needs_openssl
def test_a_client_without_a_key_holds_no_place(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("router")
    keys = tmp_path / "keys.toml"
    keys.write_text(entry("sesame", "ann"))
    options = ["--tls-cert", str(issued.cert), "--tls-key", str(issued.key)]
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    anyone.set_alpn_protocols(["h2"])
    with (
        router(tmp_path, *options, "--api-keys", str(keys), *LIMIT) as facts,
        ScriptedWorker(facts["worker"]),
        ExitStack() as held,
    ):
        for _ in range(NUM_CONNECTIONS):
            held.enter_context(deaf(facts["http"], "/v1/models", anyone.wrap_socket, get=True))
        for _ in range(NUM_CONNECTIONS):
            key = {"authorization": "Bearer sesame"}
            url = f"https://{facts['http']}/v1/models"
            assert httpx.get(url, verify=False, headers=key, timeout=30).status_code == 200


@pytest.fixture
def watching() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.skipif(sys.platform != "linux", reason="memory by /proc")
def test_health_can_be_watched_by_many_and_not_without_bound(
    tmp_path: Path, watching: ExitStack
) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text(entry("sesame", "ann"))
    with router(tmp_path, "--api-keys", str(keys)) as facts:
        first = memory_bytes(int(facts["pid"]))
        one = watching.enter_context(grpc.insecure_channel(facts["grpc"]))
        calls = [HealthStub(one).Watch(HealthCheckRequest()) for _ in range(NUM_WATCHES)]
        answers = [_answer(call) for call in calls]
        assert set(answers) == {HealthCheckResponse.SERVING, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert memory_bytes(int(facts["pid"])) - first < MAX_WATCHES_BYTES
        # Another connection has room whatever this one holds.
        own = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(facts["grpc"], options=own) as other:
            call = HealthStub(other).Watch(HealthCheckRequest())
            assert _answer(call) == HealthCheckResponse.SERVING
            call.cancel()


def _answer(call: Iterator[HealthCheckResponse]) -> object:
    """The state that a watch begins with, or the code with which it is refused."""
    try:
        return next(call).status
    except grpc.RpcError as error:
        return error.code()
