"""Workers of several ranks, with real processes: their tokens, and what is left when one ends."""

from __future__ import annotations

import os
import signal
import socket
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from spectrie.client import Client
from tests.cores import require_cores
from tests.model.ranks import follower_ids
from tests.system.interruption import assert_goes_on
from tests.system.server import Program, gone, serve

WAYS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.9, "seed": 5, "top_p": 0.9, "logprobs": 2},
]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where processes put temporary files, for tests with two ranks."""
    require_cores(2)
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def answers(client: Client) -> list[Any]:
    """What the ways give, the prompt twice so that drafts come from the first."""
    found = []
    for way in WAYS * 2:
        answer = client.generate("def print the class", max_tokens=40, ignore_eos=True, **way)
        found.append((answer.token_ids, answer.text, answer.logprobs))
    return found


def rank_of(program: Program, worker: int) -> int:
    """The process of a worker's rank 1."""
    found = follower_ids(worker)
    assert len(found) == 1, program.output
    return found[0]


def assert_serving(facts: dict[str, Any]) -> None:
    """Asks for health and metrics."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{facts['http']}/readyz", timeout=10) as reply:
        assert reply.status == 200
    with opener.open(f"http://{facts['http']}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    for name in ("up", "exact"):
        (value,) = [line for line in lines if line.startswith(f"spectrie_worker_{name}{{")]
        assert float(value.rpartition(" ")[2]) == 1.0
    with grpc.insecure_channel(facts["grpc"]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        reply = stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
        assert reply.status == health_pb2.HealthCheckResponse.SERVING


def assert_free(address: str) -> None:
    """Binds an address that a server had."""
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port))):
        pass


def test_two_ranks_serve_what_one_does_and_come_back_when_one_is_lost(
    long: Path, scratch: Path
) -> None:
    with serve(long) as program:
        alone = program.wait_ready()
        with Client(alone["grpc"]) as client:
            expected = answers(client)
        program.signal(signal.SIGTERM)
        assert program.wait() == 0
    with serve(long, "--tensor-parallel=2") as program:
        facts = program.wait_ready()
        (worker,) = facts["workers"]
        assert worker["ranks"] == 2
        assert worker["numeric_fingerprint"] == alone["workers"][0]["numeric_fingerprint"]
        assert "1, 2 processes of 1 threads each" in program.output
        assert_serving(facts)
        rank = rank_of(program, worker["pid"])
        with Client(facts["grpc"], max_retries=0, timeout=60) as client:
            assert answers(client) == expected
            assert_goes_on(client, rank)
            assert gone(worker["pid"])
            program.wait_line(f"rank 1 (process {rank}) ended with exit code -9")
            program.wait_line("restarting it")
            assert answers(client) == expected
        program.signal(signal.SIGTERM)
        assert program.wait() == 0
    for name in ("http", "grpc"):
        assert_free(facts[name])
    assert list(scratch.iterdir()) == []


def test_a_rank_that_is_lost_while_nobody_asks_ends_its_worker(
    tiny: Path, scratch: Path, tmp_path: Path
) -> None:
    listen = f"unix:{tmp_path}/worker.sock"
    router = ("router", "--http=off", "--grpc=127.0.0.1:0", f"--worker-listen={listen}")
    flags = ("--tensor-parallel=2", "--threads=1", "--dtype=float32", "--bigrams=off")
    with (
        Program(*router) as running,
        Program("worker", str(tiny), f"--router={listen}", *flags) as one,
    ):
        running.wait_ready()
        rank = rank_of(one, one.wait_ready()["pid"])
        os.kill(rank, signal.SIGKILL)
        assert one.wait() == 1
        one.wait_line(f"rank 1 (process {rank}) ended with exit code -9")
    assert list(scratch.glob("spectrie-ranks-*")) == []


def test_ranks_of_a_killed_server_end_too(tiny: Path, scratch: Path) -> None:
    with serve(tiny, "--tensor-parallel=2") as program:
        worker = program.wait_ready()["workers"][0]["pid"]
        rank = rank_of(program, worker)
        program.process.kill()
        assert gone(worker)
        assert gone(rank)
    assert list(scratch.glob("spectrie-ranks-*")) == []
