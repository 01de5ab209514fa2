"""The app of examples/pod beside a real server: started before it, through its restart, and drained."""

from __future__ import annotations

import http.client
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spectrie.client import Client
from tests.relay import Gate
from tests.system.server import Program, serve

PROMPT = "print the class"
TOKENS = 1000
HELD_BYTES = 3000
"""Bytes of a server's answer after which it is held still: the first pieces of far more."""


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """The app's way to its server."""
    with Gate() as gate:
        monkeypatch.setenv("APP_LISTEN", "127.0.0.1:0")
        monkeypatch.setenv("SPECTRIE_TARGET", gate.address)
        monkeypatch.setenv("ANSWER_TOKENS", str(TOKENS))
        yield gate


def app() -> Program:
    return Program(module="examples.pod.app")


@contextmanager
def asked(program: Program, gate: Gate) -> Iterator[http.client.HTTPResponse]:
    """The answer to a prompt, held in its middle."""
    address = program.wait_line("listening on").rpartition(" ")[2]
    connection = http.client.HTTPConnection(address, timeout=60)
    gate.hold_after(HELD_BYTES)
    try:
        connection.request("POST", "/", body=PROMPT.encode())
        answer = connection.getresponse()
        assert answer.status == 200
        gate.wait_held()
        yield answer
    finally:
        connection.close()


def test_an_app_waits_for_its_model_outlives_its_restart_and_finishes_when_drained(
    endless: Path, gate: Gate
) -> None:
    with app() as program:
        program.wait_line("waiting for the model")
        with serve(endless) as first:
            gate.lead_to(first.wait_ready()["grpc"])
            with asked(program, gate) as answer:
                first.process.kill()
                first.wait()
                gate.lead_to(None)
                with serve(endless) as second:
                    target = second.wait_ready()["grpc"]
                    gate.lead_to(target)
                    text = answer.read().decode()
                    check_that_it_is_whole(program, target, text)
                    drain_in_the_middle(program, gate)


def check_that_it_is_whole(program: Program, target: str, text: str) -> None:
    """The text is that of an answer without a restart."""
    seed = int(program.wait_line("asking again for seed").split()[4].rstrip(":"))
    with Client(target) as client:
        undisturbed = client.generate(PROMPT, max_tokens=TOKENS, seed=seed)
    assert text == undisturbed.text
    assert undisturbed.usage.completion_tokens == TOKENS


def drain_in_the_middle(program: Program, gate: Gate) -> None:
    """The app is stopped while it answers, and the answer comes to its end."""
    with asked(program, gate) as answer:
        program.signal(signal.SIGTERM)
        program.wait_line("stopping")
        gate.open()
        # One that broke off would have no last chunk, which http.client refuses.
        assert answer.read()
        assert program.wait() == 0


def test_an_app_without_a_model_ends_and_says_so(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAIT_SECONDS", "0.1")
    with app() as program:
        assert program.wait() == 1
        assert f"no model at {gate.address} within 0.1 s" in program.output
