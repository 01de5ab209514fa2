"""Routers that share through a real Redis: text learned behind one drafts behind the other, and no stream fails."""

from __future__ import annotations

import hashlib
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from bench.router.certificates import Authority
from spectrie import AdminClient, Client, Completion, SpeculationOptions
from spectrie.errors import ResourceExhausted
from tests.http.certificates import needs_openssl
from tests.system.chaos.traffic import Traffic, asks, reference
from tests.system.fleet.redis_server import RedisServer
from tests.system.server import Program, serve
from tests.waiting import wait_until

PROMPT = "def in the"
NUM_TOKENS = 96
WAIT_S = 60.0


class Served:
    """A router with a worker of its own, and clients of both kinds."""

    def __init__(self, model: Path, redis: RedisServer, *arguments: str) -> None:
        self.program: Program = serve(
            model,
            "--speculation=prob",
            "--drafting-cost-ms=0",
            "--snapshot-every=0",
            "--bigrams=off",
            f"--redis={redis.address}",
            *arguments,
        )

    def wait_ready(self, api_key: str | None = None) -> None:
        """Waits until it serves."""
        self.facts: dict[str, Any] = self.program.wait_ready()
        self.client = Client(self.facts["grpc"], api_key=api_key, max_retries=0)
        self.admin = AdminClient(self.facts["admin"])

    def answer(self, *, learn: bool = True) -> Completion:
        """The answer to the prompt."""
        return self.client.generate(
            PROMPT,
            max_tokens=NUM_TOKENS,
            temperature=0,
            ignore_eos=True,
            speculation=SpeculationOptions(learn=learn),
        )

    def num_tokens(self) -> int:
        """Tokens that its worker has learned."""
        return sum(one.num_tokens for one in self.admin.list_namespaces())

    def wait_learned(self, tokens: int) -> None:
        """Waits until its worker has learned so many."""
        wait_until(lambda: self.num_tokens() >= tokens, WAIT_S, lambda: self.program.output)


@pytest.fixture
def served(tiny: Path, redis: RedisServer) -> Iterator[Callable[..., Served]]:
    """Starts servers of one Redis; they end with the test."""
    with ExitStack() as stack:

        def start(*arguments: str) -> Served:
            one = Served(tiny, redis, *arguments)
            stack.callback(lambda: one.program.__exit__())
            return one

        yield start


def shared(answer: Completion) -> int:
    """Tokens that were drafted from text of other requests."""
    return answer.speculation.accepted_by_source.get("shared", 0)


@pytest.mark.timeout(300)
def test_text_learned_behind_one_router_drafts_behind_the_others_and_is_forgotten_there(
    served: Callable[..., Served], redis: RedisServer
) -> None:
    first, second = served(), served()
    first.wait_ready()
    second.wait_ready()
    plain = second.answer(learn=False)
    assert shared(plain) == 0
    assert redis.num_texts() == 0
    assert first.answer().token_ids == plain.token_ids
    second.wait_learned(NUM_TOKENS)
    drafted = second.answer(learn=False)
    assert shared(drafted) > NUM_TOKENS // 2
    assert drafted.token_ids == plain.token_ids
    third = served()
    third.wait_ready()
    # At once: it learned before it was ready.
    joined = third.answer(learn=False)
    assert shared(joined) > NUM_TOKENS // 2
    assert joined.token_ids == plain.token_ids

    assert first.admin.forget_namespace("default") == 1
    for other in (second, third):
        wait_until(lambda: other.num_tokens() == 0, WAIT_S, lambda: other.program.output)  # noqa: B023
        again = other.answer(learn=False)
        assert shared(again) == 0
        assert again.token_ids == plain.token_ids
    fourth = served()
    fourth.wait_ready()
    assert fourth.num_tokens() == 0


@pytest.mark.timeout(300)
def test_router_that_was_away_while_redis_was_flushed_forgets_its_snapshot(
    served: Callable[..., Served], redis: RedisServer, tmp_path: Path
) -> None:
    first = served(f"--state-dir={tmp_path / 'first'}")
    away = served(f"--state-dir={tmp_path / 'away'}")
    first.wait_ready()
    away.wait_ready()
    away.answer()
    first.wait_learned(NUM_TOKENS)
    away.program.signal(signal.SIGTERM)
    assert away.program.wait() == 0, away.program.output
    first.admin.forget_namespace("default")
    assert (tmp_path / "first" / "forgotten.json").exists()
    redis.ask("FLUSHALL")
    wait_until(
        lambda: any(":forgotten:" in key for key in redis.keys()),
        WAIT_S,
        lambda: f"what was forgotten does not come back: {redis.keys()}",
    )
    again = served(f"--state-dir={tmp_path / 'away'}")
    again.wait_ready()
    assert again.num_tokens() == 0
    assert shared(again.answer(learn=False)) == 0


