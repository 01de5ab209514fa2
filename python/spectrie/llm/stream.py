"""A running answer in this process: its deltas, and the whole answer at the end."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Self

from spectrie.errors import SpectrieError, StreamInterrupted
from spectrie.types import Completion, Delta, Source, SpeculationStats, Timing, TokenLogprobs, Usage

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["LocalStream"]


class LocalStream(Iterator[Delta]):
    """An answer in pieces, as returned by `LLM.stream`: an iterator and a context manager.

    Leaving the context, or calling `cancel()`, stops the answer. Only one thread may read it.

    Args:
        choice: The resolved choice; assembles its text, tokens and usage.
        cancel: Stops the request in the engine.
        model: Name of the model that answers.
    """

    def __init__(self, choice: _core.Choice, cancel: Callable[[], None], *, model: str) -> None:
        self._choice = choice
        self._cancel = cancel
        self._model = model
        self._steps: queue.SimpleQueue[tuple[_core.StepOutput, int] | SpectrieError] = (
            queue.SimpleQueue()
        )
        self._end: _core.AnswerEnd | None = None
        self._cancelled = False
        self._error: SpectrieError | None = None

    @property
    def text_so_far(self) -> str:
        """All text received so far."""
        return self._choice.text

    @property
    def request_id(self) -> str:
        """Name of the request."""
        return self._choice.request_id

    def push(self, step: tuple[_core.StepOutput, int] | SpectrieError) -> None:
        """Receives a step and the request's index in it, or an error; called by the step loop."""
        self._steps.put(step)

    def cancel(self) -> None:
        """Stops the answer within one step; the text received so far stays readable."""
        if not self._ended:
            self._cancelled = True
            self._cancel()

    @property
    def _ended(self) -> bool:
        return self._cancelled or self._end is not None or self._error is not None

    def __next__(self) -> Delta:
        """Waits for the next piece and returns it."""
        while not self._ended:
            delta = self._take(self._steps.get())
            if delta is not None:
                return delta
        if self._error is not None:
            raise self._error
        raise StopIteration

    def final(self) -> Completion:
        """Waits for the end and returns the whole answer.

        Raises:
            StreamInterrupted: It was cancelled.
            DeadlineExceeded: `timeout` passed before the end.
            SpectrieError: It failed.
        """
        for _ in self:
            pass
        if self._end is None:
            raise StreamInterrupted(
                "the stream was cancelled before the answer was complete",
                text=(self.text_so_far,),
                token_ids=(tuple(self._choice.token_ids),),
            )
        return _completion(self._choice, self._end, self._model)

    def is_over(self) -> bool:
        """Whether `final` returns or fails at once; takes the steps that are here."""
        while not self._ended:
            try:
                self._take(self._steps.get_nowait())
            except queue.Empty:
                return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def _take(self, step: tuple[_core.StepOutput, int] | SpectrieError) -> Delta | None:
        try:
            if isinstance(step, SpectrieError):
                raise step
            piece = self._choice.take(*step)
        except SpectrieError as error:
            self._error = error
            return None
        self._end = piece.end
        if not piece.text and not piece.token_ids:
            return None
        return Delta(
            text=piece.text,
            token_ids=tuple(piece.token_ids),
            sources=tuple(map(Source, piece.sources)),
            index=self._choice.index,
            logprobs=_logprobs(piece.logprobs),
        )


def _completion(choice: _core.Choice, end: _core.AnswerEnd, model: str) -> Completion:
    prompt = choice.prompt_logprobs
    return Completion(
        text=choice.text,
        token_ids=tuple(choice.token_ids),
        finish_reason=end.reason,
        usage=Usage(*end.usage),
        speculation=SpeculationStats(*end.speculation),
        stop_text=end.stop_text,
        stop_token_id=end.stop_token_id,
        sources=tuple(map(Source, choice.sources)),
        timing=Timing(*end.timing),
        index=choice.index,
        model=model,
        request_id=choice.request_id,
        seed=choice.seed,
        logprobs=_logprobs(choice.logprobs),
        prompt_logprobs=None if prompt is None else tuple(e and _public(e) for e in prompt),
    )


def _logprobs(entries: Iterable[_core.TokenLogprobs] | None) -> tuple[TokenLogprobs, ...] | None:
    return None if entries is None else tuple(map(_public, entries))


def _public(entry: _core.TokenLogprobs) -> TokenLogprobs:
    top = zip(entry.top_ids, entry.top_logprobs, strict=True)
    return TokenLogprobs(entry.token_id, entry.logprob, dict(top))
