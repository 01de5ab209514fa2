"""A worker without a model: says its prompt again, one token at a time, and notes when.

Run as `python -m bench.router.fake_worker SOCKET FOLDER`; it prints the port of a direct server first, which
streams the same events without a router, then one JSON line per finished stream: the monotonic
nanoseconds at which each token was handed to gRPC.
"""

from __future__ import annotations

import json
import queue
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from bench.router.messages import greeting, said_again
from spectrie._proto import inference_pb2 as pb
from spectrie._proto import worker_pb2, worker_pb2_grpc

INTERVAL_S = 0.004
"""Time between two tokens, that of a quick small model."""


def paced(count: int) -> Iterator[int]:
    """Yields 0..count, each at its time."""
    began = time.monotonic()
    for number in range(count):
        pause = began + number * INTERVAL_S - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        yield number


def report(stamps: list[int]) -> None:
    """Prints when each token of a stream was handed to gRPC."""
    print(json.dumps(stamps), flush=True)


def stream_directly(request: Any, context: Any) -> Iterator[pb.GenerateEvent]:
    """GenerateStream without a router between: `max_tokens` tokens."""
    stamps: list[int] = []
    yield pb.GenerateEvent(started=pb.Started(request_id="direct"))
    for _ in paced(request.stopping.max_tokens):
        stamps.append(time.monotonic_ns())
        yield pb.GenerateEvent(delta=pb.Delta(text=" one", token_ids=[1]))
    yield pb.GenerateEvent(finished=pb.Finished(reason=pb.FINISH_REASON_LENGTH))
    report(stamps)


def worker_messages(
    folder: Path, starts: queue.SimpleQueue[worker_pb2.Start | None]
) -> Iterator[worker_pb2.WorkerMessage]:
    """The greeting, then the tokens of each request in turn."""
    capacity = worker_pb2.Capacity(
        max_context=8192, max_running=8, num_pages=4096, page_size=16, max_draft_tokens=16
    )
    yield from greeting(folder, capacity)
    step = 0
    while True:
        try:
            start = starts.get(timeout=0.5)
        except queue.Empty:
            yield worker_pb2.WorkerMessage(heartbeat=worker_pb2.Heartbeat(steps=step))
            continue
        if start is None:
            return
        stamps: list[int] = []
        for number in paced(start.max_tokens):
            step += 1
            output = said_again(start, number)
            if number == start.max_tokens - 1:
                output.stats.verify_steps = number
            if step % 200 == 0:
                yield worker_pb2.WorkerMessage(
                    heartbeat=worker_pb2.Heartbeat(steps=step, busy=True)
                )
            message = worker_pb2.StepOutput(step=step, outputs=[output])
            stamps.append(time.monotonic_ns())
            yield worker_pb2.WorkerMessage(step_output=message)
        report(stamps)


def main(socket: str, folder: str) -> None:
    """Serves directly and works for the router until that goes away."""
    server = grpc.server(ThreadPoolExecutor(2))
    handler = grpc.unary_stream_rpc_method_handler(
        stream_directly,
        request_deserializer=pb.GenerateRequest.FromString,
        response_serializer=pb.GenerateEvent.SerializeToString,
    )
    services = grpc.method_handlers_generic_handler(
        "spectrie.v1.Inference", {"GenerateStream": handler}
    )
    server.add_generic_rpc_handlers((services,))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    starts: queue.SimpleQueue[worker_pb2.Start | None] = queue.SimpleQueue()
    options = [("grpc.enable_http_proxy", 0), ("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(socket, options=options) as channel:
        stub = worker_pb2_grpc.WorkerHubStub(channel)
        for message in stub.Connect(worker_messages(Path(folder), starts)):
            if message.HasField("start"):
                starts.put(message.start)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
