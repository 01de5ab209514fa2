"""Streams of one answer, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self

import grpc

from spectrie._proto import inference_pb2 as pb
from spectrie.client.policy import Attempts
from spectrie.client.replies import Collector
from spectrie.errors import SpectrieError, StreamInterrupted
from spectrie.types import Completion, Delta

__all__ = ["AsyncGenerationStream", "GenerationStream"]

OpenCall = Callable[[float | None], Any]
"""Starts the call with a time limit in seconds."""
ResumeCall = Callable[[pb.ResumeStreamRequest, float | None], Any]
"""Goes on with a stream that was cut, with a time limit in seconds."""
ReadError = Callable[[grpc.RpcError, bool], SpectrieError]
"""Converts a failed call to an error; whether it had given a part of the answer."""


class _Progress:
    """State that both kinds of stream share: the answer so far and the handling of failures."""

    def __init__(
        self,
        open_call: OpenCall,
        resume_call: ResumeCall,
        read_error: ReadError,
        attempts: Attempts,
    ) -> None:
        self._open_call = open_call
        self._resume_call = resume_call
        self._read_error = read_error
        self._attempts = attempts
        self._collector = Collector()
        self._call: Any = open_call(attempts.remaining_s())
        self._cut: SpectrieError | None = None
        self._was_read = False
        self._cancelled = False
        self._ended = False
        self._num_resumes = 0

    @property
    def text_so_far(self) -> str:
        """The text of the deltas returned so far."""
        return "".join(self._collector.text[:1])

    @property
    def request_id(self) -> str | None:
        """The server's name for the request, once received."""
        return self._collector.started.request_id or None

    @property
    def num_resumes(self) -> int:
        """How often the answer was cut and then went on where it was."""
        return self._num_resumes

    def cancel(self) -> None:
        """Stops the answer; the server releases it within one step. Iteration then ends."""
        self._cancelled = True
        self._call.cancel()

    def _delay_after(self, failure: grpc.RpcError) -> float | None:
        """Seconds to wait before retrying; None at a cancelled stream's end.

        Raises:
            SpectrieError: The failure is final.
        """
        if self._cancelled:
            self._ended = True
            return None
        error = self._read_error(failure, self._was_read)
        if self._collector.has_output:
            return self._delay_before_resuming(error)
        delay = self._attempts.delay_before_retry(error)
        if delay is None:
            self._ended = True
            raise error from None
        return delay

    def _delay_before_resuming(self, error: SpectrieError) -> float:
        cut = self._cut or error
        # A server that says why it ended the stream has nothing left of it, but for one that shuts down.
        is_cut = self._cut is not None or getattr(error, "reason", None) in (None, "UNAVAILABLE")
        is_resumable = is_cut and self._collector.started.HasField("resume_token")
        delay = self._attempts.delay_before_retry(error) if is_resumable else None
        if delay is None:
            self._ended = True
            raise self._interrupted(f"the answer broke off: {cut}") from cut
        self._cut = cut
        return delay

    def _reopen(self) -> None:
        if self._cancelled:
            self._ended = True
            return
        remaining_s = self._attempts.remaining_s()
        self._was_read = False
        if self._collector.has_output:
            self._call = self._resume_call(self._collector.resume_request(), remaining_s)
        else:
            self._collector = Collector()
            self._call = self._open_call(remaining_s)
        if self._cancelled:
            # Another thread cancelled the call before this one.
            self._call.cancel()

    def _take(self, event: pb.GenerateEvent) -> Delta | None:
        self._was_read = True
        if self._cut is not None:
            # It goes on: the next cut has as many attempts as this one.
            self._cut = None
            self._num_resumes += 1
            self._attempts.renew()
        return self._collector.add(event)

    def _interrupted(self, message: str) -> StreamInterrupted:
        collector = self._collector
        return StreamInterrupted(message, text=collector.text, token_ids=collector.token_ids)

    def _completion(self) -> Completion:
        if self._cancelled:
            raise self._interrupted("the stream was cancelled before the answer was complete")
        return self._collector.completion()


class GenerationStream(_Progress, Iterator[Delta]):
    """An answer in pieces, returned by `Client.stream`: an iterator and a context manager.

    Leaving the context, or `cancel()`, stops the answer. A failure before the first token is
    retried by the client's settings. After it the answer goes on where it was, without losing or
    repeating a piece, if the server still has it (`--resume-window`), or at another of the client's
    servers, if they share a Redis (`--redis`); otherwise StreamInterrupted is raised with the text
    received.
    """

    def __next__(self) -> Delta:
        """Waits for the next piece and returns it."""
        while not self._ended:
            try:
                event = next(self._call)
            except StopIteration:
                self._ended = True
            except grpc.RpcError as failure:
                delay = self._delay_after(failure)
                if delay is not None:
                    time.sleep(delay)
                    self._reopen()
            else:
                delta = self._take(event)
                if delta is not None:
                    return delta
        raise StopIteration

    def final(self) -> Completion:
        """Waits for the end and returns the whole answer.

        Raises:
            StreamInterrupted: The stream was cancelled or failed after its first token.
            SpectrieError: The request failed before its first token.
        """
        for _ in self:
            pass
        return self._completion()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended:
            self.cancel()


class AsyncGenerationStream(_Progress, AsyncIterator[Delta]):
    """An answer in pieces, returned by `AsyncClient.stream`: `async for` and `async with`.

    Behaves as GenerationStream does.
    """

    async def __anext__(self) -> Delta:
        """Waits for the next piece and returns it."""
        while not self._ended:
            try:
                event = await self._call.read()
            except grpc.RpcError as failure:
                await self._retry_after(failure)
            except asyncio.CancelledError:
                # grpc.aio raises it too when the call, and not the task, was cancelled.
                if not self._cancelled:
                    self.cancel()
                    raise
                self._ended = True
            else:
                if event is grpc.aio.EOF:
                    self._ended = True
                    break
                delta = self._take(event)
                if delta is not None:
                    return delta
        raise StopAsyncIteration

    async def _retry_after(self, failure: grpc.RpcError) -> None:
        delay = self._delay_after(failure)
        if delay is not None:
            await asyncio.sleep(delay)
            self._reopen()

    async def final(self) -> Completion:
        """Waits for the end and returns the whole answer.

        Raises:
            StreamInterrupted: The stream was cancelled or failed after its first token.
            SpectrieError: The request failed before its first token.
        """
        async for _ in self:
            pass
        return self._completion()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._ended:
            self.cancel()
