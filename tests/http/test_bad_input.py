"""Bad input over both APIs: a precise error each, and no other request is affected."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from operator import attrgetter
from typing import Any
from urllib.parse import urlsplit

import grpc
import httpx
import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from spectrie._proto import inference_pb2 as pb
from spectrie._proto import inference_pb2_grpc
from tests.http.bad_requests import BAD_REQUESTS, BadRequest
from tests.http.scripted_worker import ANSWER, MODEL
from tests.http.server import Server

NAME = attrgetter("name")
CHAT: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "hello"}],
    "temperature": 0,
}


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx.Client]:
    # An answer that waits for no body may close the connection while the body is on its way.
    alone = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(base_url=url, timeout=30, limits=alone) as client:
        yield client


@pytest.fixture(scope="module")
def stub(scripted: Server) -> Iterator[inference_pb2_grpc.InferenceStub]:
    with grpc.insecure_channel(scripted.grpc) as channel:
        yield inference_pb2_grpc.InferenceStub(channel)


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error of a response, which must be in OpenAI's shape."""
    body = response.json()
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


@pytest.mark.parametrize("bad", [bad for bad in BAD_REQUESTS if bad.chat is not None], ids=NAME)
def test_http_refuses(http: httpx.Client, bad: BadRequest) -> None:
    assert bad.chat is not None
    response = http.post("/v1/chat/completions", json=CHAT | bad.chat)
    error = error_of(response)
    assert error["message"] == bad.message
    assert (response.status_code, error["code"]) == (bad.status, bad.code)
    assert error["param"] == bad.param
    kinds = {403: "permission_error", 404: "not_found_error"}
    assert error["type"] == kinds.get(bad.status, "invalid_request_error")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("bad", [bad for bad in BAD_REQUESTS if bad.wire is not None], ids=NAME)
def test_grpc_refuses(
    stub: inference_pb2_grpc.InferenceStub, bad: BadRequest, stream: bool
) -> None:
    fields = {"text": "hello"} | (bad.wire or {})
    if "token_ids" in fields:
        del fields["text"]
    request = json_format.ParseDict(fields, pb.GenerateRequest())
    with pytest.raises(grpc.RpcError) as caught:
        list(stub.GenerateStream(request)) if stream else stub.Generate(request)
    call = caught.value
    assert isinstance(call, grpc.Call)
    assert call.details() == bad.expected_wire_message
    assert call.code() == bad.wire_code
    if bad.field is not None:
        assert violations(call)[0].field == bad.field


def violations(call: grpc.Call) -> list[error_details_pb2.BadRequest.FieldViolation]:
    """The field violations in a failed call's details."""
    status = rpc_status.from_call(call)
    assert status is not None
    for detail in status.details:
        found = error_details_pb2.BadRequest()
        if detail.Unpack(found):
            return list(found.field_violations)
    return []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "body: empty, expected a JSON object"),
        (b"[1]", "body: given a list of 1; allowed: a JSON object"),
        (b'{"n": }', "body: not valid JSON: expected value at line 1 column 7"),
        (b'{"n": 1', "body: not valid JSON: EOF while parsing an object at line 1 column 7"),
        (
            b'{"temperature": NaN}',
            "body: not valid JSON: expected value at line 1 column 17; "
            "numbers must be finite: NaN and Infinity are not JSON",
        ),
        (
            b'{"temperature": 1e999}',
            "body: not valid JSON: number out of range at line 1 column 21",
        ),
        (
            b'{"model": "\xff"}',
            "body: not valid JSON: invalid unicode code point at line 1 column 12",
        ),
        (b"[" * 1000, "body: not valid JSON: recursion limit exceeded at line 1 column 128"),
    ],
    ids=str,
)
def test_body_that_is_no_json_object_is_refused_with_its_place(
    http: httpx.Client, content: bytes, message: str
) -> None:
    response = http.post(
        "/v1/chat/completions", content=content, headers={"content-type": "application/json"}
    )
    error = error_of(response)
    assert error["message"] == message
    assert (response.status_code, error["code"], error["param"]) == (400, "invalid_value", None)


def test_other_content_types_are_refused(http: httpx.Client) -> None:
    response = http.post("/v1/completions", content=b"{}", headers={"content-type": "text/plain"})
    assert response.status_code == 400
    error = error_of(response)
    assert error["param"] == "content-type"
    assert error["message"] == 'content-type: given "text/plain"; allowed: "application/json"'


def test_large_body_is_413_with_the_limit(http: httpx.Client) -> None:
    response = http.post("/v1/completions", json={"prompt": "x" * (5 << 20)})
    assert response.status_code == 413
    error = error_of(response)
    assert error["code"] == "request_too_large"
    assert error["message"].endswith("allowed: up to 4194304 bytes")


def test_large_header_is_431_with_the_limit(http: httpx.Client) -> None:
    response = http.get("/v1/models", headers={"x-large": "x" * (17 << 10)})
    assert response.status_code == 431
    assert error_of(response)["message"].endswith("allowed: up to 16384 bytes")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/v1/responses", "use POST /v1/chat/completions"),
        ("/v1/embeddings", "this server generates text only"),
        ("/v1/messages", "use POST /v1/chat/completions"),
        ("/v2/anything", "existing are POST /v1/chat/completions"),
    ],
)
def test_unknown_path_is_404_and_names_what_exists(
    http: httpx.Client, path: str, hint: str
) -> None:
    response = http.post(path, json={})
    assert response.status_code == 404
    error = error_of(response)
    assert error["type"] == "not_found_error"
    assert error["message"].startswith(f"no such path: POST {path}; ")
    assert hint in error["message"]
    assert "GET /v1/models/{id}" in error["message"]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("GET", "/v1/chat/completions", "POST"), ("DELETE", "/v1/models", "GET, HEAD")],
)
def test_other_methods_are_405_with_the_allowed_ones(
    http: httpx.Client, method: str, path: str, allow: str
) -> None:
    response = http.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] == allow
    assert error_of(response)["message"] == f"{path}: given method {method}; allowed: {allow}"


def test_bytes_that_are_no_http_end_the_connection_and_nothing_else(
    url: str, http: httpx.Client
) -> None:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port or 80), timeout=10) as raw:
        raw.sendall(b"\x16\x03\x01 this is not http\r\n\r\n")
        assert raw.recv(64).startswith(b"HTTP/1.1 400")
    assert http.get("/healthz").status_code == 200


def test_bad_requests_leave_others_alone(http: httpx.Client) -> None:
    with http.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}) as running:
        for bad in BAD_REQUESTS:
            http.post("/v1/chat/completions", json=CHAT | (bad.chat or {}))
        text = running.read().decode()
    assert text.endswith("data: [DONE]\n\n")
    answer = http.post("/v1/chat/completions", json=CHAT).json()
    assert answer["choices"][0]["message"]["content"] == ANSWER
