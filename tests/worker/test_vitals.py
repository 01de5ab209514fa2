"""What a worker says of its progress, and how its health follows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from spectrie.supervise.pulse import Pulse
from spectrie.supervise.stall import LOADING_S
from spectrie.worker import vitals
from spectrie.worker.health import HealthServer
from spectrie.worker.vitals import Vitals
from tests.waiting import wait_until
from tests.worker.linked import Gate, Worker
from tests.worker.scripted import WAIT_S, Hub


class Watched:
    """A worker's vitals, without a process around them."""

    def __init__(self, stall_timeout_s: float) -> None:
        self.pulses: list[Pulse] = []
        self.health: list[bool] = []
        self.vitals = Vitals(self.pulses.append, stall_timeout_s, self.health.append)


@pytest.fixture
def watch() -> Iterator[Callable[[float], Watched]]:
    """Begins vitals, which end with the test."""
    begun: list[Watched] = []

    def begin(stall_timeout_s: float) -> Watched:
        begun.append(Watched(stall_timeout_s))
        return begun[-1]

    yield begin
    for one in begun:
        one.vitals.close()


def host(**load: Any) -> Any:
    """What stands in for an engine's host."""
    values = {"running": 0, "waiting": 0, "longest_step_ms": 0.0, **load}

    def load_of(*, memory: bool = True) -> SimpleNamespace:
        assert not memory, "counts all of draft memory four times a second"
        return SimpleNamespace(**values)

    return SimpleNamespace(engine=SimpleNamespace(load=load_of), steps=7, busy=False)


def test_loading_moves_with_its_lines_and_with_what_it_computes(
    watch: Callable[[float], Watched],
) -> None:
    watched = watch(10.0)
    first = watched.vitals.pulse()
    assert (first.pending, first.patience_s) == (True, LOADING_S)
    watched.vitals.note_loading()
    assert watched.vitals.pulse().progress > first.progress
    second = watched.vitals.pulse()
    began_s = time.process_time()
    while time.process_time() - began_s < 1.0 / vitals._LOADED_PER_S:
        pass
    assert watched.vitals.pulse().progress > second.progress
    assert watched.health == []


@pytest.mark.parametrize(
    ("load", "pending"), [({}, False), ({"running": 1}, True), ({"waiting": 1}, True)]
)
def test_work_is_pending_while_a_request_runs_or_waits(
    load: dict[str, int], pending: bool, watch: Callable[[float], Watched]
) -> None:
    watched = watch(10.0)
    watched.vitals.serve(host(**load, longest_step_ms=4000.0))
    assert watched.vitals.pulse() == Pulse(7, pending, patience_s=20.0)
    watched.vitals.stop()
    assert watched.vitals.pulse() == Pulse(7, pending=True, patience_s=vitals.STOPPING_S)


def test_health_follows_the_steps(worker: Worker, hub: Hub) -> None:
    server = HealthServer("127.0.0.1:0")
    gate = Gate(worker)
    try:
        with grpc.insecure_channel(server.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)

            def serves() -> bool:
                reply = stub.Check(health_pb2.HealthCheckRequest(), timeout=WAIT_S)
                return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)

            sent: list[Pulse] = []
            with closing(Vitals(sent.append, 0.5, server.set_serving)) as watched:
                assert not serves()
                watched.serve(worker.host)
                assert serves()
                hub.start("r", max_tokens=2)
                wait_until(lambda: not serves(), WAIT_S, lambda: "a stalled worker serves")
                assert sent[-1].pending
                gate.open()
                hub.outputs("r")
                wait_until(serves, WAIT_S, lambda: "a worker that goes on does not serve")
    finally:
        server.close()
