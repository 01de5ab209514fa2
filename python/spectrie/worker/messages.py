"""Converts between the worker's wire messages and the engine's objects."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from spectrie._proto import worker_pb2
from spectrie.engine.grammars import Grammars

if TYPE_CHECKING:
    from spectrie import _core

__all__ = [
    "engine_request",
    "finish_kind",
    "load_message",
    "prompt_logprobs",
    "refusal",
    "request_stats",
    "token_logprobs",
]


def engine_request(
    handle: int, start: worker_pb2.Start, speculate: bool, grammars: Grammars
) -> _core.Request:
    """Converts a `Start` to a request of the engine.

    Without `speculate`, nothing is drafted, whatever the message requests. The deadline is converted
    from Unix time to this process's monotonic clock, on which steps run.

    Compiles the constraint, which may take seconds.

    Raises:
        EngineError: A value is out of the engine's range, or the constraint cannot be compiled.
        ValueError: This worker does not support the constraint's kind.
    """
    from spectrie import _core

    data = start.SerializeToString()
    grammar = None
    if start.HasField("structured") and (constraint := _core.constraint_of(data)):
        grammar = grammars.compile(*constraint)
    return _core.Request(
        data,
        handle=handle,
        now_s=time.monotonic(),
        now_unix_s=time.time(),
        speculate=speculate,
        grammar=grammar,
    )


def request_stats(finish: _core.Finish) -> worker_pb2.RequestStats:
    """Converts the figures of a finished request to their message."""
    return worker_pb2.RequestStats(
        verify_steps=finish.verify_steps,
        drafted_tokens=finish.drafted_tokens,
        accepted_tokens=finish.accepted_tokens,
        accepted_by_source=finish.accepted_by_source,
        queue_ns=finish.queue_ns,
        prefill_ns=finish.prefill_ns,
        decode_ns=finish.decode_ns,
        cached_tokens=finish.cached_tokens,
        preemptions=finish.preemptions,
        accepted_prediction_tokens=finish.accepted_prediction_tokens,
    )


def finish_kind(finish: _core.Finish) -> worker_pb2.FinishKind.ValueType:
    """Returns how a request ended; no other worker would accept a request that the engine refuses."""
    kind = worker_pb2.FinishKind.ValueType(finish.kind)
    return worker_pb2.FINISH_INVALID if kind == worker_pb2.FINISH_REFUSED else kind


def token_logprobs(entries: Iterable[_core.TokenLogprobs]) -> list[worker_pb2.TokenLogprob]:
    """Converts log-probabilities of output tokens to their messages."""
    return [
        worker_pb2.TokenLogprob(
            token_id=entry.token_id,
            logprob=entry.logprob,
            top_ids=entry.top_ids,
            top_logprobs=entry.top_logprobs,
        )
        for entry in entries
    ]


def prompt_logprobs(
    prompt_ids: Sequence[int], entries: Sequence[_core.TokenLogprobs | None]
) -> list[worker_pb2.TokenLogprob]:
    """Converts log-probabilities of a prompt's tokens to their messages; the first token has none."""
    first = worker_pb2.TokenLogprob(token_id=prompt_ids[0])
    return [first, *token_logprobs(entry for entry in entries[1:] if entry is not None)]


def refusal(
    start: worker_pb2.Start, message: str, finish: worker_pb2.FinishKind.ValueType
) -> worker_pb2.RequestOutput:
    """Returns the answer to a `Start` that never reached the engine."""
    return worker_pb2.RequestOutput(
        request_id=start.request_id,
        attempt=start.attempt,
        finish=finish,
        message=message,
        stats=worker_pb2.RequestStats(),
    )


def load_message(load: _core.Load, recycling: bool) -> worker_pb2.Load:
    """Converts the engine's load to its message; `recycling` is the worker's setting."""
    return worker_pb2.Load(
        running=load.running,
        waiting=load.waiting,
        pages_used=load.pages_used,
        pages_total=load.pages_total,
        memory_bytes=load.memory_bytes,
        steps=load.steps,
        drafted_tokens=load.drafted_tokens,
        accepted_tokens=load.accepted_tokens,
        prompt_tokens=load.prompt_tokens,
        generated_tokens=load.generated_tokens,
        preemptions=load.preemptions,
        expected_accepted=load.expected_accepted,
        offered_steps=load.offered_steps,
        offered_tokens=load.offered_tokens,
        offered_ms=load.step_ms_total,
        holdout_steps=load.holdout_steps,
        holdout_tokens=load.holdout_tokens,
        holdout_ms=load.holdout_ms_total,
        choices_total=load.choices_total,
        choices_right=load.choices_right,
        calibration=[
            worker_pb2.CalibrationBin(trials=trials, expected=expected, accepted=accepted)
            for trials, expected, accepted in load.calibration
        ],
        accepted_by_source=load.accepted_by_source,
        memory_tokens=load.memory_tokens,
        evicted_tokens=load.evicted_tokens,
        corpus_bytes=load.corpus_bytes,
        recycling=recycling,
        pages_cached=load.pages_cached,
        prefix_query_tokens=load.prefix_query_tokens,
        prefix_hit_tokens=load.prefix_hit_tokens,
    )
