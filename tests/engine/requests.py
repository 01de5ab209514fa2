"""Requests of the engine from the message that a worker gets."""

from __future__ import annotations

from collections.abc import Sequence

from spectrie._core import Request
from spectrie._proto import worker_pb2

__all__ = ["request"]


def request(
    handle: int,
    prompt_ids: Sequence[int],
    max_tokens: int,
    *,
    temperature: float = 1.0,
    seed: int = 0,
    deadline_s: float | None = None,
) -> Request:
    """A request whose other options are at the API's defaults.

    Its deadline is on the clock of the engine's caller.
    """
    sampling = worker_pb2.SamplingParameters(
        temperature=temperature, top_p=1.0, repetition_penalty=1.0
    )
    start = worker_pb2.Start(
        prompt_ids=prompt_ids,
        max_tokens=max_tokens,
        sampling=sampling,
        choice_seed=seed,
        namespace="default",
        learn=True,
    )
    if deadline_s is not None:
        # To the millisecond; without a time of now both clocks are the same.
        start.deadline_ms = round(deadline_s * 1e3)
    return Request(start.SerializeToString(), handle=handle)
