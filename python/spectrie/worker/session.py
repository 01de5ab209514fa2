"""The requests of one connection, and the messages that answer them."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from spectrie._proto import worker_pb2
from spectrie.engine.grammars import Grammars
from spectrie.engine.lazy_tokenizer import LazyTokenizer
from spectrie.errors import SpectrieError
from spectrie.worker.admin import AdminDesk
from spectrie.worker.messages import (
    constraint_of,
    engine_request,
    is_overdue,
    refusal,
)
from spectrie.worker.reports import Reports, ReportsLoad
from spectrie.worker.request_state import RequestState, learned, request_output
from spectrie.worker.tenant_lines import TenantLines

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["RequestHost", "Session"]

log = logging.getLogger("spectrie.worker")

# As many as the compiler runs at once.
_COMPILING_THREADS = 4
_LONGEST_COMPILING_S = 120.0
"""Of a grammar, with what it waits for others; the engine's own limit counts its computing alone."""
_CANCELLED_BEFORE = "cancelled before it began"
_FAILED_BEFORE = "the worker failed before it began; its log says why"


class RequestHost(ReportsLoad, Protocol):
    """The part of an `EngineHost` that a session uses."""

    @property
    def can_speculate(self) -> bool:
        """Whether speculation is possible."""

    @property
    def grammars(self) -> Grammars:
        """Compiles the constraints of answers, and knows recent ones."""

    @property
    def tokenizer(self) -> LazyTokenizer:
        """Finds the stop texts of answers."""

    def submit(self, request: _core.Request) -> None:
        """Queues a request."""

    def cancel(self, handle: int, keep_tokens: int | None = None, finished: bool = False) -> None:
        """Stops a request."""

    def learn(self, namespace: str, token_ids: list[int]) -> None:
        """Inserts a sequence into the draft memory."""


