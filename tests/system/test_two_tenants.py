"""Nothing that one tenant hears depends on another: drafts, counts, pages, request ids and limits, all at once.

What tenant A sends is played twice, by two tenants that were never there before: once alone, once before and
beside a tenant B that sends alike texts under the same request ids, keeps streams open and uses up its own limits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spectrie
from spectrie.client import Client
from spectrie.errors import StatusError
from spectrie.options import GenerateOptions
from tests.system.server import serve

TENANTS = 10_000
"""More than the examples need, and those that a failed one is shrunk by; each tenant plays once."""
AT_ONCE = 2
A_SENDS, B_SENDS = 6, 12
"""Requests of one play; both together are more than one key may send in a minute, A's are not."""
TOKENS = 24
SHARED = (
    "def first(self, value):\n    return self.table[value] if value in self.table else None\n\n" * 3
)
"""Longer than a page, so that its pages could be found by others."""
PROMPTS = (SHARED, SHARED + "class First:", SHARED + "while True:", "with the that have", "import")
ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class Sent:
    """One request.

    Attributes:
        prompt: Which of `PROMPTS`.
        request_id: Which of a few ids.
        salt: Of the caches.
        temperature: Of the draws.
        is_held: Whether it is a stream that stays open for the rest of the play.
    """

    prompt: int
    request_id: int
    salt: str | None
    temperature: float
    is_held: bool


REQUESTS = st.builds(
    Sent,
    prompt=st.integers(0, len(PROMPTS) - 1),
    request_id=st.integers(0, 2),
    salt=st.sampled_from([None, "salt"]),
    temperature=st.sampled_from([0.0, 0.8]),
    is_held=st.booleans(),
)
PLAYS = st.lists(REQUESTS, min_size=2, max_size=A_SENDS)
OTHERS = st.lists(REQUESTS, min_size=B_SENDS, max_size=B_SENDS)


class Tenants:
    """Keys of tenants that were never there before, and the server that knows them."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._next = count()

    def client(self) -> Client:
        """The client of the next tenant. It does not try again, so each refusal is heard."""
        number = next(self._next)
        assert number < TENANTS
        return Client(self._address, api_key=key(number), max_retries=0)


def key(number: int) -> str:
    return f"key-{number}"


def entry(number: int) -> str:
    digest = hashlib.sha256(key(number).encode()).hexdigest()
    limits = f"requests_per_minute = {A_SENDS}\nrequests_at_once = {AT_ONCE}"
    return f'[[keys]]\nsha256 = "{digest}"\ntenant = "tenant-{number}"\n{limits}\n'


@pytest.fixture(scope="module")
def tenants(long: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    """A server that drafts from text alone, as much as it may, and where nobody counts as ahead of the others.

    A tenant that is ahead by more than a step may take drafts fewer, which is pacing and goes by the clock.
    """
    keys = tmp_path_factory.mktemp("keys") / "keys.toml"
    keys.write_text("".join(map(entry, range(TENANTS))))
    options = (
        "--speculation=bfs",
        "--max-draft-tokens=4",
        "--max-running=64",
        "--max-step-ms=60000",
    )
    with serve(long, f"--api-keys={keys}", *options) as program:
        yield Tenants(program.wait_ready()["grpc"])


class Play:
    """One tenant's requests, one after the other, and what it heard of each."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._open = ExitStack()
        self.heard: list[Any] = []

    def send(self, sent: Sent) -> None:
        """Sends one request and hears its answer, or the first part of a stream that stays open."""
        try:
            self.heard.append(self._held(sent) if sent.is_held else self._answer(sent))
        except StatusError as error:
            self.heard.append((type(error).__name__, error.message))

    def _answer(self, sent: Sent) -> Any:
        answer = self._client.generate(PROMPTS[sent.prompt], **_options(sent, TOKENS))
        return (answer.token_ids, answer.usage, answer.speculation, answer.sources)

    def _held(self, sent: Sent) -> Any:
        # How far it has come when the next request is sent is up to the clock, so nothing may be drafted from it.
        options = _options(sent, None) | {"speculation": spectrie.SpeculationOptions(learn=False)}
        stream = self._client.stream(PROMPTS[sent.prompt], **options)
        self._open.callback(stream.cancel)
        return next(iter(stream)).token_ids[:1]

    def __enter__(self) -> Play:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._client.close()


def _options(sent: Sent, max_tokens: int | None) -> GenerateOptions:
    return {
        "request_id": f"id-{sent.request_id}",
        "cache_salt": sent.salt,
        "temperature": sent.temperature,
        "seed": 7,
        "ignore_eos": True,
        "sources": True,
        "max_tokens": max_tokens,
    }


def alone(client: Client, requests: Sequence[Sent]) -> list[Any]:
    """What A hears where nobody else is."""
    with Play(client) as play:
        for sent in requests:
            play.send(sent)
        return play.heard


def beside(
    client: Client, requests: Sequence[Sent], other_client: Client, others: Sequence[Sent]
) -> list[Any]:
    """What A hears where half of B's requests come before A's, and the rest each at once with one of A's."""
    half = len(others) // 2
    with Play(client) as play, Play(other_client) as other, ThreadPoolExecutor(1) as thread:
        for sent in others[:half]:
            other.send(sent)
        for mine, its in zip(requests, others[half:], strict=False):
            done = thread.submit(other.send, its)
            play.send(mine)
            done.result(ANSWER_S)
        return play.heard


def check(tenants: Tenants, requests: Sequence[Sent], others: Sequence[Sent]) -> None:
    """A hears the same in both plays."""
    undisturbed = alone(tenants.client(), requests)
    assert beside(tenants.client(), requests, tenants.client(), others) == undisturbed


@settings(max_examples=20, deadline=None, derandomize=True)
@given(requests=PLAYS, others=OTHERS)
def test_nothing_a_tenant_hears_depends_on_another(
    tenants: Tenants, requests: list[Sent], others: list[Sent]
) -> None:
    check(tenants, requests, others)


@pytest.mark.deep
@settings(max_examples=400, deadline=None)
@given(requests=PLAYS, others=OTHERS)
def test_nothing_a_tenant_hears_depends_on_another_in_many_plays(
    tenants: Tenants, requests: list[Sent], others: list[Sent]
) -> None:
    check(tenants, requests, others)


def test_each_part_of_what_is_compared_shows_what_the_same_tenant_did(tenants: Tenants) -> None:
    """Else no example above could fail: under one key, all five differ."""
    client = tenants.client
    answer = Sent(prompt=0, request_id=0, salt=None, temperature=0.0, is_held=False)
    held = replace(answer, is_held=True)
    (_, usage, speculation, _), *_ = alone(client(), [answer])
    first, second = alone(client(), [answer, answer])
    assert usage == first[1]
    assert second[1].cached_tokens > usage.cached_tokens
    assert second[2].accepted_tokens > speculation.accepted_tokens

    assert alone(client(), [held, answer])[1][0] == "AlreadyExists"
    others = [replace(held, request_id=one) for one in (1, 2)]
    assert alone(client(), [*others, answer])[2] == ("ResourceExhausted", ANY)
    assert alone(client(), [answer] * (A_SENDS + 1))[A_SENDS] == ("ResourceExhausted", ANY)
