"""A runner whose logits are a hash, and a router hub that records what a worker sends."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import torch

from spectrie._proto import worker_pb2, worker_pb2_grpc
from spectrie.model.plan import StepResult
from spectrie.model.runner.drafting import DrafterInfo
from spectrie.model.runner.info import ContextCost

__all__ = ["EOS_ID", "WAIT_S", "CountingRunner", "Hub"]

WAIT_S = 60.0
VOCABULARY_SIZE = 64
EOS_ID = 63


class CountingRunner:
    """Continues `n` with `n + 1` modulo 60, whatever came before; never the end-of-sequence token."""

    vocabulary_size = VOCABULARY_SIZE
    eos_token_ids = (EOS_ID,)
    bigram_prefix = ()
    max_context = 256
    max_batch_rows = 512
    num_pages = 64
    page_size = 16
    dtype_name = "float32"
    device_name = "cpu"
    threads = 1
    model_hash = "a" * 64
    numeric_fingerprint = "counting"
    exact = True
    why_fast: str | None = None
    can_speculate = True
    native = None
    device_shape = None
    drafters: Sequence[DrafterInfo] = ()
    drafts = False
    why_no_drafter: str | None = None

    def __init__(self) -> None:
        self.gate: Callable[[], None] = lambda: None

    def step(self, plan: Any) -> Any:
        """Logits of the sampled rows, float32 [S, vocabulary], and the one token after each."""
        self.gate()
        tokens = plan.row_token[plan.sample_rows]
        logits = np.zeros((len(tokens), VOCABULARY_SIZE), np.float32)
        logits[np.arange(len(tokens)), (tokens + 1) % 60] = 20.0
        ids = np.full((len(plan.top_rows), 8), -1, np.int32)
        ids[:, 0] = (plan.row_token[plan.top_rows] + 1) % 60
        return StepResult(
            torch.from_numpy(logits),
            ids,
            (ids >= 0) * np.float32(1),
        )

    def check(self) -> None:
        """Nothing can be lost."""

    def warm_up(self) -> None:
        """Nothing is compiled."""

    def measure_costs(self) -> tuple[list[int], list[float]]:
        """Cost of a forward by rows."""
        return [1, 16], [1.0, 1.1]

    def close(self) -> None:
        """Nothing to end."""

    def measure_context_cost(self) -> ContextCost:
        """Cached tokens cost nothing."""
        return ContextCost(context_tokens=0, ms_per_key=0.0, ms_per_read=0.0, tile_rows=1)


class Hub(worker_pb2_grpc.WorkerHubServicer):
    """A router's worker listener under a test's control."""

    def __init__(self, address: str = "127.0.0.1:0") -> None:
        self.received: queue.SimpleQueue[worker_pb2.WorkerMessage] = queue.SimpleQueue()
        self.metadata: dict[str, str] = {}
        self._outgoing: queue.SimpleQueue[worker_pb2.RouterMessage | None] = queue.SimpleQueue()
        self.connected = threading.Semaphore(0)
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        worker_pb2_grpc.add_WorkerHubServicer_to_server(self, self._server)
        port = self._server.add_insecure_port(address)
        self.target = f"127.0.0.1:{port}"
        self._server.start()

    def Connect(self, request_iterator: Any, context: Any) -> Iterator[worker_pb2.RouterMessage]:
        """Welcomes the worker, then relays both directions."""
        self.metadata = dict(context.invocation_metadata())
        # An older connection's relay must not take what is meant for this one.
        self._outgoing.put(None)
        outgoing = self._outgoing = queue.SimpleQueue()

        def read() -> None:
            try:
                for message in request_iterator:
                    self.received.put(message)
            except grpc.RpcError:
                pass
            outgoing.put(None)

        threading.Thread(target=read, daemon=True).start()
        yield worker_pb2.RouterMessage(welcome=worker_pb2.Welcome(protocol=1, worker_id="w1"))
        self.connected.release()
        while (message := outgoing.get()) is not None:
            yield message

    def send(self, **message: Any) -> None:
        """Sends one message to the worker."""
        self._outgoing.put(worker_pb2.RouterMessage(**message))

    def start(self, request_id: str, **fields: Any) -> None:
        """Sends a `Start` of a greedy request with three prompt tokens."""
        values: dict[str, Any] = {
            "prompt_ids": [1, 2, 3],
            "max_tokens": 5,
            "namespace": "default",
            "sampling": worker_pb2.SamplingParameters(top_p=1, repetition_penalty=1),
        }
        self.send(start=worker_pb2.Start(request_id=request_id, **{**values, **fields}))

    def next(self, kind: str) -> Any:
        """The next message of a kind; others are passed over."""
        while True:
            message = self.received.get(timeout=WAIT_S)
            if message.WhichOneof("message") == kind:
                return getattr(message, kind)

    def outputs(self, request_id: str) -> list[worker_pb2.RequestOutput]:
        """The outputs of a request up to its end."""
        found: list[worker_pb2.RequestOutput] = []
        while not found or found[-1].finish == worker_pb2.FINISH_NONE:
            for output in self.next("step_output").outputs:
                if output.request_id == request_id:
                    found.append(output)
        return found

    def hang_up(self) -> None:
        """Ends the connection well."""
        self._outgoing.put(None)

    def break_off(self) -> None:
        """Ends every connection in the middle, and takes no more."""
        self._server.stop(0).wait()

    def close(self) -> None:
        """Ends every connection at once."""
        self._outgoing.put(None)
        self.break_off()
