"""Clients of several servers: what one does not answer, the next one is asked."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import grpc
import pytest

import spectrie
from spectrie import errors
from spectrie._proto import inference_pb2 as pb
from tests.client.scripted import Server, delta, fail, finished, serve_script, started

DOWN = fail(grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
CUT = fail(grpc.StatusCode.UNAVAILABLE, "socket closed")


@pytest.fixture
def other() -> Iterator[Server]:
    """A second scripted server."""
    yield from serve_script()


@pytest.fixture
def closed() -> Iterator[str]:
    """An address at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def answers(server: Server) -> None:
    """Scripts a whole answer."""
    server.script.streams = [
        [started(token="secret"), delta("abcd", 1, 2, 3, 4, position=5), finished()]
    ]


def lost(server: Server, other: Server) -> None:
    """Scripts a stream that is cut, whose server then ends, and its rest at another one."""
    server.script.streams = [
        [started(token="secret"), delta("ab", 1, 2, position=2), CUT],
        [DOWN],
    ]
    other.script.streams = [[delta("cd", 3, 4, position=5), finished()]]


def test_stream_whose_server_is_lost_goes_on_at_the_next_at_once(
    server: Server, other: Server, sleeps: list[float]
) -> None:
    lost(server, other)
    with spectrie.Client([server.target, other.target]) as client:
        with client.stream("x") as stream:
            assert stream.final().text == "abcd"
        assert client.target == other.target
    [resumed] = other.script.requests
    assert resumed == pb.ResumeStreamRequest(
        request_id="r1",
        resume_token="secret",
        starting_after=[pb.StreamPosition(index=0, position=2)],
    )
    # The first is asked once more, since only the connection may be gone.
    assert len(server.script.requests) == 2
    assert not any(sleeps)


async def test_async_stream_goes_on_alike(
    server: Server, other: Server, sleeps: list[float]
) -> None:
    lost(server, other)
    async with spectrie.AsyncClient([server.target, other.target]) as client:
        assert (await client.stream("x").final()).text == "abcd"
    assert len(other.script.requests) == 1
    assert not any(sleeps)


def test_server_that_does_not_answer_is_passed_over(
    closed: str, server: Server, sleeps: list[float]
) -> None:
    answers(server)
    server.script.unary = [pb.TokenizeResponse(token_ids=[1, 2])]
    with spectrie.Client([closed, server.target]) as client:
        assert client.tokenize("x") == [1, 2]
        # It is the one that is asked from now on.
        assert client.target == server.target
        assert client.with_options(timeout=60).stream("x").final().text == "abcd"
    assert not any(sleeps)


def test_attempts_at_all_servers_are_bounded(
    server: Server, other: Server, sleeps: list[float]
) -> None:
    server.script.streams = other.script.streams = [[DOWN]]
    with spectrie.Client([server.target, other.target], max_retries=2) as client:
        with pytest.raises(errors.Unavailable):
            client.stream("x").final()
    # Each once at first and once more, then those that wait.
    assert len(server.script.requests) + len(other.script.requests) == 1 + 2 + 2
    assert sum(wait > 0 for wait in sleeps) == 2


def test_without_retries_one_server_is_asked(
    server: Server, other: Server, sleeps: list[float]
) -> None:
    server.script.streams = [[DOWN]]
    answers(other)
    with spectrie.Client([server.target, other.target], max_retries=0) as client:
        with pytest.raises(errors.Unavailable):
            client.stream("x").final()
        # The next call is the other's.
        assert client.stream("x").final().text == "abcd"
    assert sleeps == []


@pytest.mark.parametrize("target", [[], ["127.0.0.1:1", "http://host:1"], ["host"]])
def test_addresses_are_checked(target: list[str]) -> None:
    with pytest.raises(errors.ConfigError, match="target"):
        spectrie.Client(target)
