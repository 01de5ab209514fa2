"""An unfinished request of a router, and the messages that report its progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spectrie._proto import worker_pb2
from spectrie.worker.messages import finish_kind, prompt_logprobs, token_logprobs

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["RequestState", "learned", "request_output"]

_ENDED_WELL = (
    worker_pb2.FINISH_EOS,
    worker_pb2.FINISH_STOP_TOKEN,
    worker_pb2.FINISH_LENGTH,
    worker_pb2.FINISH_COMPLETE,
)


@dataclass(slots=True)
class RequestState:
    """An unfinished request of this connection."""

    handle: int
    start: worker_pb2.Start
    output_ids: list[int] = field(default_factory=list)
    cancelled: bool = False
    keep_tokens: int | None = None
    ended_well: bool = False
    is_forgotten: bool = False
    tells_logprobs: bool = field(init=False)
    tells_prompt: bool = field(init=False)

    def __post_init__(self) -> None:
        self.tells_logprobs = self.start.HasField("logprobs")
        self.tells_prompt = self.start.HasField("prompt_logprobs")


def request_output(
    running: RequestState,
    step: _core.StepOutput,
    index: int,
    token_ids: list[int],
    sources: Sequence[int],
    finish: _core.Finish | None,
) -> worker_pb2.RequestOutput:
    """Returns the tokens of the `index`-th request of a step, and how it ended if it did."""
    running.output_ids.extend(token_ids)
    message = worker_pb2.RequestOutput(
        request_id=running.start.request_id,
        attempt=running.start.attempt,
        token_ids=token_ids,
        sources=sources,
    )
    if finish is not None:
        message.finish = finish_kind(finish)
        message.stats.ParseFromString(finish.stats)
        if finish.message is not None:
            message.message = finish.message
    if running.tells_logprobs:
        message.logprobs.extend(token_logprobs(step.logprobs(index) or ()))
    prompt = step.prompt_logprobs(index) if running.tells_prompt else None
    if prompt is not None:
        running.tells_prompt = False
        message.prompt_logprobs.extend(prompt_logprobs(running.start.prompt_ids, prompt))
    return message


def learned(running: RequestState, finish: _core.Finish) -> Iterator[worker_pb2.WorkerMessage]:
    """Yields the text of a successful request from which other workers may learn."""
    start = running.start
    kind: int = finish.kind
    ended_well = kind in _ENDED_WELL or running.ended_well
    if not start.learn or running.is_forgotten or not ended_well:
        return
    keep = running.keep_tokens if finish.keep_tokens is None else finish.keep_tokens
    output_ids = [*start.emitted_token_ids, *running.output_ids][:keep]
    text = worker_pb2.Learned(
        namespace=start.namespace,
        token_ids=[*start.prompt_ids, *output_ids],
        request_id=start.request_id,
        attempt=start.attempt,
    )
    yield worker_pb2.WorkerMessage(learned=text)
