"""Streams: retry before the first token, interruption after it, cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import grpc
import pytest

import spectrie
from spectrie import errors
from tests.client.scripted import Server, delta, fail, finished, started

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def until(condition: Callable[[], bool]) -> bool:
    """Waits up to a minute for `condition`."""
    pause = threading.Event()
    for _ in range(6000):
        if condition():
            return True
        pause.wait(0.01)
    return False


def test_final_gives_the_whole_answer(server: Server) -> None:
    server.script.streams = [[started(), delta("ab", 1, 2), delta("cd", 3, 4), finished()]]
    with spectrie.Client(server.target) as client:
        assert client.stream("x").final().text == "abcd"


def test_deltas_and_the_whole_answer_tell_log_probabilities(server: Server) -> None:
    first = delta("ab", 1, 2)
    for token in (1, 2):
        first.delta.logprobs.add(token_id=token, logprob=-token)
    server.script.streams = [[started(), first, delta("cd", 3), finished()]]
    with spectrie.Client(server.target) as client, client.stream("x", logprobs=0) as stream:
        deltas = list(stream)
        completion = stream.final()
    expected = (spectrie.TokenLogprobs(1, -1.0, {}), spectrie.TokenLogprobs(2, -2.0, {}))
    assert [one.logprobs for one in deltas] == [expected, None]
    assert completion.logprobs == expected


def test_failure_before_the_first_token_is_retried(server: Server, sleeps: list[float]) -> None:
    server.script.streams = [
        [started(), fail(UNAVAILABLE, "worker lost")],
        [started(), delta("ok", 1), finished()],
    ]
    with spectrie.Client(server.target) as client:
        assert [d.text for d in client.stream("x")] == ["ok"]
    assert len(sleeps) == 1


def test_failure_after_the_first_token_carries_the_partial_answer(
    server: Server, sleeps: list[float]
) -> None:
    server.script.streams = [[started(), delta("ab", 1, 2), fail(UNAVAILABLE, "worker lost")]]
    with spectrie.Client(server.target) as client:
        stream = client.stream("x")
        with pytest.raises(errors.StreamInterrupted, match="worker lost") as caught:
            list(stream)
    assert caught.value.text == ("ab",)
    assert caught.value.token_ids == ((1, 2),)
    assert isinstance(caught.value.__cause__, errors.Unavailable)
    assert sleeps == []


def test_leaving_the_context_cancels_on_the_server(server: Server) -> None:
    def wait_for_its_end(context: grpc.ServicerContext) -> bool:
        return until(lambda: not context.is_active())

    server.script.streams = [[started(), delta("a", 1), wait_for_its_end, delta("b", 2)]]
    with spectrie.Client(server.target) as client:
        with client.stream("x") as stream:
            assert next(stream).text == "a"
        assert until(lambda: server.script.cancelled == 1)


def test_cancel_ends_iteration_and_final_tells(server: Server) -> None:
    gate = threading.Event()
    server.script.streams = [[started(), delta("a", 1), lambda c: gate.wait(60)]]
    with spectrie.Client(server.target) as client:
        stream = client.stream("x")
        assert next(stream).text == "a"
        stream.cancel()
        gate.set()
        assert list(stream) == []
        with pytest.raises(errors.StreamInterrupted, match="cancelled") as caught:
            stream.final()
    assert caught.value.text == ("a",)


def test_stream_closed_without_a_finish_is_an_error(server: Server) -> None:
    server.script.streams = [[started(), delta("a", 1)]]
    with (
        spectrie.Client(server.target) as client,
        pytest.raises(errors.Internal, match="without finishing"),
    ):
        client.stream("x").final()


def test_refused_stream_raises_at_once(server: Server) -> None:
    server.script.streams = [[fail(grpc.StatusCode.NOT_FOUND, "no model 'm'")]]
    with spectrie.Client(server.target) as client, pytest.raises(errors.NotFound, match="no model"):
        next(client.stream("x"))


async def test_async_stream_and_generate_behave_alike(server: Server, sleeps: list[float]) -> None:
    server.script.streams = [
        [fail(UNAVAILABLE, "loading")],
        [started(), delta("ab", 1, 2), delta("cd", 3, 4), finished()],
    ]
    async with spectrie.AsyncClient(server.target) as client, client.stream("x") as stream:
        texts = [d.text async for d in stream]
        completion = await stream.final()
    assert texts == ["ab", "cd"]
    assert completion.text == "abcd"
    assert len(sleeps) == 1


async def test_async_interruption_carries_the_partial_answer(server: Server) -> None:
    server.script.streams = [[started(), delta("ab", 1, 2), fail(UNAVAILABLE, "worker lost")]]
    async with spectrie.AsyncClient(server.target) as client:
        with pytest.raises(errors.StreamInterrupted) as caught:
            await client.stream("x").final()
    assert caught.value.text == ("ab",)


async def test_async_cancel_ends_iteration(server: Server) -> None:
    gate = threading.Event()
    server.script.streams = [[started(), delta("a", 1), lambda c: gate.wait(60)]]
    async with spectrie.AsyncClient(server.target) as client:
        stream = client.stream("x")
        assert (await anext(stream)).text == "a"
        stream.cancel()
        gate.set()
        assert [d async for d in stream] == []
        with pytest.raises(errors.StreamInterrupted, match="cancelled"):
            await stream.final()


async def test_async_errors_have_their_class(server: Server) -> None:
    server.script.unary = [fail(grpc.StatusCode.NOT_FOUND, "no model 'm'")]
    async with spectrie.AsyncClient(server.target) as client:
        with pytest.raises(errors.NotFound):
            await client.generate("x")
        with pytest.raises(errors.NotFound):
            await client.list_models()


def test_async_client_can_be_made_and_copied_outside_a_loop(server: Server) -> None:
    server.script.streams = [[started(), delta("ok", 1), finished()]]
    client = spectrie.AsyncClient(server.target).with_options(max_retries=0)

    async def use() -> str:
        text = (await client.stream("x").final()).text
        await client.close()
        return text

    assert asyncio.run(use()) == "ok"
