"""A running answer in process: its deltas, and at the end the whole of it."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from spectrie.errors import (
    Cancelled,
    DeadlineExceeded,
    Internal,
    InvalidArgument,
    SpectrieError,
    StreamInterrupted,
)
from spectrie.llm.request import RequestPlan
from spectrie.types import (
    Completion,
    Delta,
    FinishReason,
    Source,
    SpeculationStats,
    Timing,
    TokenLogprobs,
    Usage,
)

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["LocalStream", "Piece"]

# FinishKind of worker.proto.
_EOS, _STOP_TOKEN, _LENGTH, _CANCELLED, _DEADLINE, _REFUSED = range(1, 7)
_COMPLETE = 9
_REASONS: dict[int, FinishReason] = {
    _EOS: "stop",
    _STOP_TOKEN: "stop",
    _LENGTH: "length",
    _COMPLETE: "stop",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """What one step gave a request, or the error that ended everything."""

    token_ids: list[int]
    sources: Sequence[int]
    finish: _core.Finish | None
    error: SpectrieError | None = None
    logprobs: list[_core.TokenLogprobs] | None = None
    prompt_logprobs: list[_core.TokenLogprobs | None] | None = None


class LocalStream(Iterator[Delta]):
    """An answer in pieces, as `LLM.stream` gives it: an iterator and a context manager.

    Leaving the context, or `cancel()`, stops the answer. One thread reads it.

    Args:
        plan: The checked request.
        text: Turns its tokens into text and looks for stop texts.
        cancel: Takes `(keep_tokens, finished)` and stops the request in the engine.
        model: Name of the model that answers.
        request_id: Name of the request.
    """

    def __init__(
        self,
        plan: RequestPlan,
        text: _core.TextStream,
        cancel: Callable[[int | None, bool], None],
        *,
        model: str,
        request_id: str,
    ) -> None:
        self._plan = plan
        self._text = text
        self._cancel = cancel
        self._model = model
        self._request_id = request_id
        self._pieces: queue.SimpleQueue[Piece] = queue.SimpleQueue()
        self._answer: list[str] = []
        self._token_ids: list[int] = []
        self._sources: list[int] = []
        self._logprobs: list[TokenLogprobs] | None = None
        self._prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
        self._stop_text: str | None = None
        self._finish: _core.Finish | None = None
        self._cancelled = False
        self._error: SpectrieError | None = None

    @property
    def text_so_far(self) -> str:
        """All text that has come."""
        return "".join(self._answer)

    @property
    def request_id(self) -> str:
        """Name of the request."""
        return self._request_id

    def push(self, piece: Piece) -> None:
        """Takes what a step gave; called by the step loop."""
        self._pieces.put(piece)

    def cancel(self) -> None:
        """Stops the answer within one step; what came so far stays readable."""
        if not self._ended:
            self._cancelled = True
            self._cancel(None, False)

    @property
    def _ended(self) -> bool:
        return self._cancelled or self._finish is not None or self._error is not None

    def __next__(self) -> Delta:
        """The next piece; waits for it."""
        while not self._ended:
            delta = self._take(self._pieces.get())
            if delta is not None:
                return delta
        if self._error is not None:
            raise self._error
        raise StopIteration

    def final(self) -> Completion:
        """Waits for the end and gives the whole answer.

        Raises:
            StreamInterrupted: It was cancelled.
            DeadlineExceeded: `timeout` passed before the end.
            SpectrieError: It failed.
        """
        for _ in self:
            pass
        if self._finish is None:
            raise StreamInterrupted(
                "the stream was cancelled before the answer was complete",
                text=(self.text_so_far,),
                token_ids=(tuple(self._token_ids),),
            )
        return self._completion(self._finish)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()

    def _take(self, piece: Piece) -> Delta | None:
        if piece.error is not None:
            self._error = piece.error
            return None
        delta = self._read(piece) if piece.token_ids and self._stop_text is None else None
        if piece.finish is None:
            return delta
        ended_well = self._stop_text is not None or piece.finish.kind in _REASONS
        if not ended_well:
            self._error = self._failure(piece.finish)
            return None
        self._finish = piece.finish
        rest = self._text.finish() if self._stop_text is None else ""
        if not rest:
            return delta
        self._answer.append(rest)
        return Delta(
            text=rest if delta is None else delta.text + rest,
            token_ids=() if delta is None else delta.token_ids,
            sources=() if delta is None else delta.sources,
            index=self._plan.choice,
            logprobs=None if delta is None else delta.logprobs,
        )

    def _read(self, piece: Piece) -> Delta:
        before = len(self._token_ids)
        self._token_ids.extend(piece.token_ids)
        self._sources.extend(piece.sources)
        if piece.logprobs is not None:
            self._logprobs = self._logprobs or []
            self._logprobs.extend(map(_told, piece.logprobs))
        if piece.prompt_logprobs is not None:
            told = piece.prompt_logprobs
            self._prompt_logprobs = tuple(None if one is None else _told(one) for one in told)
        read = self._text.push(piece.token_ids)
        if read.stop is not None:
            self._stop_text = read.stop
            keep = len(self._token_ids) if read.keep_tokens is None else read.keep_tokens
            del self._token_ids[keep:]
            del self._sources[keep:]
            if self._logprobs is not None:
                del self._logprobs[keep:]
            if piece.finish is None:
                self._cancel(keep, True)
        self._answer.append(read.text)
        return Delta(
            text=read.text,
            token_ids=tuple(self._token_ids[before:]),
            sources=self._labels(self._sources[before:]),
            index=self._plan.choice,
            logprobs=None if self._logprobs is None else tuple(self._logprobs[before:]),
        )

    def _labels(self, sources: list[int]) -> tuple[Source, ...]:
        return tuple(Source(s) for s in sources) if self._plan.with_sources else ()

    def _failure(self, finish: _core.Finish) -> SpectrieError:
        message = finish.message or "the request ended without an answer"
        if finish.kind == _CANCELLED:
            return Cancelled("the request was cancelled", request_id=self._request_id)
        if finish.kind == _DEADLINE:
            return DeadlineExceeded(
                f"no answer within {self._plan.timeout_s:g} s"
                if self._plan.timeout_s is not None
                else message,
                timeout_s=self._plan.timeout_s,
                request_id=self._request_id,
            )
        if finish.kind == _REFUSED:
            return InvalidArgument(message, request_id=self._request_id)
        return Internal(message, request_id=self._request_id)

    def _completion(self, finish: _core.Finish) -> Completion:
        by_source = enumerate(finish.accepted_by_source)
        labels = {int(source): source.label for source in Source}
        stopped_by_token = self._stop_text is None and finish.kind in (_EOS, _STOP_TOKEN)
        return Completion(
            text=self.text_so_far,
            token_ids=tuple(self._token_ids),
            finish_reason="stop" if self._stop_text is not None else _REASONS[finish.kind],
            usage=self._usage(finish),
            speculation=SpeculationStats(
                verify_steps=finish.verify_steps,
                drafted_tokens=finish.drafted_tokens,
                accepted_tokens=finish.accepted_tokens,
                accepted_by_source={labels[s]: count for s, count in by_source if count},
            ),
            stop_text=self._stop_text,
            stop_token_id=self._token_ids[-1] if stopped_by_token else None,
            sources=self._labels(self._sources),
            timing=Timing(finish.queue_ns, finish.prefill_ns, finish.decode_ns),
            index=self._plan.choice,
            model=self._model,
            request_id=self._request_id,
            seed=self._plan.seed,
            logprobs=None if self._logprobs is None else tuple(self._logprobs),
            prompt_logprobs=self._prompt_logprobs,
        )

    def _usage(self, finish: _core.Finish) -> Usage:
        predicted = self._plan.num_prediction_tokens
        accepted = None if predicted is None else finish.accepted_prediction_tokens
        rejected = None
        if predicted is not None and accepted is not None:
            rejected = max(predicted - accepted, 0)
        return Usage(
            prompt_tokens=self._plan.num_prompt_tokens,
            completion_tokens=len(self._token_ids),
            cached_tokens=finish.cached_tokens,
            accepted_prediction_tokens=accepted,
            rejected_prediction_tokens=rejected,
        )


def _told(one: _core.TokenLogprobs) -> TokenLogprobs:
    top = zip(one.top_ids, one.top_logprobs, strict=True)
    return TokenLogprobs(one.token_id, one.logprob, dict(top))
