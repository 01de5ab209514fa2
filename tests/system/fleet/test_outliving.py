"""Servers that share a real Redis: streams outlive the one that began them, token for token."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from spectrie import AdminClient, Client, Completion
from spectrie.model import resolve
from tests.relay import Gate
from tests.system.chaos.processes import num_descriptors, resident_bytes, router_pid
from tests.system.chaos.traffic import NUM_STREAMS, Traffic, asks, reference
from tests.system.fleet.redis_server import RedisServer
from tests.system.server import Program, serve
from tests.system.test_resume import Events
from tests.waiting import wait_until

WAIT_S = 60.0
LONG_FORMS: dict[str, Any] = {
    "regex": "[a-z ,.]{2000,2100}",
    "json_schema": {
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 2000, "maxLength": 2100}},
        "required": ["name"],
    },
}
"""Instead of those whose answers are short."""


@dataclass(frozen=True)
class Load:
    """What is asked of two servers.

    Attributes:
        asked: Prompts and options of the streams.
        held_bytes: What all streams get before their server is killed: some tokens, and of none so many that it
            could end.
    """

    asked: list[dict[str, Any]]
    held_bytes: int


def real_load() -> Load:
    """Sixteen streams of a real model, which goes on for a moment before it is killed."""
    return Load(options(NUM_STREAMS, 128), held_bytes=8_000)


def tiny_load() -> Load:
    """Eight of a fast one, so long that two thirds, where a stop text ends some answers, take more bytes than
    are held, however they are drafted."""
    return Load(options(8, 1_200), held_bytes=2_000)


MEMORY_BYTES = 16 << 20
"""Draft memory of a worker, as `serve` of the tests gives it."""
MORE_ROUTER_BYTES = 96 << 20
"""What the memory of a router may grow by that takes streams over."""
RESUMED = "spectrie_fleet_streams_taken_over_total"
REFUSED = 'spectrie_fleet_streams_refused_total{reason="damaged"}'


class Served:
    """A server of that Redis, with its own router and worker."""

    def __init__(self, model: Path, redis: RedisServer) -> None:
        self.program: Program = serve(
            model,
            "--bigrams=off",
            "--snapshot-every=0",
            # Room for sixteen answers of a real model at once.
            "--kv-memory=256MiB",
            f"--redis={redis.address}",
        )

    def wait_ready(self) -> None:
        """Waits until it serves."""
        self.facts: dict[str, Any] = self.program.wait_ready()
        self.url = self.facts["http"]
        if "://" not in self.url:
            self.url = f"http://{self.url}"

    def metric(self, name: str) -> float:
        """One of its counts; 0 if it has none of this name."""
        text = httpx.get(f"{self.url}/metrics", timeout=WAIT_S).raise_for_status().text
        for line in text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def holds(self) -> list[int]:
        """Open files of its router and of the server itself."""
        server = self.program.process.pid
        return [num_descriptors(pid) for pid in (router_pid(self.program), server)]

    def router_bytes(self) -> int:
        """Memory of its router."""
        return resident_bytes(router_pid(self.program))

    def wait_settled(self, before: list[int]) -> None:
        """Waits until it has no more open files than before, and its worker runs nothing."""
        with AdminClient(self.facts["admin"]) as admin:

            def is_settled() -> bool:
                pages = sum(one.pages_used for one in admin.loads())
                return pages == 0 and all(a <= b for a, b in zip(self.holds(), before, strict=True))

            wait_until(is_settled, WAIT_S, lambda: f"{admin.loads()}, {self.holds()}, {before}")
            assert all(one.memory_bytes <= MEMORY_BYTES for one in admin.stats())

    def kill(self) -> None:
        """Kills all of it at once, as a machine that fails."""
        server = self.program.process.pid
        # Stopped, it neither reaps a child that ends by itself nor starts a new one.
        os.kill(server, signal.SIGSTOP)
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        for pid in (*map(int, children), server):
            os.kill(pid, signal.SIGKILL)
        self.program.process.wait(WAIT_S)


@pytest.fixture
def served(tiny: Path, redis: RedisServer) -> Iterator[Callable[[], Served]]:
    """Starts servers of a tiny model; they end with the test."""
    with ExitStack() as stack:
        yield partial(start, tiny, redis, stack)


@pytest.fixture
def really_served(redis: RedisServer) -> Iterator[Callable[[], Served]]:
    """The same of the real model."""
    with ExitStack() as stack:
        yield partial(start, resolve("smollm2-135m").folder, redis, stack)


def start(model: Path, redis: RedisServer, stack: ExitStack) -> Served:
    """A server that ends with `stack`."""
    one = Served(model, redis)
    stack.callback(lambda: one.program.__exit__())
    return one


def options(num_streams: int, max_tokens: int) -> list[dict[str, Any]]:
    """Sampling, grammars, penalties, a prediction; some get a stop text later."""
    return [
        {name: LONG_FORMS.get(name, value) for name, value in asked.items()}
        for asked in asks(max_tokens)[:num_streams]
    ]


def records(redis: RedisServer) -> list[str]:
    """Keys of the streams' records."""
    return [key for key in redis.keys() if ":stream:" in key]


