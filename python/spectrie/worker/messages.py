"""Converts between the worker's wire messages and the engine's objects."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from spectrie._proto import worker_pb2
from spectrie.engine.lazy_tokenizer import LazyTokenizer

if TYPE_CHECKING:
    from spectrie import _core

__all__ = [
    "constraint_of",
    "engine_request",
    "finish_kind",
    "is_overdue",
    "load_message",
    "message_of",
    "prompt_logprobs",
    "refusal",
    "token_logprobs",
]

_Message = TypeVar("_Message", bound=Message)


def constraint_of(start: worker_pb2.Start) -> tuple[str, str | list[str] | None] | None:
    """Kind and texts of what the answer is held to, as `Grammars` takes them; None if it is free.

    Raises:
        ValueError: This worker does not support the constraint's kind.
    """
    from spectrie import _core

    if not start.HasField("structured"):
        return None
    return _core.constraint_of(worker_pb2.Start(structured=start.structured).SerializeToString())


def is_overdue(start: worker_pb2.Start) -> bool:
    """Whether the deadline of a `Start` has passed."""
    return start.HasField("deadline_ms") and start.deadline_ms <= time.time() * 1e3


def engine_request(
    handle: int,
    start: worker_pb2.Start,
    speculate: bool,
    grammar: _core.Grammar | None,
    tokenizer: LazyTokenizer,
) -> _core.Request:
    """Converts a `Start` to a request of the engine.

    Without `speculate`, nothing is drafted, whatever the message requests. The deadline is converted
    from Unix time to this process's monotonic clock, on which steps run.

    `grammar` is what its constraint compiles to. Opens the tokenizer if there are stop texts.

    Raises:
        EngineError: A value is out of the engine's range.
        ModelError: There are stop texts, and the tokenizer cannot be opened.
    """
    from spectrie import _core

    return _core.Request(
        start.SerializeToString(),
        handle=handle,
        now_s=time.monotonic(),
        now_unix_s=time.time(),
        speculate=speculate,
        grammar=grammar,
        tokenizer=tokenizer.open() if start.stop else None,
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
    start: worker_pb2.Start, message: str | None, finish: worker_pb2.FinishKind.ValueType
) -> worker_pb2.RequestOutput:
    """Returns the answer to a `Start` that never reached the engine."""
    return worker_pb2.RequestOutput(
        request_id=start.request_id,
        attempt=start.attempt,
        finish=finish,
        message=message,
        stats=worker_pb2.RequestStats(),
    )


def load_message(
    load: _core.Load, recycling: bool, drafters: Sequence[str] = ()
) -> worker_pb2.Load:
    """Converts the engine's load to its message; `recycling` is the worker's setting, `drafters` are the names of
    its drafters."""
    return message_of(
        worker_pb2.Load,
        load,
        offered_ms=load.step_ms_total,
        holdout_ms=load.holdout_ms_total,
        calibration=[
            worker_pb2.CalibrationBin(trials=trials, expected=expected, accepted=accepted)
            for trials, expected, accepted in load.calibration
        ],
        **{
            name: worker_pb2.Histogram(counts=counts, sum=total)
            for name, (counts, total) in (
                ("step_times", load.step_times),
                ("verify_times", load.verify_times),
                ("draft_times", load.draft_times),
                ("tree_nodes", load.tree_nodes),
            )
        },
        recycling=recycling,
        drafters=[
            _drafter_load(name, *figures)
            for name, figures in zip(drafters, load.drafters, strict=True)
        ],
    )


def _drafter_load(
    name: str, levels: int, rows: int, gain: tuple[float, float, float] | None
) -> worker_pb2.DrafterLoad:
    message = worker_pb2.DrafterLoad(name=name, levels=levels, rows=rows)
    if gain is not None:
        message.gain, message.gain_low, message.gain_high = gain
    return message


def message_of(kind: type[_Message], source: object, **given: object) -> _Message:
    """A message with the values of `source` by the names of its fields, but for the given ones."""
    names = kind.DESCRIPTOR.fields_by_name
    return kind(**{name: getattr(source, name) for name in names if name not in given}, **given)
