"""One line of the log for each request of a client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from spectrie._proto import inference_pb2 as pb
from spectrie._proto.inference_pb2_grpc import InferenceStub
from tests.http.scripted_worker import ANSWER, EOS_ID, MODEL
from tests.http.server import Server, serving
from tests.waiting import wait_until

KEY = "a-key-that-nobody-else-may-read"
HEADERS = {"authorization": f"Bearer {KEY}"}
PROMPT = "a prompt that nobody else may read"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
NUM_TOKENS = len(ANSWER.encode()) + 1
WAIT_S = 60.0

assert EOS_ID == 256  # One token a byte, and the end.


def _lines(log: Path, form: str) -> list[dict[str, Any]]:
    """The fields of the access lines so far."""
    # The last one may be on its way.
    whole = log.read_text().rpartition("\n")[0].splitlines()
    if form == "text":
        return [{"text": line} for line in whole if " access " in line]
    whole = [line for line in whole if line.endswith("}")]
    events = [json.loads(line) for line in whole]
    return [event["fields"] for event in events if event["target"] == "access"]


def _call(server: Server) -> None:
    with httpx.Client(base_url=server.http, headers=HEADERS, timeout=30) as client:
        body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 200, "request_id": "whole\nline"}
        assert client.post("/v1/completions", json=body).status_code == 400
        body |= {"request_id": "whole", "temperature": 0}
        traced = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        assert client.post("/v1/completions", json=body, headers=traced).status_code == 200
        body |= {"request_id": "hung", "prompt": f"HANG {PROMPT}", "stream": True}
        with client.stream("POST", "/v1/completions", json=body) as running:
            assert any(line.startswith("data:") for line in running.iter_lines())
        server.worker.cancelled.get(timeout=WAIT_S)
        wrong = client.get("/v1/models", headers={"authorization": f"Bearer {KEY}x"})
        assert wrong.status_code == 401
        assert client.get("/healthz").status_code == 200
    with grpc.insecure_channel(server.grpc) as channel:
        request = pb.GenerateRequest(text=PROMPT, model="none", request_id="lost")
        with pytest.raises(grpc.RpcError):
            InferenceStub(channel).Generate(
                request, metadata=(("authorization", f"Bearer {KEY}"),), timeout=30
            )


def _run(folder: Path, *options: str, form: str, expected: int) -> list[dict[str, Any]]:
    keys = folder / "keys"
    keys.write_text(f"{KEY} team-a\n")
    log = folder / "log"
    with serving(folder, "--api-keys", str(keys), *options, log=log) as server:
        _call(server)
        wait_until(
            lambda: len(_lines(log, form)) >= expected, WAIT_S, lambda: f"log: {log.read_text()}"
        )
    assert PROMPT not in log.read_text() and KEY not in log.read_text()
    return _lines(log, form)


def test_each_request_is_one_line_of_json(tmp_path: Path) -> None:
    lines = _run(tmp_path, "--log-format", "json", form="json", expected=5)
    assert len(lines) == 5
    refused, whole, hung, wrong, lost = sorted(lines, key=_order)
    assert (refused["status"], refused["outcome"]) == ("400", "INVALID_FIELD")
    assert refused["request_id"] == "whole\\nline"
    assert (whole["status"], whole["outcome"], whole["tenant"]) == ("200", "stop", "team-a")
    assert (whole["route"], whole["model"]) == ("/v1/completions", MODEL)
    assert (whole["prompt_tokens"], whole["completion_tokens"]) == (len(PROMPT), NUM_TOKENS)
    assert (whole["cached_tokens"], whole["attempts"], whole["choices"]) == (1, 1, 1)
    assert whole["trace_id"] == TRACE and whole["accepted"].startswith("request:")
    assert 0 <= whole["queue_ms"] and 0 < whole["ttft_ms"] <= whole["total_ms"]
    assert (hung["status"], hung["outcome"]) == ("200", "CANCELLED")
    assert (wrong["status"], wrong["outcome"]) == ("401", "INVALID_API_KEY")
    assert "tenant" not in wrong and wrong["x_request_id"]
    assert (lost["route"], lost["status"]) == ("Generate", "NotFound")


def _order(line: dict[str, Any]) -> int:
    names = ["whole\\nline", "whole", "hung", None, "lost"]
    return names.index(line.get("request_id"))


def test_text_lines_quote_what_clients_chose(tmp_path: Path) -> None:
    lines = _run(tmp_path, form="text", expected=5)
    texts = [line["text"] for line in lines]
    assert sum('request_id="whole" ' in text for text in texts) == 1
    assert all('route="' in text and "total_ms=" in text for text in texts)


def test_lines_can_be_turned_off(tmp_path: Path) -> None:
    options = ("--access-log", "off", "--log-format", "json")
    assert _run(tmp_path, *options, form="json", expected=0) == []
