"""Requests whose grammar is still to be compiled: who waits for it, for how long, and who does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from spectrie import _core
from spectrie._proto import worker_pb2
from tests.tiny_model import write_tiny_tokenizer
from tests.worker.linked import Gate, Worker
from tests.worker.scripted import WAIT_S, Hub


class SlowGrammars:
    """Compiles nothing, as slowly as a test wants; knows what it compiled."""

    def __init__(
        self, num_permits: int = 0, known: Mapping[str, _core.Grammar] | None = None
    ) -> None:
        self.permits = threading.Semaphore(num_permits)
        self.began = threading.Semaphore(0)
        self.compiled: list[tuple[str, str | list[str] | None]] = []
        self.limits: list[float | None] = []
        self._known = known or {}

    def cached(self, kind: str, text: str | list[str] | None) -> _core.Grammar | None:
        return self._known.get(text) if isinstance(text, str) else None

    def compile(
        self, kind: str, text: str | list[str] | None, timeout_s: float | None = None
    ) -> None:
        self.compiled.append((kind, text))
        self.limits.append(timeout_s)
        self.began.release()
        assert self.permits.acquire(timeout=WAIT_S)
        if text == "(a":
            raise _core.EngineError("regex cannot be used: unclosed group")
        if text == "endless":
            raise TimeoutError("regex was not compiled in time")
        if text == "fault":
            raise RuntimeError("nobody foresaw it")


def test_nobody_waits_for_a_grammar_and_its_request_can_be_cancelled(
    worker: Worker, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammars = SlowGrammars()
    monkeypatch.setattr(worker.host, "grammars", grammars)
    choice = worker_pb2.Structured(choice=worker_pb2.Choices(texts=["a", "b"]))
    hub.start("left", structured=choice)
    hub.start("quick")
    assert hub.outputs("quick")[-1].finish == worker_pb2.FINISH_LENGTH
    # Cancelled before, it would not be compiled.
    assert grammars.began.acquire(timeout=WAIT_S)
    hub.send(cancel=worker_pb2.Cancel(request_id="left"))
    hub.start("after")
    assert hub.outputs("after")[-1].finish == worker_pb2.FINISH_LENGTH
    grammars.permits.release(2)
    (output,) = hub.outputs("left")
    assert output.finish == worker_pb2.FINISH_CANCELLED
    hub.start("held", structured=worker_pb2.Structured(json_object=True))
    assert hub.outputs("held")[-1].finish == worker_pb2.FINISH_LENGTH
    assert grammars.compiled == [
        ("choice", ["a", "b"]),
        ("json_object", None),
    ]


def test_a_known_grammar_and_another_tenants_pass_fifty_slow_ones(
    worker: Worker, hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tokenizer = _core.Tokenizer.from_folder(str(write_tiny_tokenizer(tmp_path / "tiny")))
    known = _core.GrammarCompiler(tokenizer, [2]).compile("regex", "[a-z ]*")
    grammars = SlowGrammars(known={"known": known})
    monkeypatch.setattr(worker.host, "grammars", grammars)

    def start(name: str, tenant: str, regex: str) -> None:
        hub.start(name, tenant=tenant, structured=worker_pb2.Structured(regex=regex))

    for index in range(50):
        start(f"slow-{index}", "slow", f"slow-{index}")
    for _ in range(4):
        assert grammars.began.acquire(timeout=WAIT_S)
    start("known", "slow", "known")
    assert hub.outputs("known")[-1].finish != worker_pb2.FINISH_NONE
    start("other", "other", "other")
    hub.send(cancel=worker_pb2.Cancel(request_id="slow-4"))
    hub.start("fence")
    hub.outputs("fence")
    assert len(grammars.compiled) == 4
    grammars.permits.release()
    assert grammars.began.acquire(timeout=WAIT_S)
    assert grammars.compiled[4:] == [("regex", "other")]
    grammars.permits.release(1000)
    assert hub.outputs("slow-49")[-1].finish == worker_pb2.FINISH_LENGTH
    # Those before it have left the line, but another thread may be about to begin one.
    for _ in range(45):
        assert grammars.began.acquire(timeout=WAIT_S)
    # One was cancelled in line: nobody waits for it.
    assert len(grammars.compiled) == 50
    assert ("regex", "slow-4") not in grammars.compiled


@pytest.mark.parametrize("where", ["the reader", "a thread that compiles"])
def test_a_fault_in_a_requests_beginning_ends_it_alone(
    worker: Worker, hub: Hub, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    grammars = SlowGrammars(num_permits=100)
    monkeypatch.setattr(worker.host, "grammars", grammars)
    if where == "the reader":

        def cached(kind: str, text: str | list[str] | None) -> _core.Grammar | None:
            if text == "fault":
                raise RuntimeError("nobody foresaw it")
            return None

        monkeypatch.setattr(grammars, "cached", cached)
    gate = Gate(worker)
    hub.start("neighbour")
    hub.start("faulty", structured=worker_pb2.Structured(regex="fault"))
    (output,) = hub.outputs("faulty")
    assert output.finish == worker_pb2.FINISH_FAILED
    assert "nobody foresaw it" not in output.message
    gate.open()
    assert hub.outputs("neighbour")[-1].finish == worker_pb2.FINISH_LENGTH


def ends_of(hub: Hub, *names: str) -> dict[str, worker_pb2.RequestOutput]:
    """The last output of each request, in whichever order they end."""
    ends: dict[str, worker_pb2.RequestOutput] = {}
    while len(ends) < len(names):
        for output in hub.next("step_output").outputs:
            if output.finish and output.request_id in names:
                ends[output.request_id] = output
    return ends


def in_s(seconds: float) -> int:
    """A deadline in Unix time, in milliseconds."""
    return round((time.time() + seconds) * 1e3)


def test_nothing_is_compiled_for_a_deadline_that_passed_in_line(
    worker: Worker, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead_s = [0.0]
    clock = SimpleNamespace(time=lambda: time.time() + ahead_s[0], monotonic=time.monotonic)
    monkeypatch.setattr("spectrie.worker.messages.time", clock)
    grammars = SlowGrammars()
    monkeypatch.setattr(worker.host, "grammars", grammars)

    def start(name: str, deadline_ms: int | None) -> None:
        hub.start(name, deadline_ms=deadline_ms, structured=worker_pb2.Structured(regex=name))

    for index in range(4):
        start(f"slow-{index}", None)
    for _ in range(4):
        assert grammars.began.acquire(timeout=WAIT_S)
    start("late", in_s(100.0))
    start("left", in_s(100.0))
    start("in-time", in_s(2000.0))
    hub.send(cancel=worker_pb2.Cancel(request_id="left"))
    # Of any request whose deadline passed; once it is here, the others are in line.
    hub.start("plain", deadline_ms=in_s(-1.0))
    (expected,) = hub.outputs("plain")
    assert expected.finish == worker_pb2.FINISH_DEADLINE
    ahead_s[0] = 1000.0
    grammars.permits.release(1000)
    ends = ends_of(hub, "late", "left", "in-time")
    late = ends["late"]
    assert (late.finish, late.HasField("message")) == (
        expected.finish,
        expected.HasField("message"),
    )
    assert ends["left"].finish == worker_pb2.FINISH_CANCELLED
    assert ends["in-time"].finish == worker_pb2.FINISH_LENGTH
    assert [text for _, text in grammars.compiled[4:]] == ["in-time"]


def test_a_grammar_that_takes_too_long_beside_others_is_refused_for_now(
    worker: Worker, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammars = SlowGrammars(num_permits=1000)
    monkeypatch.setattr(worker.host, "grammars", grammars)
    for deadline_ms in (None, in_s(60.0)):
        structured = worker_pb2.Structured(regex="endless")
        hub.start("endless", deadline_ms=deadline_ms, structured=structured)
        (output,) = hub.outputs("endless")
        assert output.finish == worker_pb2.FINISH_REFUSED
        assert "not compiled within 120 s" in output.message
    # No less before a deadline: who asks again finds it compiled.
    assert grammars.limits == [120.0, 120.0]


def test_grammar_that_cannot_be_compiled_ends_its_request_with_the_reason(
    worker: Worker, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammars = SlowGrammars(num_permits=1)
    monkeypatch.setattr(worker.host, "grammars", grammars)
    hub.start("bad", structured=worker_pb2.Structured(regex="(a"))
    (output,) = hub.outputs("bad")
    assert output.finish == worker_pb2.FINISH_INVALID
    assert output.message == "regex cannot be used: unclosed group"
    hub.start("unknown", structured=worker_pb2.Structured())
    (output,) = hub.outputs("unknown")
    assert output.finish == worker_pb2.FINISH_INVALID
    assert "does not know" in output.message
    assert worker.link.num_running == 0
