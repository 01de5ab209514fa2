"""Workers that die, hang, drain and are cut off never cost a stream: the same tokens, only later."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spectrie.client import AdminClient, Client
from spectrie.errors import InvalidArgument
from tests.system.chaos.faults import KINDS, Faults
from tests.system.chaos.poisoned import MODULE, POISON_IDS
from tests.system.chaos.processes import num_descriptors, resident_bytes, router_pid
from tests.system.chaos.relay import Relay
from tests.system.chaos.traffic import NUM_STREAMS, Traffic, asks, reference
from tests.system.server import Program
from tests.tiny_model import write_tiny_model
from tests.waiting import wait_until

MEMORY_BYTES = 16 << 20
MORE_ROUTER_BYTES = 96 << 20
"""What the router's memory may grow by: far less than if it kept what it sent."""
SETTLED_S = 120.0


@pytest.fixture(scope="module")
def real() -> Path:
    """The real model's folder."""
    from spectrie.model import resolve

    return resolve("smollm2-135m").folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that starts fast."""
    return write_tiny_model(tmp_path_factory.mktemp("chaos") / "tiny", max_context=2048)


def serve(model: Path, folder: Path, workers: int, **options: Any) -> Program:
    """A server whose workers count as stalled after four seconds."""
    return Program(
        "serve",
        str(model),
        "--http=127.0.0.1:0",
        "--grpc=127.0.0.1:0",
        f"--worker-listen=unix:{folder}/worker.sock",
        f"--workers={workers}",
        "--dtype=float32",
        "--threads=1",
        "--max-context=1024",
        "--kv-memory=256MiB",
        f"--memory={MEMORY_BYTES}",
        "--bigrams=off",
        "--worker-stall-timeout=4s",
        **options,
    )


def disturb(model: Path, folder: Path, workers: int, num: int, max_tokens: int) -> Counter[str]:
    """Strikes a server so many times while sixteen streams ask it, and checks that nobody noticed."""
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"{model.name}, {workers} workers, seed {seed}", flush=True)
    with serve(model, folder, workers) as program:
        facts = program.wait_ready()
        relay = Relay(folder / "worker.sock")
        with (
            Client(facts["grpc"], max_retries=0) as client,
            AdminClient(facts["admin"]) as admin,
        ):
            try:
                counts = _disturb(program, relay, client, admin, (seed, workers, num, max_tokens))
            finally:
                relay.close()
    return counts


def _disturb(
    program: Program,
    relay: Relay,
    client: Client,
    admin: AdminClient,
    plan: tuple[int, int, int, int],
) -> Counter[str]:
    seed, workers, num, max_tokens = plan
    asked = asks(max_tokens)
    expected = reference(client, asked)
    router = router_pid(program)
    # Workers that dial again come through the relay.
    for worker in admin.loads():
        admin.drain(worker.worker, grace_s=0.0)
    settled(admin, workers, program)
    before = [num_descriptors(pid) for pid in (router, program.process.pid)]
    router_bytes = resident_bytes(router)
    traffic = Traffic(client, asked, expected)
    faults = Faults(admin, relay, traffic, workers, seed)
    try:
        faults.strike(num)
    finally:
        traffic.end()
    print(f"{dict(faults.counts)}, {traffic.num_answers} answers", flush=True)
    assert traffic.failures == [], program.output
    assert traffic.num_answers >= NUM_STREAMS
    settled(admin, workers, program)
    assert [one.pages_used for one in admin.loads()] == [0] * workers
    assert all(one.memory_bytes <= MEMORY_BYTES for one in admin.stats())
    assert resident_bytes(router) - router_bytes < MORE_ROUTER_BYTES

    def now() -> list[int]:
        return [num_descriptors(pid) for pid in (router, program.process.pid)]

    wait_until(lambda: now() <= before, SETTLED_S, lambda: f"{now()} files, {before} before")
    return faults.counts


def settled(admin: AdminClient, workers: int, program: Program) -> None:
    """Waits until all workers are there, and none has anything to do."""

    def is_settled() -> bool:
        loads = admin.loads()
        idle = [one for one in loads if not (one.choices or one.pages_used or one.is_draining)]
        return len(loads) == len(idle) == workers

    wait_until(is_settled, SETTLED_S, lambda: f"{admin.loads()}\n{program.output}")
    # A drained worker has left the router before its process has ended.
    time.sleep(1.0)


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Makes a new short folder, for sockets."""

    def make() -> Path:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        return folder

    yield make


@pytest.mark.timeout(1200)
def test_no_fault_of_a_worker_costs_a_stream(
    real: Path, tiny: Path, folders: Callable[[], Path]
) -> None:
    counts = disturb(real, folders(), workers=3, num=16, max_tokens=48)
    counts += disturb(real, folders(), workers=1, num=4, max_tokens=32)
    print(f"faults that hit a stream with tokens: {dict(counts)}", flush=True)
    assert counts.total() >= 20
    assert all(counts[kind] >= 2 for kind in KINDS)
    # Its workers come back sooner, and are struck closer together.
    disturb(tiny, folders(), workers=3, num=4, max_tokens=400)


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_no_fault_of_a_worker_costs_a_stream_in_half_an_hour(
    real: Path, tiny: Path, folders: Callable[[], Path]
) -> None:
    counts = disturb(real, folders(), workers=3, num=150, max_tokens=64)
    counts += disturb(real, folders(), workers=1, num=50, max_tokens=48)
    print(f"faults that hit a stream with tokens: {dict(counts)}", flush=True)
    assert counts.total() >= 200
    assert all(counts[kind] >= 2 for kind in KINDS)
    disturb(tiny, folders(), workers=3, num=40, max_tokens=600)


@pytest.mark.timeout(600)
def test_a_poison_request_among_fifteen_others_fails_alone(
    tiny: Path, folders: Callable[[], Path]
) -> None:
    asked = asks(600)[1:]
    with serve(tiny, folders(), 2, module=MODULE) as program:
        facts = program.wait_ready()
        with (
            Client(facts["grpc"], max_retries=0) as client,
            AdminClient(facts["admin"]) as admin,
        ):
            traffic = Traffic(client, asked, reference(client, asked))
            try:
                wait_until(lambda: len(traffic.running()) > 8, 60.0, lambda: program.output)
                with pytest.raises(InvalidArgument):
                    client.generate(prompt_token_ids=POISON_IDS, max_tokens=8, timeout=150.0)
            finally:
                traffic.end()
            assert traffic.failures == [], program.output
            # It was tried often enough to be sure, and not again and again.
            wait_until(
                lambda: program.output.count("signal SIGKILL") >= 2, 60.0, lambda: program.output
            )
            assert program.output.count("signal SIGKILL") <= 3
            settled(admin, 2, program)
            with pytest.raises(InvalidArgument):
                client.generate(prompt_token_ids=POISON_IDS, max_tokens=8, timeout=150.0)
            assert program.output.count("signal SIGKILL") <= 3
