"""Floods of frames and of half bodies, without a key: what the router takes in memory for them is bounded."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest

from bench.router.floods import FLOODS, OPENING
from spectrie._proto import inference_pb2 as pb
from spectrie._proto.inference_pb2_grpc import InferenceStub
from tests.http.memory import memory_bytes
from tests.http.scripted_worker import MODEL, ScriptedWorker
from tests.http.server import router
from tests.http.test_keys import entry
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory by /proc")

MAX_GROWTH = 64 << 20
"""Bytes that the router may take for a flood; each flood sends more."""
NUM_CONNECTIONS = 24
FLOOD_BYTES = 4 << 20
"""Of one connection."""
STALL_S = 0.5
"""A server that reads no more for so long has had enough."""


def rounds(one: Callable[[int], bytes]) -> bytes:
    """What a connection sends: as many rounds as make a flood."""
    parts, length, number = [OPENING], 0, 0
    while length < FLOOD_BYTES:
        parts.append(one(number))
        length += len(parts[-1])
        number += 1
    return b"".join(parts)


def half_body() -> bytes:
    """A request with most of its body."""
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return (head + f"content-length: {FLOOD_BYTES + 1}\r\n\r\n").encode() + b" " * FLOOD_BYTES


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A router with keys and a worker, warm: it has answered over both APIs."""
    folder = tmp_path_factory.mktemp("floods")
    keys = folder / "keys.toml"
    keys.write_text(entry("sesame", "ann"))
    with router(folder, "--api-keys", str(keys)) as facts, ScriptedWorker(facts["worker"]):
        url = f"http://{facts['http']}/readyz"
        wait_until(lambda: httpx.get(url, timeout=30).status_code == 200, 60.0, lambda: "no worker")
        assert_serves(facts)
        yield facts


def assert_serves(facts: dict[str, str]) -> None:
    """A client with a key gets its answer, and probes theirs."""
    assert httpx.get(f"http://{facts['http']}/healthz", timeout=60).status_code == 200
    with grpc.insecure_channel(facts["grpc"]) as channel:
        request = pb.GenerateRequest(text="hello", model=MODEL, stopping=pb.Stopping(max_tokens=8))
        key = (("authorization", "Bearer sesame"),)
        assert InferenceStub(channel).Generate(request, timeout=60, metadata=key).choices


def flood(address: str, sent: bytes) -> socket.socket:
    """Sends until all was taken, or nothing more is, and reads nothing; gives the open connection."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.settimeout(STALL_S)
    try:
        connection.sendall(sent)
    except OSError:
        pass
    return connection


def assert_bounded(facts: dict[str, str], address: str, sent: bytes) -> None:
    """The router's memory grows by no more than the bound, and it serves on."""
    pid = int(facts["pid"])
    # The most that it ever had is from now on the most since now.
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    before = memory_bytes(pid)
    with ThreadPoolExecutor(NUM_CONNECTIONS) as pool:
        open_connections = list(
            pool.map(flood, [address] * NUM_CONNECTIONS, [sent] * NUM_CONNECTIONS)
        )
    try:
        assert_serves(facts)
        assert memory_bytes(pid, "VmHWM") - before < MAX_GROWTH
    finally:
        for connection in open_connections:
            connection.close()


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_flood_of_frames_takes_bounded_memory(
    guarded: dict[str, str], flood: Callable[[int], bytes]
) -> None:
    assert NUM_CONNECTIONS * FLOOD_BYTES > MAX_GROWTH
    assert_bounded(guarded, guarded["grpc"], rounds(flood))


def test_half_bodies_without_a_key_take_bounded_memory(guarded: dict[str, str]) -> None:
    assert_bounded(guarded, guarded["http"], half_body())
