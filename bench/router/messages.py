"""What every worker without a model says to the router."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spectrie._proto import worker_pb2
from spectrie.worker.artifacts import artifact_chunks

__all__ = ["VOCABULARY", "greeting", "said_again"]

VOCABULARY = 49152


def greeting(
    folder: Path, capacity: worker_pb2.Capacity, *, exact: bool = False
) -> Iterator[worker_pb2.WorkerMessage]:
    """How it introduces itself, up to being ready.

    Args:
        folder: The model whose tokenizer it shows.
        capacity: What it says that it can take.
        exact: Whether it says that rows do not change one another's bits.
    """
    hello = worker_pb2.Hello(
        protocol=1,
        version="0",
        model="fake",
        model_hash="0" * 64,
        numeric_fingerprint="fake",
        exact=exact,
        capacity=capacity,
        vocabulary_size=VOCABULARY,
        eos_token_ids=[2],
        instance="bench",
    )
    yield worker_pb2.WorkerMessage(hello=hello)
    for chunk in artifact_chunks(folder):
        yield worker_pb2.WorkerMessage(artifact=chunk)
    yield worker_pb2.WorkerMessage(ready=worker_pb2.Ready())


def said_again(start: worker_pb2.Start, number: int) -> worker_pb2.RequestOutput:
    """Token `number` of an answer that says its prompt again; the last one ends it."""
    output = worker_pb2.RequestOutput(
        request_id=start.request_id,
        attempt=start.attempt,
        token_ids=[start.prompt_ids[number % len(start.prompt_ids)]],
        sources=[1],
    )
    if number == start.max_tokens - 1:
        output.finish = worker_pb2.FINISH_LENGTH
    return output
