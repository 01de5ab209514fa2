"""A gRPC server on a real socket whose answers each test scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.rpc import status_pb2

from spectrie._proto import inference_pb2 as pb
from spectrie._proto import inference_pb2_grpc as services

Step = pb.GenerateEvent | Callable[[grpc.ServicerContext], object]
"""An event to send, or something to do with the call, such as aborting it."""


def started(prompt_tokens: int = 3, token: str | None = None) -> pb.GenerateEvent:
    """The first event of a stream, of one that can be resumed if it has a token."""
    return pb.GenerateEvent(
        started=pb.Started(
            request_id="r1", model="m", prompt_tokens=prompt_tokens, seed=7, resume_token=token
        )
    )


def delta(text: str, *ids: int, index: int = 0, position: int = 0) -> pb.GenerateEvent:
    """A piece of an answer."""
    sources = [pb.SOURCE_REQUEST] * len(ids)
    return pb.GenerateEvent(
        delta=pb.Delta(index=index, text=text, token_ids=ids, sources=sources, position=position)
    )


def finished(index: int = 0) -> pb.GenerateEvent:
    """The end of a choice of four tokens, three of them accepted in one step."""
    return pb.GenerateEvent(
        finished=pb.Finished(
            index=index,
            reason=pb.FINISH_REASON_LENGTH,
            usage=pb.Usage(
                prompt_tokens=3,
                completion_tokens=4,
                accepted_prediction_tokens=2,
                rejected_prediction_tokens=5,
            ),
            speculation=pb.SpeculationStats(
                verify_steps=1,
                drafted_tokens=5,
                accepted_tokens=2,
                accepted_by_source=[pb.SourceCount(source=pb.SOURCE_PREDICTION, tokens=2)],
            ),
        )
    )


def fail(
    code: grpc.StatusCode, message: str, *details: Message
) -> Callable[[grpc.ServicerContext], None]:
    """Ends the call with a status and google.rpc details."""
    packed = []
    for detail in details:
        item = any_pb2.Any()
        item.Pack(detail)
        packed.append(item)
    status = status_pb2.Status(code=code.value[0], message=message, details=packed)

    def act(context: grpc.ServicerContext) -> None:
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(code, message)

    return act


@dataclass
class Script:
    """What the server does, call by call, and what it saw.

    Attributes:
        streams: One list of steps per call of a stream, begun or resumed; the last one repeats.
        unary: One reply or failure per unary call; the last one repeats.
        requests: Every request received.
        metadata: The metadata of every call.
        ended: Set per stream when the client has gone or the steps are over.
    """

    streams: list[list[Step]] = field(default_factory=list)
    unary: list[Any] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)
    cancelled: int = 0


class _Inference(services.InferenceServicer):
    def __init__(self, script: Script) -> None:
        self.script = script

    def _seen(self, request: Any, context: Any) -> int:
        self.script.requests.append(request)
        self.script.metadata.append(dict(context.invocation_metadata()))
        return len(self.script.requests) - 1

    def _unary(self, request: Any, context: Any) -> Any:
        number = self._seen(request, context)
        step = self.script.unary[min(number, len(self.script.unary) - 1)]
        if callable(step):
            step(context)
        return step

    def ResumeStream(self, request: Any, context: Any) -> Iterator[Any]:
        return self.GenerateStream(request, context)

    Generate = Tokenize = Detokenize = ApplyChatTemplate = ListModels = _unary

    def GenerateStream(self, request: Any, context: Any) -> Iterator[Any]:
        number = self._seen(request, context)
        try:
            for step in self.script.streams[min(number, len(self.script.streams) - 1)]:
                if callable(step):
                    step(context)
                else:
                    yield step
        finally:
            if not context.is_active():
                self.script.cancelled += 1


@dataclass(frozen=True)
class Server:
    """A running scripted server: its address and its script."""

    target: str
    script: Script


def serve_script() -> Iterator[Server]:
    """Gives a scripted server on a free loopback port, which ends behind it."""
    script = Script()
    runner = grpc.server(ThreadPoolExecutor(4))
    services.add_InferenceServicer_to_server(_Inference(script), runner)
    port = runner.add_insecure_port("127.0.0.1:0")
    runner.start()
    yield Server(f"127.0.0.1:{port}", script)
    runner.stop(None).wait()


@pytest.fixture
def server() -> Iterator[Server]:
    """A scripted server."""
    yield from serve_script()


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between tries, recorded and not waited."""
    waits: list[float] = []

    async def record(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("spectrie.client.blocking.time.sleep", waits.append)
    monkeypatch.setattr("spectrie.client.aio.asyncio.sleep", record)
    return waits
