"""Streams of a real model whose connections are cut: their tokens are those of undisturbed ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import spectrie
from tests.relay import Cutting

PROMPT = "one two three one two"
OPTIONS: dict[str, dict[str, Any]] = {
    "sampled": {"temperature": 0.9, "top_p": 0.97, "frequency_penalty": 0.3, "min_tokens": 600},
    "told": {"temperature": 0.8, "logprobs": 2, "prompt_logprobs": 1, "min_tokens": 600},
    "stopped": {"temperature": 0.9, "stop": ["qqq", "zz z"], "min_tokens": 300},
    "held": {"temperature": 0.9, "regex": "[a-z ]{1500,1600}"},
}


# Bytes of the answer that each connection brings before it is cut: a cut that waited for an event could come
# too late, when the rest lies in the client's buffers.
ALLOWANCES = (500, 700, 900)


@pytest.fixture
def cutting(server: dict[str, Any]) -> Iterator[Cutting]:
    """A way to the server's gRPC address that is cut three times."""
    with Cutting(server["grpc"], ALLOWANCES) as cutting:
        yield cutting


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_client_whose_connection_is_cut_gets_the_undisturbed_answer(
    server: dict[str, Any], cutting: Cutting, options: dict[str, Any]
) -> None:
    options = {"max_tokens": 1_000, "seed": 21, **options}
    with spectrie.Client(server["grpc"]) as client:
        whole = client.generate(PROMPT, **options)
    with (
        spectrie.Client(cutting.address, max_retries=8) as client,
        client.stream(PROMPT, **options) as stream,
    ):
        answer = stream.final()
    assert cutting.accepted == len(ALLOWANCES) + 1
    assert answer.token_ids == whole.token_ids
    assert (answer.text, answer.finish_reason) == (whole.text, whole.finish_reason)
    assert answer.usage.completion_tokens == whole.usage.completion_tokens
    assert answer.logprobs == whole.logprobs
    assert answer.prompt_logprobs == whole.prompt_logprobs
    assert not answer.numerics_changed


async def test_async_client_goes_on_alike(server: dict[str, Any], cutting: Cutting) -> None:
    options: dict[str, Any] = {"min_tokens": 600, "max_tokens": 900, "temperature": 0.9, "seed": 22}
    async with spectrie.AsyncClient(server["grpc"]) as client:
        whole = await client.generate(PROMPT, **options)
    async with (
        spectrie.AsyncClient(cutting.address, max_retries=8) as client,
        client.stream(PROMPT, **options) as stream,
    ):
        answer = await stream.final()
    assert cutting.accepted == len(ALLOWANCES) + 1
    assert (answer.token_ids, answer.text) == (whole.token_ids, whole.text)


def test_events_over_http_go_on_behind_the_last_one(server: dict[str, Any]) -> None:
    url = server["http"] if "://" in server["http"] else f"http://{server['http']}"
    body = {
        "prompt": PROMPT,
        "n": 2,
        "max_tokens": 48,
        "temperature": 0.9,
        "seed": 23,
        "return_token_ids": True,
    }
    with httpx.Client(base_url=url, timeout=60) as client:
        whole = client.post("/v1/completions", json=body).raise_for_status().json()
        asked = client.stream("POST", "/v1/completions", json={**body, "stream": True})
        events = Events()
        with asked as response:
            events.read(response, 1)
        for _ in range(3):
            with events.go_on(client) as response:
                events.read(response, 2)
        with events.go_on(client) as response:
            events.read(response, 1_000_000)
    assert events.done
    assert events.token_ids == [choice["token_ids"] for choice in whole["choices"]]
    assert events.texts == [choice["text"] for choice in whole["choices"]]


class Events:
    """What a client has of a stream of two choices."""

    def __init__(self) -> None:
        self.id = self.token = self.last = ""
        self.texts = ["", ""]
        self.token_ids: list[list[int]] = [[], []]
        self.done = False

    def go_on(self, client: httpx.Client) -> Any:
        """The call for the rest."""
        headers = {"x-spectrie-resume-token": self.token, "last-event-id": self.last}
        return client.stream("GET", f"/v1/streams/{self.id}", headers=headers)

    def read(self, response: httpx.Response, count: int) -> None:
        """Reads up to `count` events."""
        self.read_lines(response.raise_for_status().iter_lines(), count)

    def read_lines(self, lines: Iterator[str], count: int) -> None:
        """Reads up to `count` events of an answer's lines."""
        for line in lines:
            if line.startswith("id: "):
                last = line.removeprefix("id: ")
            if not line.startswith("data: "):
                continue
            data = line.removeprefix("data: ")
            if data == "[DONE]":
                self.done = True
                return
            self.last = last
            chunk = json.loads(data)
            self.token = chunk.get("resume_token", self.token)
            self.id = chunk["id"]
            for choice in chunk["choices"]:
                self.texts[choice["index"]] += choice["text"]
                self.token_ids[choice["index"]] += choice.get("token_ids") or []
            count -= 1
            if count == 0:
                return
