"""Conversions between the worker's wire messages and the engine's objects."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spectrie._proto import worker_pb2

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["engine_request", "load_message", "refusal", "request_stats"]

_MODES: dict[int, str] = {
    worker_pb2.SPECULATION_MODE_AUTO: "auto",
    worker_pb2.SPECULATION_MODE_OFF: "off",
    worker_pb2.SPECULATION_MODE_BFS: "bfs",
    worker_pb2.SPECULATION_MODE_PROB: "prob",
}


def _mode(start: worker_pb2.Start, speculate: bool) -> str | None:
    """The engine's name of the mode asked for; one this worker does not know counts as `auto`."""
    if not speculate:
        return "off"
    return _MODES.get(start.speculation, "auto") if start.HasField("speculation") else None


def engine_request(handle: int, start: worker_pb2.Start, speculate: bool) -> _core.Request:
    """Turns a `Start` into a request of the engine.

    Without `speculate` nothing is drafted, whatever the message asks for. The deadline moves from Unix time to this process's monotonic clock, on which steps run.

    Raises:
        EngineError: A value is outside what the engine takes.
    """
    from spectrie import _core

    deadline_s = None
    if start.HasField("deadline_ms"):
        deadline_s = time.monotonic() + start.deadline_ms / 1e3 - time.time()
    sampling = start.sampling
    return _core.Request(
        handle=handle,
        prompt_ids=list(start.prompt_ids),
        emitted_token_ids=list(start.emitted_token_ids),
        prediction_ids=list(start.prediction_ids),
        namespace=start.namespace,
        learn=start.learn,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        frequency_penalty=sampling.frequency_penalty,
        presence_penalty=sampling.presence_penalty,
        repetition_penalty=sampling.repetition_penalty,
        logit_bias=dict(sampling.logit_bias),
        seed=start.choice_seed,
        max_tokens=start.max_tokens,
        min_tokens=start.min_tokens,
        stop_token_ids=list(start.stop_token_ids),
        ignore_eos=start.ignore_eos,
        deadline_s=deadline_s,
        priority=start.priority,
        speculation=_mode(start, speculate),
        max_draft_tokens=start.max_draft_tokens if start.HasField("max_draft_tokens") else None,
    )


def request_stats(finish: _core.Finish) -> worker_pb2.RequestStats:
    """Turns the figures of a finished request into their message."""
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


def refusal(start: worker_pb2.Start, message: str) -> worker_pb2.RequestOutput:
    """The answer to a `Start` that never reached the engine."""
    return worker_pb2.RequestOutput(
        request_id=start.request_id,
        attempt=start.attempt,
        finish=worker_pb2.FINISH_REFUSED,
        message=message,
        stats=worker_pb2.RequestStats(),
    )


def load_message(load: _core.Load, recycling: bool) -> worker_pb2.Load:
    """Turns the engine's load into its message; `recycling` as the worker was started."""
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
        calibration=[
            worker_pb2.CalibrationBin(trials=trials, expected=expected, accepted=accepted)
            for trials, expected, accepted in load.calibration
        ],
        accepted_by_source=load.accepted_by_source,
        memory_tokens=load.memory_tokens,
        evicted_tokens=load.evicted_tokens,
        corpus_bytes=load.corpus_bytes,
        recycling=recycling,
    )
