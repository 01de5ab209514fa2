"""Converts wire answers to the public types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from spectrie._proto import inference_pb2 as pb
from spectrie.errors import Internal
from spectrie.types import (
    Completion,
    Delta,
    FinishReason,
    ModelInfo,
    Source,
    SpeculationStats,
    Timing,
    TokenLogprobs,
    Usage,
)

__all__ = ["Collector", "completion_of", "model_of", "sources_of"]

_REASONS: dict[int, FinishReason] = {
    pb.FINISH_REASON_STOP: "stop",
    pb.FINISH_REASON_LENGTH: "length",
}
_SOURCES = {int(source): source for source in Source}


def sources_of(numbers: list[int]) -> tuple[Source, ...]:
    """Sources by number; an unknown number counts as the model's own."""
    return tuple(_SOURCES.get(number, Source.MODEL) for number in numbers)


def logprobs_of(entries: Iterable[pb.TokenLogprob]) -> tuple[TokenLogprobs | None, ...]:
    """Log-probabilities of each token; None for the first token of a prompt."""
    return tuple(
        TokenLogprobs(
            entry.token_id, entry.logprob, {other.token_id: other.logprob for other in entry.top}
        )
        if entry.HasField("logprob")
        else None
        for entry in entries
    )


def _output_logprobs(entries: Iterable[pb.TokenLogprob]) -> tuple[TokenLogprobs, ...] | None:
    """Log-probabilities of output tokens; None unless requested."""
    return tuple(entry for entry in logprobs_of(entries) if entry is not None) or None


def completion_of(started: pb.Started, choice: pb.Choice) -> Completion:
    """One whole answer."""
    finished = choice.finished
    which = finished.WhichOneof("stop_reason")
    return Completion(
        text=choice.text,
        token_ids=tuple(choice.token_ids),
        finish_reason=_REASONS.get(finished.reason, "stop"),
        usage=_usage_of(finished.usage),
        speculation=_stats_of(finished.speculation),
        stop_text=finished.stop_text if which == "stop_text" else None,
        stop_token_id=finished.stop_token_id if which == "stop_token_id" else None,
        sources=sources_of(list(choice.sources)),
        timing=Timing(
            finished.timing.queue_ns, finished.timing.prefill_ns, finished.timing.decode_ns
        ),
        index=choice.index,
        model=started.model or None,
        request_id=started.request_id or None,
        seed=started.seed,
        logprobs=_output_logprobs(choice.logprobs),
        prompt_logprobs=logprobs_of(finished.prompt_logprobs) or None,
        numerics_changed=finished.numerics_changed,
    )


def model_of(model: pb.Model) -> ModelInfo:
    """A served model."""
    return ModelInfo(
        name=model.name,
        max_context=model.max_context,
        vocabulary_size=model.vocabulary_size,
        workers=model.workers,
        numeric_fingerprint=model.numeric_fingerprint,
    )


def _usage_of(usage: pb.Usage) -> Usage:
    has_prediction = usage.HasField("accepted_prediction_tokens")
    return Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        accepted_prediction_tokens=usage.accepted_prediction_tokens if has_prediction else None,
        rejected_prediction_tokens=usage.rejected_prediction_tokens if has_prediction else None,
    )


def _stats_of(stats: pb.SpeculationStats) -> SpeculationStats:
    return SpeculationStats(
        verify_steps=stats.verify_steps,
        drafted_tokens=stats.drafted_tokens,
        accepted_tokens=stats.accepted_tokens,
        accepted_by_source={
            _SOURCES.get(count.source, Source.MODEL).label: count.tokens
            for count in stats.accepted_by_source
        },
    )


class Collector:
    """Gathers the events of one stream into deltas and, at its end, completions."""

    def __init__(self) -> None:
        self.started = pb.Started()
        self._choices: defaultdict[int, pb.Choice] = defaultdict(pb.Choice)
        self._finished: set[int] = set()
        self._positions: dict[int, int] = {}

    @property
    def has_output(self) -> bool:
        """Whether any token or text has arrived."""
        return any(choice.token_ids or choice.text for choice in self._choices.values())

    @property
    def text(self) -> tuple[str, ...]:
        """Text received so far, per choice."""
        return tuple(choice.text for _, choice in sorted(self._choices.items()))

    @property
    def token_ids(self) -> tuple[tuple[int, ...], ...]:
        """Token ids received so far, per choice."""
        return tuple(tuple(choice.token_ids) for _, choice in sorted(self._choices.items()))

    def add(self, event: pb.GenerateEvent) -> Delta | None:
        """Adds an event and returns its delta, if it has one."""
        kind = event.WhichOneof("event")
        if kind == "started":
            self.started = event.started
        elif kind == "delta":
            delta = event.delta
            self._positions[delta.index] = delta.position
            choice = self._choices[delta.index]
            choice.text += delta.text
            choice.token_ids.extend(delta.token_ids)
            choice.sources.extend(delta.sources)
            choice.logprobs.extend(delta.logprobs)
            return Delta(
                text=delta.text,
                token_ids=tuple(delta.token_ids),
                sources=sources_of(list(delta.sources)),
                index=delta.index,
                logprobs=_output_logprobs(delta.logprobs),
            )
        elif kind == "finished":
            choice = self._choices[event.finished.index]
            choice.index = event.finished.index
            choice.finished.CopyFrom(event.finished)
            self._finished.add(event.finished.index)
            self._positions[event.finished.index] = event.finished.position
        return None

    def resume_request(self) -> pb.ResumeStreamRequest:
        """The call that goes on behind the events received so far."""
        places = sorted(self._positions.items())
        return pb.ResumeStreamRequest(
            request_id=self.started.request_id,
            resume_token=self.started.resume_token,
            starting_after=[pb.StreamPosition(index=i, position=at) for i, at in places],
        )

    def completion(self) -> Completion:
        """The answer of choice 0.

        Raises:
            Internal: The stream ended regularly but without finishing that choice.
        """
        if 0 not in self._finished:
            raise Internal("the server closed the stream without finishing the answer")
        return completion_of(self.started, self._choices[0])