@pytest.mark.timeout(400)
def test_no_stream_fails_whatever_happens_to_redis(
    served: Callable[..., Served], redis: RedisServer
) -> None:
    pair = [served(), served()]
    for one in pair:
        one.wait_ready()
    asked = [{**options, "max_tokens": 200} for options in asks(200)[:8]]
    expected = reference(pair[0].client, asked)
    traffics = [Traffic(one.client, asked, expected) for one in pair]

    def go_on() -> None:
        """Lets every stream get on, in whatever state Redis is."""
        before = [traffic.num_answers for traffic in traffics]

        def has_gone_on() -> bool:
            failures = [line for traffic in traffics for line in traffic.failures]
            assert failures == []
            pairs = zip(traffics, before, strict=True)
            return all(traffic.num_answers >= count + 8 for traffic, count in pairs)

        wait_until(has_gone_on, WAIT_S, lambda: "streams do not go on")

    try:
        go_on()
        wait_until(lambda: redis.num_texts() > 0, WAIT_S, lambda: f"no text: {redis.keys()}")
        redis.kill()
        go_on()
        redis.start()
        flows_again(redis)
        redis.ask("FLUSHALL")
        flows_again(redis)
        redis.spoil()
        flows_again(redis)
        redis.stop()
        go_on()
        redis.go_on()
        flows_again(redis)
        redis.ask("CONFIG", "SET", "maxmemory", "1")
        go_on()
        redis.ask("CONFIG", "SET", "maxmemory", "0")
        flows_again(redis)
        go_on()
    finally:
        for traffic in traffics:
            traffic.end()
    assert [traffic.failures for traffic in traffics] == [[], []]
    print(f"answers: {[traffic.num_answers for traffic in traffics]}", flush=True)
    for one in pair:
        assert "panicked" not in one.program.output


@pytest.mark.timeout(300)
def test_routers_spend_one_limit_of_a_key(
    served: Callable[..., Served], redis: RedisServer, tmp_path: Path
) -> None:
    limit = 20
    digest = hashlib.sha256(b"key-of-ann").hexdigest()
    entry = f'[[keys]]\ntenant = "ann"\nsha256 = "{digest}"\nrequests_per_minute = {limit}\n'
    keys = tmp_path / "keys.toml"
    keys.write_text(entry)
    pair = [served(f"--api-keys={keys}") for _ in range(2)]
    for one in pair:
        one.wait_ready("key-of-ann")
        # What is granted without Redis is not told it later.
        one.program.wait_line("the fleet's Redis is connected")
    begun_ms = time.time() * 1000 - 1
    granted = 0

    def filled(until_ms: float) -> float:
        """What the limit was filled up by since it was first spent from, evenly."""
        return (until_ms - begun_ms) * limit / 60_000

    def is_told() -> bool:
        """Whether Redis knows of all that was granted, which a router says behind the answer."""
        (key,) = [key for key in redis.keys() if ":limit:" in key] or [""]
        spent, at_ms = cast("list[Any]", redis.ask("HMGET", key, "s", "t"))
        if not spent or not at_ms:
            return False
        return float(spent) + filled(float(at_ms)) >= granted

    for _ in range(limit):
        for one in pair:
            try:
                one.client.generate(PROMPT, max_tokens=1)
            except ResourceExhausted:
                continue
            granted += 1
            wait_until(is_told, WAIT_S, lambda: f"not told: {redis.keys()}")
    # Each router may have a slice of 1 that the other lacks.
    assert limit - 2 <= granted <= limit + filled(time.time() * 1000) + 4


@needs_openssl
def test_router_connects_by_tls_with_a_password_that_no_line_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("redis")
    arguments = ["router", "--http=127.0.0.1:0", "--grpc=off", "--log-level=trace"]
    with socket.socket() as held:
        # Bound and not listened on: Redis may have the port, and nothing else gets it.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        options = ["--tls-port", str(port), "--tls-auth-clients", "no", "--requirepass", "secret"]
        options += ["--tls-cert-file", str(own.cert), "--tls-key-file", str(own.key)]
        options += ["--tls-ca-cert-file", str(authority.cert)]
        redis = RedisServer(tmp_path, *options)
    monkeypatch.setenv("SPECTRIE_REDIS", f"rediss://:secret@localhost:{port}/1")
    with redis:
        with Program(*arguments) as distrustful:
            distrustful.wait_line("the fleet's Redis cannot be used")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.cert))
        with Program(*arguments) as program:
            program.wait_line("the fleet's Redis is connected")
        assert "secret" not in distrustful.output + program.output


def flows_again(redis: RedisServer) -> None:
    """Waits until texts arrive on the bus again."""
    newest = newest_entry(redis)

    def has_come() -> bool:
        found = newest_entry(redis)
        return found not in ("", newest)

    wait_until(has_come, WAIT_S, lambda: f"no text comes: {redis.keys()}")
    time.sleep(0.5)


def newest_entry(redis: RedisServer) -> str:
    """Place of the last text, empty if there is none."""
    for key in redis.keys():
        if ":text:" in key and redis.ask("TYPE", key) == "stream":
            entries = redis.ask("XREVRANGE", key, "+", "-", "COUNT", "1")
            if isinstance(entries, list) and entries:
                return str(entries[0][0])
    return ""
