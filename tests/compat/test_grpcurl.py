"""grpcurl, which knows the API by reflection alone, gets the answers of our own client."""

from __future__ import annotations

import json
from typing import Any

from spectrie.client import Client
from tests.compat.conftest import Run

SERVICE = "spectrie.v1.Inference"
REQUEST = {"text": "def the", "sampling": {"seed": 7}, "stopping": {"maxTokens": 24}}


def called(run: Run, server: dict[str, Any], method: str, request: object) -> Any:
    """What a call prints."""
    return run("grpcurl", "-plaintext", "-d", json.dumps(request), server["grpc"], method)


def test_services_and_messages_are_described(run: Run, server: dict[str, Any]) -> None:
    listed = run("grpcurl", "-plaintext", server["grpc"], "list")
    assert {SERVICE, "grpc.health.v1.Health"} <= set(listed.stdout.split())
    described = run(
        "grpcurl", "-plaintext", server["grpc"], "describe", "spectrie.v1.GenerateRequest"
    )
    assert "optional string request_id = 1;" in described.stdout


def test_generate_answers_as_to_our_client(
    run: Run, server: dict[str, Any], client: Client
) -> None:
    expected = client.generate("def the", max_tokens=24, seed=7)
    done = called(run, server, f"{SERVICE}/Generate", REQUEST)
    assert done.returncode == 0, done.stderr
    reply = json.loads(done.stdout)
    (choice,) = reply["choices"]
    assert choice["text"] == expected.text
    assert choice["tokenIds"] == list(expected.token_ids)
    assert reply["started"]["seed"] == "7"


def test_stream_begins_goes_on_and_finishes(
    run: Run, server: dict[str, Any], client: Client
) -> None:
    expected = client.generate("def the", max_tokens=24, seed=7)
    done = called(run, server, f"{SERVICE}/GenerateStream", REQUEST)
    assert done.returncode == 0, done.stderr
    events, rest = [], done.stdout.strip()
    while rest:
        event, end = json.JSONDecoder().raw_decode(rest)
        events.append(event)
        rest = rest[end:].strip()
    assert "started" in events[0] and "finished" in events[-1]
    deltas = [one["delta"] for one in events if "delta" in one]
    assert "".join(one.get("text", "") for one in deltas) == expected.text
    usage = events[-1]["finished"]["usage"]
    assert usage["completionTokens"] == expected.usage.completion_tokens


def test_health_is_that_of_the_service(run: Run, server: dict[str, Any]) -> None:
    done = called(run, server, "grpc.health.v1.Health/Check", {"service": SERVICE})
    assert json.loads(done.stdout) == {"status": "SERVING"}


def test_error_has_its_code_and_the_field(run: Run, server: dict[str, Any]) -> None:
    wrong = REQUEST | {"sampling": {"temperature": -1}}
    done = called(run, server, f"{SERVICE}/Generate", wrong)
    assert done.returncode == 64 + 3  # INVALID_ARGUMENT
    assert "Code: InvalidArgument" in done.stderr
    assert "google.rpc.BadRequest" in done.stderr and "sampling.temperature" in done.stderr
