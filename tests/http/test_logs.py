"""What a router's log says, at its most talkative."""

from __future__ import annotations

import grpc
import httpx
import pytest

from spectrie._proto import inference_pb2 as pb
from spectrie._proto.inference_pb2_grpc import InferenceStub
from tests.http.scripted_worker import MODEL, ScriptedWorker
from tests.http.server import router
from tests.waiting import wait_until

PROMPT = "a prompt that nobody else may read"
KEY = "a-key-that-nobody-else-may-read"
HEADERS = {"authorization": f"Bearer {KEY}"}
FORGED = "2026-01-01T00:00:00Z ERROR everything is lost"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The log of a run with every kind of call, at trace."""
    folder = tmp_path_factory.mktemp("traced")
    keys = folder / "keys"
    keys.write_text(f"{KEY} team-a\n")
    path = folder / "log"
    options = ("--api-keys", str(keys), "--log-level", "trace")
    with router(folder, *options, log=path) as facts, ScriptedWorker(facts["worker"]):
        _call_all(facts)
    return path.read_text()


def _call_all(facts: dict[str, str]) -> None:
    with httpx.Client(base_url=f"http://{facts['http']}", headers=HEADERS) as client:
        wait_until(lambda: client.get("/readyz").status_code == 200, 60.0, lambda: "no worker")
        message = {"role": "user", "content": PROMPT}
        for stream in (False, True):
            body = {"model": MODEL, "stream": stream, "max_tokens": 8}
            path = "/v1/chat/completions"
            assert client.post(path, json=body | {"messages": [message]}).status_code == 200
            path = "/v1/completions"
            assert client.post(path, json=body | {"prompt": PROMPT}).status_code == 200
        bad = client.post("/v1/completions", json={"prompt": PROMPT, "temperature": -1})
        assert bad.status_code == 400
        wrong = client.get("/v1/models", headers={"authorization": f"Bearer {KEY}x"})
        assert wrong.status_code == 401
    with grpc.insecure_channel(facts["grpc"]) as channel:
        stub = InferenceStub(channel)
        metadata = (("authorization", f"Bearer {KEY}"),)
        request = pb.GenerateRequest(text=PROMPT, model=MODEL, stopping=pb.Stopping(max_tokens=8))
        assert stub.Generate(request, metadata=metadata, timeout=30).choices
        assert stub.Tokenize(pb.TokenizeRequest(text=PROMPT), metadata=metadata, timeout=30)
        request.request_id = f"r1\n{FORGED}"
        with pytest.raises(grpc.RpcError):
            stub.Generate(request, metadata=metadata, timeout=30)


def test_trace_shows_neither_prompts_nor_keys(log: str) -> None:
    assert "TRACE" in log and "request refused" in log
    for secret in (PROMPT, KEY):
        assert secret not in log


def test_a_request_id_cannot_forge_a_line(log: str) -> None:
    assert FORGED in log
    assert not any(line.startswith(FORGED[:20]) for line in log.splitlines())