class Losses:
    """Traffic over two servers of which one is killed again and again, and started anew.

    Args:
        start: Starts a server.
        redis: What they share.
        load: What they are asked.
    """

    def __init__(self, start: Callable[[], Served], redis: RedisServer, load: Load) -> None:
        self._start = start
        self._redis = redis
        self._load = load
        self.pair = [start(), start()]
        for one in self.pair:
            one.wait_ready()
        self.asked = load.asked
        with Client(self.pair[0].facts["grpc"]) as client:
            self.expected: list[Completion] = reference(client, self.asked)
        self.num_hit = 0
        """How often an answer with tokens lost its server: not one whose end had reached its client."""
        self.num_taken = 0
        """How often one went on at another."""

    def lose(self) -> None:
        """Kills the server that all streams are at, in the middle of all of them."""
        first, second = self.pair
        before = second.metric(RESUMED)
        known = set(records(self._redis))
        with AdminClient(second.facts["admin"]) as admin:
            # With the operators' connection that is there when it is looked at again.
            admin.loads()
            files, router_bytes = second.holds(), second.router_bytes()
        # Whole answers would lie in the client's buffers before a fast server could be killed.
        with Gate() as gate, Client([gate.address, second.facts["grpc"]], max_retries=4) as client:
            gate.lead_to(first.facts["grpc"], hold_after=self._load.held_bytes)
            traffic = Traffic(client, self.asked, self.expected)
            try:
                gate.wait_held()
                wait_until(
                    lambda: len(set(records(self._redis)) - known) >= len(self.asked),
                    WAIT_S,
                    lambda: f"streams have no records: {traffic.failures}",
                )
                # What has passed the gate may not have reached the client's threads.
                wait_until(
                    lambda: len(traffic.running()) >= len(self.asked) // 2,
                    WAIT_S,
                    lambda: f"few streams have tokens: {traffic.failures}",
                )
                first.kill()
                gate.lead_to(None)
                ended = traffic.num_answers
                wait_until(
                    lambda: (
                        traffic.num_answers >= ended + len(self.asked) or bool(traffic.failures)
                    ),
                    2 * WAIT_S,
                    lambda: "streams do not go on",
                )
            finally:
                traffic.end()
            assert traffic.failures == [], second.program.output
        second.wait_settled(files)
        assert second.router_bytes() - router_bytes < MORE_ROUTER_BYTES
        self.num_hit += traffic.num_resumes
        self.num_taken += int(second.metric(RESUMED) - before)
        again = self._start()
        again.wait_ready()
        self.pair = [second, again]


@pytest.mark.model
@pytest.mark.timeout(600)
def test_streams_outlive_their_server(
    really_served: Callable[[], Served], redis: RedisServer
) -> None:
    losses = Losses(really_served, redis, real_load())
    losses.lose()
    print(f"hit {losses.num_hit}, taken over {losses.num_taken}", flush=True)
    assert losses.num_hit > 0
    assert losses.num_taken >= losses.num_hit


@pytest.mark.deep
@pytest.mark.model
@pytest.mark.timeout(3600)
def test_streams_outlive_one_server_after_another(
    served: Callable[[], Served], really_served: Callable[[], Served], redis: RedisServer
) -> None:
    for start_one, load, num_losses in (
        (really_served, real_load(), 5),
        (served, tiny_load(), 25),
    ):
        losses = Losses(start_one, redis, load)
        for _ in range(num_losses):
            losses.lose()
        print(f"hit {losses.num_hit}, taken over {losses.num_taken}", flush=True)
        assert losses.num_hit >= num_losses
        assert losses.num_taken >= losses.num_hit
        for one in losses.pair:
            one.kill()


@pytest.mark.timeout(300)
def test_events_over_http_outlive_their_server_and_spoiled_records_are_refused(
    served: Callable[[], Served], redis: RedisServer
) -> None:
    first, second = served(), served()
    first.wait_ready()
    second.wait_ready()
    body = {
        "prompt": "one two three one two",
        "n": 2,
        "max_tokens": 1500,
        "temperature": 0.9,
        "seed": 23,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    with (
        httpx.Client(base_url=first.url, timeout=WAIT_S) as client,
        httpx.Client(base_url=second.url, timeout=WAIT_S) as other,
    ):
        whole = other.post("/v1/completions", json=body).raise_for_status().json()
        streamed = {**body, "stream": True}
        with ExitStack() as open_streams:
            begun = []
            for events in (Events(), Events()):
                response = open_streams.enter_context(
                    client.stream("POST", "/v1/completions", json=streamed)
                )
                lines = response.iter_lines()
                events.read_lines(lines, 4)
                begun.append(events)
            wait_until(lambda: len(records(redis)) == 2, WAIT_S, lambda: f"{redis.keys()}")
            first.kill()
        good, spoiled = begun
        with good.go_on(other) as response:
            events_left = 1_000_000
            good.read(response, events_left)
        assert good.done
        assert good.token_ids == [choice["token_ids"] for choice in whole["choices"]]
        assert good.texts == [choice["text"] for choice in whole["choices"]]
        for key in records(redis):
            redis.ask("HSET", key, "h", "spxs\x01garbage")
        with spoiled.go_on(other) as response:
            assert response.status_code == 400, response.read()
    assert second.metric(REFUSED) == 1
    assert second.metric(RESUMED) == 1


@pytest.mark.timeout(300)
def test_streams_do_not_notice_the_end_of_redis(
    served: Callable[[], Served], redis: RedisServer
) -> None:
    only = served()
    only.wait_ready()
    asked = options(8, 300)
    with Client(only.facts["grpc"], max_retries=0) as client:
        expected = reference(client, asked)
        traffic = Traffic(client, asked, expected)
        try:
            wait_until(lambda: len(records(redis)) > 0, WAIT_S, lambda: f"{redis.keys()}")
            redis.kill()
            ended = traffic.num_answers
            wait_until(
                lambda: traffic.num_answers >= ended + len(asked) or bool(traffic.failures),
                WAIT_S,
                lambda: "streams do not go on",
            )
            redis.start()
            # Streams that run, and those to come, are written again.
            wait_until(lambda: len(records(redis)) > 0, WAIT_S, lambda: f"{redis.keys()}")
        finally:
            traffic.end()
    assert traffic.failures == []