class Session:
    """The requests of one connection to a router.

    Three threads use it: gRPC's reader calls `receive`, one of the step loop calls `deliver`, and gRPC's
    sender iterates over `messages`. Only the sender builds messages.

    Args:
        host: Runs the requests.
        next_handle: Returns a handle that no other session of this process uses.
        greeting: The first messages: hello, artifacts, ready.
        desk: Answers admin requests about draft memory.
        on_drain: Receives that the router wants this worker to drain, and the seconds it may take.
    """

    def __init__(
        self,
        host: RequestHost,
        next_handle: Callable[[], int],
        greeting: Iterable[worker_pb2.WorkerMessage],
        desk: AdminDesk,
        on_drain: Callable[[float | None], None],
    ) -> None:
        self._host = host
        self._on_drain = on_drain
        self._next_handle = next_handle
        self._greeting = greeting
        self._desk = desk
        self._lock = threading.Lock()
        self._by_handle: dict[int, RequestState] = {}
        self._by_name: dict[tuple[str, int], RequestState] = {}
        self._outbox: queue.SimpleQueue[_core.StepOutput | worker_pb2.WorkerMessage | None] = (
            queue.SimpleQueue()
        )
        self._compiling = TenantLines(_COMPILING_THREADS, "spectrie-grammar")
        self._reports = Reports(host)
        self._draining = False

    @property
    def num_running(self) -> int:
        """Number of unfinished requests."""
        with self._lock:
            return len(self._by_handle)

    def drain(self) -> None:
        """Refuses every request from now on, and says so to the router."""
        if not self._draining:
            self._draining = True
            self._outbox.put(worker_pb2.WorkerMessage(draining=worker_pb2.Draining()))

    def receive(self, message: worker_pb2.RouterMessage) -> None:
        """Handles one message of the router."""
        kind = message.WhichOneof("message")
        if kind == "start":
            self._start(message.start)
        elif kind == "cancel":
            self._cancel(message.cancel)
        elif kind == "learn":
            self._learn(message.learn)
        elif kind == "drain":
            self.drain()
            grace_ms = message.drain.grace_ms if message.drain.HasField("grace_ms") else None
            self._on_drain(None if grace_ms is None else grace_ms / 1e3)
        elif kind == "admin_call":
            if message.admin_call.HasField("forget_namespace"):
                self._forget_text(message.admin_call.forget_namespace.name)
            self._desk.ask(message.admin_call, self._reply)
        elif kind == "welcome":
            log.info("joined the router as %s", message.welcome.worker_id)

    def deliver(self, output: _core.StepOutput) -> None:
        """Receives a step's output; the sender thread turns it into messages."""
        self._outbox.put(output)

    def beat(self) -> None:
        """Queues a heartbeat and the current load."""
        self._outbox.put(self._reports.heartbeat())
        self._outbox.put(self._reports.load())

    def hang_up(self) -> None:
        """Ends `messages` after those that wait to be sent."""
        self._outbox.put(None)

    def close(self) -> None:
        """Ends `messages` and cancels the running requests."""
        self.hang_up()
        with self._lock:
            handles = list(self._by_handle)
            self._by_handle.clear()
            self._by_name.clear()
        for handle in handles:
            self._host.cancel(handle)
        self._compiling.close()

    def messages(self) -> Iterator[worker_pb2.WorkerMessage]:
        """Yields the messages to the router until `close`."""
        yield from self._greeting
        while True:
            item = self._outbox.get()
            if item is None:
                return
            if isinstance(item, worker_pb2.WorkerMessage):
                yield item
            else:
                yield from self._output_messages(item)

    def _start(self, start: worker_pb2.Start) -> None:
        if self._draining:
            self._refuse(start, "the worker is draining and takes no new requests")
            return
        running = RequestState(self._next_handle(), start)
        with self._lock:
            self._by_handle[running.handle] = running
            self._by_name[start.request_id, start.attempt] = running
        with self._failing_alone(running):
            self._prepare(running)

    @contextmanager
    def _failing_alone(self, running: RequestState) -> Iterator[None]:
        """What nobody foresaw in a request's beginning ends that request, and no neighbour of it."""
        try:
            yield
        except Exception:
            start = running.start
            log.exception(
                "request %r failed before it began; traceparent: %s",
                start.request_id,
                start.traceparent or "none",
            )
            self._end(running, _FAILED_BEFORE, worker_pb2.FINISH_FAILED)
        except BaseException:  # a panic of the core
            self._end(running, _FAILED_BEFORE, worker_pb2.FINISH_FAILED)
            raise

    def _prepare(self, running: RequestState) -> None:
        """Begins a request, at once or when its grammar and the tokenizer are there."""
        from spectrie import _core

        start = running.start
        try:
            constraint = constraint_of(start)
            grammar = self._host.grammars.cached(*constraint) if constraint else None
        except (_core.EngineError, SpectrieError, ValueError, OverflowError) as error:
            self._end(running, str(error), worker_pb2.FINISH_INVALID)
            return
        if constraint and grammar is None:
            # Neither the reader nor the step loop may wait for a grammar or the tokenizer.
            # Not only until its deadline: who asks again finds it compiled.
            compiled = partial(self._host.grammars.compile, *constraint, _LONGEST_COMPILING_S)
            self._later(running, compiled)
        elif start.stop and not self._host.tokenizer.is_open:
            self._later(running, lambda: grammar)
        else:
            self._begin(running, grammar)

    def _later(self, running: RequestState, compiled: Callable[[], _core.Grammar | None]) -> None:
        """Begins a request in its tenant's turn."""

        def begin() -> None:
            with self._failing_alone(running):
                self._compile(running, compiled)

        start = running.start
        tenant = start.tenant if start.HasField("tenant") else start.namespace.partition("/")[0]
        self._compiling.submit(tenant, begin)

    def _compile(self, running: RequestState, compiled: Callable[[], _core.Grammar | None]) -> None:
        """Begins a request with its grammar, if it is still wanted."""
        from spectrie import _core

        if not self._is_wanted(running):
            return
        try:
            grammar = compiled()
        except TimeoutError:
            message = (
                f"the grammar was not compiled within {_LONGEST_COMPILING_S:g} s, beside others"
                " that take long; try again later or simplify it"
            )
            self._end(running, message, worker_pb2.FINISH_REFUSED)
            return
        except (_core.EngineError, SpectrieError, ValueError, OverflowError) as error:
            self._end(running, str(error), worker_pb2.FINISH_INVALID)
            return
        self._begin(running, grammar)

    def _is_wanted(self, running: RequestState) -> bool:
        """Whether a request that waited is to go on; ends one that was cancelled or has no time left."""
        with self._lock:
            is_awaited = self._by_handle.get(running.handle) is running
            is_cancelled = running.cancelled
        if not is_awaited:
            return False
        if is_cancelled:
            self._end(running, _CANCELLED_BEFORE, worker_pb2.FINISH_CANCELLED)
        elif is_overdue(running.start):
            self._end(running, None, worker_pb2.FINISH_DEADLINE)
        else:
            return True
        return False

    def _begin(self, running: RequestState, grammar: _core.Grammar | None) -> None:
        """Submits a request to the engine after checking its options."""
        from spectrie import _core

        try:
            request = engine_request(
                running.handle,
                running.start,
                self._host.can_speculate,
                grammar,
                self._host.tokenizer,
            )
        except (_core.EngineError, SpectrieError, ValueError, OverflowError) as error:
            self._end(running, str(error), worker_pb2.FINISH_INVALID)
            return
        try:
            with self._lock:
                is_awaited = self._by_handle.get(running.handle) is running
                if is_awaited and not running.cancelled:
                    self._host.submit(request)
                    return
        except _core.EngineError as error:
            self._end(running, str(error), worker_pb2.FINISH_REFUSED)
            return
        if is_awaited:
            self._end(running, _CANCELLED_BEFORE, worker_pb2.FINISH_CANCELLED)

    def _end(
        self, running: RequestState, reason: str | None, finish: worker_pb2.FinishKind.ValueType
    ) -> None:
        """Ends a request that the engine does not hold."""
        self._forget(running)
        self._refuse(running.start, reason, finish)

    def _learn(self, learn: worker_pb2.Learn) -> None:
        from spectrie import _core

        try:
            self._host.learn(learn.namespace, list(learn.token_ids))
        except _core.EngineError as error:
            # A hint that is lost costs speed at most.
            log.debug("did not learn from another worker: %s", error)

    def _forget_text(self, namespace: str) -> None:
        """Keeps other workers from learning the running requests of a deleted namespace."""
        with self._lock:
            for running in self._by_handle.values():
                if running.start.namespace == namespace:
                    running.is_forgotten = True

    def _reply(self, reply: worker_pb2.AdminReply) -> None:
        self._outbox.put(worker_pb2.WorkerMessage(admin_reply=reply))

    def _refuse(
        self,
        start: worker_pb2.Start,
        reason: str | None,
        finish: worker_pb2.FinishKind.ValueType = worker_pb2.FINISH_REFUSED,
    ) -> None:
        output = refusal(start, reason, finish)
        self._outbox.put(self._step_message([output]))

    def _cancel(self, cancel: worker_pb2.Cancel) -> None:
        with self._lock:
            running = self._by_name.get((cancel.request_id, cancel.attempt))
            if running is None or running.cancelled:
                return
            running.cancelled = True
            running.ended_well = cancel.finished
            running.keep_tokens = cancel.keep_tokens if cancel.HasField("keep_tokens") else None
        self._host.cancel(running.handle, running.keep_tokens, cancel.finished)

    def _forget(self, running: RequestState) -> None:
        with self._lock:
            self._by_handle.pop(running.handle, None)
            self._by_name.pop((running.start.request_id, running.start.attempt), None)

    def _output_messages(self, output: _core.StepOutput) -> Iterator[worker_pb2.WorkerMessage]:
        outputs: list[worker_pb2.RequestOutput] = []
        texts: list[worker_pb2.WorkerMessage] = []
        # Each attribute of the engine's object makes a new list: read them once.
        bounds, token_ids, sources = output.token_indptr, output.token_ids, output.sources
        for index, (handle, finish) in enumerate(zip(output.handles, output.finishes, strict=True)):
            with self._lock:
                running = self._by_handle.get(handle)
            # None: the request belonged to a connection that is gone.
            if running is None:
                continue
            span = slice(bounds[index], bounds[index + 1])
            message = request_output(running, output, index, token_ids[span], sources[span], finish)
            if message.prompt_logprobs:
                # Alone, because a long prompt's fill a good part of the largest message.
                yield self._step_message([message])
            else:
                outputs.append(message)
            if finish is not None:
                self._forget(running)
                texts.extend(learned(running, finish))
        if outputs:
            yield self._step_message(outputs)
        yield from texts
        if self._reports.is_load_due():
            yield self._reports.load()

    def _step_message(self, outputs: list[worker_pb2.RequestOutput]) -> worker_pb2.WorkerMessage:
        step = worker_pb2.StepOutput(step=self._host.steps, outputs=outputs)
        return worker_pb2.WorkerMessage(step_output=step)
