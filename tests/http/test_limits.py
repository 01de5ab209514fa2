"""Overload, deadlines, names in use, no worker: each its own status."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.http.scripted_worker import MAX_RUNNING, MODEL
from tests.http.server import Server, router, serving

IN_FLIGHT_FACTOR = 5
PLACES = MAX_RUNNING * IN_FLIGHT_FACTOR


def chat(word: str, **fields: Any) -> dict[str, Any]:
    """A chat request whose prompt has `word` in it."""
    messages = [{"role": "user", "content": word}]
    return {"model": MODEL, "messages": messages, "temperature": 0} | fields


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A router that gives a request five seconds."""
    with serving(tmp_path_factory.mktemp("hasty"), "--request-timeout", "5") as server:
        yield server


async def test_full_queue_is_429_until_someone_leaves(scripted: Server) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{scripted.http}/v1", api_key="none", max_retries=0, timeout=30
    ) as client:
        starts = [
            client.chat.completions.create(**chat("HANG", stream=True)) for _ in range(PLACES)
        ]
        streams = await asyncio.gather(*starts)
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(**chat("hello"))
        assert caught.value.code == "queue_full"
        assert caught.value.type == "overloaded_error"
        assert int(caught.value.response.headers["retry-after"]) >= 1
        await asyncio.gather(*(stream.close() for stream in streams))
        for _ in range(PLACES):
            await asyncio.to_thread(scripted.worker.cancelled.get, timeout=60)
        answer = await client.chat.completions.create(**chat("hello"))
    assert answer.choices[0].finish_reason == "stop"


def test_prompts_that_can_never_run_together_are_400_with_the_limit(scripted: Server) -> None:
    with httpx.Client(base_url=f"{scripted.http}/v1", timeout=30) as client:
        fields = {"model": MODEL, "prompt": ["hello"] * (PLACES // 8 + 1), "n": 8}
        error = client.post("/completions", json=fields).json()["error"]
        fitting = client.post("/completions", json=fields | {"prompt": ["hello"] * (PLACES // 8)})
    assert (error["type"], error["param"]) == ("invalid_request_error", "prompt")
    assert (
        f"{PLACES + 8} completions in all; allowed: up to {PLACES} completions" in error["message"]
    )
    assert fitting.status_code == 200


def test_name_of_a_running_request_is_409(scripted: Server) -> None:
    with httpx.Client(base_url=f"{scripted.http}/v1", timeout=30) as client:
        named = chat("HANG", stream=True, request_id="twice")
        with client.stream("POST", "/chat/completions", json=named) as running:
            assert running.status_code == 200
            response = client.post("/chat/completions", json=chat("hello", request_id="twice"))
        scripted.worker.cancelled.get(timeout=60)
    assert response.status_code == 409
    assert response.json()["error"]["type"] == "conflict_error"


def test_passed_deadline_is_504_or_an_error_in_the_stream(hasty: Server) -> None:
    with httpx.Client(base_url=f"{hasty.http}/v1", timeout=30) as client:
        whole = client.post("/chat/completions", json=chat("HANG"))
        streamed = client.post("/chat/completions", json=chat("HANG", stream=True))
    assert whole.status_code == 504
    assert whole.json()["error"]["type"] == "timeout_error"
    assert streamed.status_code == 200
    assert "timeout_error" in streamed.text.splitlines()[-2]
    assert "[DONE]" not in streamed.text


def test_without_a_worker_it_is_503_and_not_ready(tmp_path_factory: pytest.TempPathFactory) -> None:
    with router(tmp_path_factory.mktemp("alone")) as facts:
        with httpx.Client(base_url=f"http://{facts['http']}", timeout=30) as client:
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").status_code == 503
            assert client.get("/v1/models").json() == {"object": "list", "data": []}
            response = client.post("/v1/chat/completions", json=chat("hello"))
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "unavailable"
        assert int(response.headers["retry-after"]) >= 1
