"""Streams that are cut go on by themselves, a bounded number of times."""

from __future__ import annotations

import time

import grpc
import pytest
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2

import spectrie
from spectrie import errors
from spectrie._proto import inference_pb2 as pb
from tests.client.scripted import Server, delta, fail, finished, started

CUT = fail(grpc.StatusCode.UNAVAILABLE, "socket closed")


def place(position: int) -> pb.ResumeStreamRequest:
    """The call that goes on behind a position of the only choice."""
    return pb.ResumeStreamRequest(
        request_id="r1",
        resume_token="secret",
        starting_after=[pb.StreamPosition(index=0, position=position)],
    )


def cut_twice(server: Server) -> None:
    """Scripts an answer that is cut behind its second and its third token."""
    server.script.streams = [
        [started(token="secret"), delta("ab", 1, 2, position=2), CUT],
        [delta("c", 3, position=3), CUT],
        [delta("d", 4, position=5), finished()],
    ]


def test_cut_stream_goes_on_behind_what_was_received(server: Server, sleeps: list[float]) -> None:
    cut_twice(server)
    with spectrie.Client(server.target, max_retries=1) as client, client.stream("x") as stream:
        texts = [one.text for one in stream]
        assert stream.final().token_ids == (1, 2, 3, 4)
        assert stream.num_resumes == 2
    assert texts == ["ab", "c", "d"]
    assert server.script.requests[1:] == [place(2), place(3)]
    # What goes on has all its attempts again.
    assert len(sleeps) == 2


async def test_async_stream_goes_on_alike(server: Server, sleeps: list[float]) -> None:
    cut_twice(server)
    async with spectrie.AsyncClient(server.target, max_retries=1) as client:
        assert (await client.stream("x").final()).text == "abcd"
    assert server.script.requests[1:] == [place(2), place(3)]
    assert len(sleeps) == 2


def test_stream_that_the_server_no_longer_has_is_interrupted(
    server: Server, sleeps: list[float]
) -> None:
    server.script.streams = [
        [started(token="secret"), delta("ab", 1, 2, position=2), CUT],
        [fail(grpc.StatusCode.NOT_FOUND, "no stream")],
    ]
    with spectrie.Client(server.target) as client:
        stream = client.stream("x")
        with pytest.raises(errors.StreamInterrupted, match="socket closed") as caught:
            stream.final()
        assert stream.num_resumes == 0
    assert caught.value.text == ("ab",)
    assert len(server.script.requests) == 2


def test_attempts_without_an_event_are_bounded(server: Server, sleeps: list[float]) -> None:
    server.script.streams = [[started(token="secret"), delta("ab", 1, 2, position=2), CUT], [CUT]]
    with spectrie.Client(server.target, max_retries=3) as client:
        with pytest.raises(errors.StreamInterrupted, match="socket closed"):
            client.stream("x").final()
    assert len(server.script.requests) == 1 + 3
    assert sleeps == sorted(sleeps)


def test_stream_that_the_server_itself_ended_is_not_resumed(
    server: Server, sleeps: list[float]
) -> None:
    why = error_details_pb2.ErrorInfo(reason="WORKER_LOST", domain="spectrie")
    later = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=1))
    lost = fail(grpc.StatusCode.UNAVAILABLE, "the worker was lost", why, later)
    server.script.streams = [
        [started(token="secret"), delta("ab", 1, 2, position=2), lost],
        [finished()],
    ]
    with spectrie.Client(server.target) as client:
        with pytest.raises(errors.StreamInterrupted, match="the worker was lost"):
            client.stream("x").final()
    assert len(server.script.requests) == 1
    assert sleeps == []


def test_stream_of_a_server_that_shuts_down_goes_on(server: Server, sleeps: list[float]) -> None:
    why = error_details_pb2.ErrorInfo(reason="UNAVAILABLE", domain="spectrie")
    later = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=1))
    ended = fail(grpc.StatusCode.UNAVAILABLE, "the server is shutting down", why, later)
    server.script.streams = [
        [started(token="secret"), delta("ab", 1, 2, position=2), ended],
        [delta("c", 3, position=4), finished()],
    ]
    with spectrie.Client(server.target) as client:
        assert client.stream("x").final().text == "abc"
    assert server.script.requests[1:] == [place(2)]
    assert sleeps == [1.0]


def test_resuming_that_is_refused_for_now_is_tried_again(
    server: Server, sleeps: list[float]
) -> None:
    why = error_details_pb2.ErrorInfo(reason="RATE_LIMITED", domain="spectrie")
    later = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=1))
    refused = fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "used up", why, later)
    server.script.streams = [
        [started(token="secret"), delta("ab", 1, 2, position=2), CUT],
        [refused],
        [delta("c", 3, position=4), finished()],
    ]
    with spectrie.Client(server.target) as client:
        assert client.stream("x").final().text == "abc"
    assert sleeps[1:] == [1.0]


def test_stream_cancelled_before_it_goes_on_is_not_opened_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script.streams = [[started(token="secret"), delta("ab", 1, 2, position=2), CUT]]
    with spectrie.Client(server.target) as client:
        stream = client.stream("x")
        # As another thread does while this one waits.
        monkeypatch.setattr(time, "sleep", lambda _: stream.cancel())
        assert [one.text for one in stream] == ["ab"]
        with pytest.raises(errors.StreamInterrupted, match="cancelled"):
            stream.final()
    assert len(server.script.requests) == 1


async def test_async_stream_cancelled_before_it_goes_on_is_not_opened_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script.streams = [[started(token="secret"), delta("ab", 1, 2, position=2), CUT]]
    async with spectrie.AsyncClient(server.target) as client:
        stream = client.stream("x")

        async def cancel(_: float) -> None:
            stream.cancel()

        monkeypatch.setattr("spectrie.client.stream.asyncio.sleep", cancel)
        assert [one.text async for one in stream] == ["ab"]
    assert len(server.script.requests) == 1


def test_call_that_was_opened_while_the_stream_was_cancelled_is_cancelled(
    server: Server, sleeps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script.streams = [
        [started(token="secret"), delta("ab", 1, 2, position=2), CUT],
        [delta("c", 3, position=4), finished()],
    ]
    with spectrie.Client(server.target) as client:
        stream = client.stream("x")
        resume = stream._resume_call

        def resume_late(request: pb.ResumeStreamRequest, timeout: float | None) -> object:
            stream.cancel()
            return resume(request, timeout)

        monkeypatch.setattr(stream, "_resume_call", resume_late)
        assert [one.text for one in stream][:1] == ["ab"]
        with pytest.raises(errors.StreamInterrupted, match="cancelled"):
            stream.final()
        assert stream._call.cancelled()
