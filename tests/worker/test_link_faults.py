"""A link that meets a fault of its own worker dials again, or ends the process."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import spectrie.model
from spectrie._proto import worker_pb2
from spectrie.worker import process
from spectrie.worker.config import LinkOptions, WorkerOptions
from spectrie.worker.link import HEARTBEAT_S
from spectrie.worker.session import Session
from tests.waiting import wait_until
from tests.worker.linked import Gate, Worker
from tests.worker.scripted import WAIT_S, Hub


def failing(patch: pytest.MonkeyPatch, error: BaseException, times: int = 1) -> None:
    """Has sessions raise an error at so many messages that are no welcome."""
    receive, left = Session.receive, [error] * times

    def raising(session: Session, message: worker_pb2.RouterMessage) -> None:
        if left and not message.HasField("welcome"):
            raise left.pop()
        receive(session, message)

    patch.setattr(Session, "receive", raising)


def test_a_fault_at_a_message_ends_its_connection_and_the_worker_dials_again(
    worker: Worker, hub: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(worker)
    hub.next("hello")
    hub.start("lost", max_tokens=200)
    gate.let(1)
    hub.next("step_output")
    error = RuntimeError("a fault")
    failing(monkeypatch, error)
    hub.start("never")
    assert hub.connected.acquire(timeout=WAIT_S)
    gate.open()
    hub.next("hello")
    hub.start("next")
    assert [t for o in hub.outputs("next") for t in o.token_ids] == [4, 5, 6, 7, 8]
    load = worker.host.engine.load
    wait_until(lambda: not load().running, WAIT_S, lambda: "the lost request still runs")
    faults = [one for one in caplog.records if one.exc_info and one.exc_info[1] is error]
    assert [one.levelno for one in faults] == [logging.ERROR]
    assert worker.deaths == []


def test_pauses_grow_while_each_connection_ends_in_a_fault(
    folder: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(folder, hub.target, backoff_s=3.0, max_backoff_s=600.0)
    closing, pauses_s = worker.link._closing, list[float]()

    def wait(pause_s: float) -> bool:
        if pause_s != HEARTBEAT_S:
            pauses_s.append(pause_s)
        return threading.Event.wait(closing, 0.01)

    try:
        monkeypatch.setattr(closing, "wait", wait)
        failing(monkeypatch, RuntimeError("a fault"), times=3)
        for _ in range(3):
            assert hub.connected.acquire(timeout=WAIT_S)
            hub.send(drain=worker_pb2.Drain())
        assert hub.connected.acquire(timeout=WAIT_S)
        assert pauses_s == [3.0, 6.0, 12.0]
    finally:
        worker.close()


class Panic(BaseException):
    """As one of the core comes: no Exception."""


@pytest.mark.parametrize("part", ["receive", "beat"])
def test_a_link_that_dies_says_so(
    worker: Worker, hub: Hub, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def panic(*_: object) -> None:
        raise Panic

    monkeypatch.setattr(Session, part, panic)
    hub.start("never")
    wait_until(lambda: worker.deaths != [], WAIT_S, lambda: "the link is not known to be dead")
    assert isinstance(worker.deaths[0], Panic)


def test_a_worker_whose_link_dies_ends_with_an_error(
    folder: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def panic(*_: object) -> None:
        raise Panic

    resolved = SimpleNamespace(name="counting", folder=folder)
    monkeypatch.setattr(spectrie.model, "resolve", lambda *_: resolved)
    # The tests' own signals stay as they are.
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    # The runner that counts has none.
    monkeypatch.setattr(process, "_facts", lambda *_: {})
    monkeypatch.setattr(Session, "receive", panic)
    options = WorkerOptions(model="counting", link=LinkOptions(target=hub.target))
    assert process.run_worker(options) == process.EXIT_FAILURE
