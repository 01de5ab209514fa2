"""The worker's connection to its router: reconnects indefinitely, one stream at a time."""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from spectrie._proto import worker_pb2, worker_pb2_grpc
from spectrie.version import __version__
from spectrie.worker.admin import AdminDesk
from spectrie.worker.artifacts import artifact_chunks
from spectrie.worker.channel import router_channel
from spectrie.worker.config import LinkOptions
from spectrie.worker.session import Session

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.engine.host import EngineHost
    from spectrie.model import Runner

__all__ = ["PROTOCOL", "RouterLink"]

log = logging.getLogger("spectrie.worker")

PROTOCOL = 1
HEARTBEAT_S = 1.0

HANG_UP_S = 2.0
"""Time for a router to take the last messages."""


class RouterLink:
    """Keeps an `EngineHost` connected to a router.

    If a connection breaks, or a message of the router cannot be handled, the requests of the connection
    are cancelled, since no client waits for them any more.

    Args:
        options: Address of the router, and pauses between dials.
        model_name: Name of the model for clients.
        on_death: Receives the exception that ended a thread of the link, which then reconnects no more.
        on_drain: Receives that the router wants this worker to drain, with the seconds that it may
            take; None for as long as the worker's own options say.
    """

    def __init__(
        self,
        options: LinkOptions,
        model_name: str,
        on_death: Callable[[BaseException], None],
        on_drain: Callable[[float | None], None] = lambda _: None,
    ) -> None:
        self._options = options
        self._model_name = model_name
        self._on_death = on_death
        self._on_drain = on_drain
        self._instance = uuid.uuid4().hex
        self._handles = itertools.count(1)
        self._session: Session | None = None
        self._call: Any = None
        self._closing = threading.Event()
        self._draining = False
        self.welcomed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, host: EngineHost, state_folder: Path | None = None) -> None:
        """Starts dialling; requests run on `host`, which passes its outputs to `deliver`.

        Args:
            host: Runs the requests.
            state_folder: Folder for snapshots that the router requests.
        """
        fingerprint = host.tokenizer_fingerprint or host.runner.model_hash
        desk = AdminDesk(host.engine, state_folder, fingerprint)
        self._thread = self._started("spectrie-link", lambda: self._run(host, desk))
        self._started("spectrie-beats", self._beat)

    def deliver(self, output: _core.StepOutput) -> None:
        """Receives a step's output; must return at once."""
        session = self._session
        if session is not None:
            session.deliver(output)

    @property
    def num_running(self) -> int:
        """Number of unfinished requests of the current connection."""
        session = self._session
        return 0 if session is None else session.num_running

    def drain(self, timeout_s: float) -> bool:
        """Refuses new requests and waits for the running ones; returns whether all ended in time."""
        self._draining = True
        session = self._session
        if session is not None:
            session.drain()
        deadline = time.monotonic() + timeout_s
        while self.num_running and time.monotonic() < deadline:
            if self._closing.wait(0.02):
                break
        return self.num_running == 0

    def close(self) -> None:
        """Hangs up, once what was to be sent is sent, and stops dialling."""
        self._closing.set()
        session, call = self._session, self._call
        if session is not None:
            session.hang_up()
            self._join(HANG_UP_S)
        if call is not None:
            call.cancel()
        self._join(5.0)

    def _join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _started(self, name: str, loop: Callable[[], None]) -> threading.Thread:
        """Starts a thread whose death is reported: without it the worker would live on, deaf."""

        def run() -> None:
            try:
                loop()
            except BaseException as error:  # a panic of the core is no Exception
                log.critical("the thread %s died", name, exc_info=True)
                self._on_death(error)

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def _run(self, host: EngineHost, desk: AdminDesk) -> None:
        pause_s = self._options.backoff_s
        while not self._closing.is_set():
            began_s = time.monotonic()
            ended_well = self._connect(host, desk)
            # A fault that each connection meets again must not find the shortest pause each time.
            if ended_well or time.monotonic() - began_s > self._options.max_backoff_s:
                pause_s = self._options.backoff_s
            if self._closing.wait(pause_s):
                return
            pause_s = min(pause_s * 2, self._options.max_backoff_s)

    def _connect(self, host: EngineHost, desk: AdminDesk) -> bool:
        """Serves one connection to its end.

        Returns:
            Whether the router had accepted this worker, and all that it sent was handled.
        """
        session = Session(
            host, lambda: next(self._handles), self._greeting(host), desk, self._on_drain
        )
        if self._draining:
            session.drain()
        self._session = session
        is_faulty = False
        try:
            with router_channel(self._options) as channel:
                stub = worker_pb2_grpc.WorkerHubStub(channel)
                self._call = stub.Connect(session.messages(), metadata=self._metadata())
                for message in self._call:
                    if message.HasField("welcome"):
                        self.welcomed.set()
                    session.receive(message)
            # A good end is a router that stops.
            self._say(logging.INFO, "the router stopped")
        except grpc.RpcError as error:
            self._report(error)
        except OSError as error:
            log.warning("cannot dial the router: %s", error)
        except Exception:
            is_faulty = True
            log.exception("the connection to the router failed inside this worker; dialling again")
        finally:
            self._session = None
            session.close()
        joined = self.welcomed.is_set()
        self.welcomed.clear()
        return joined and not is_faulty

    def _say(self, level: int, what: str) -> None:
        """Logs why a connection ended, unless this worker ends it."""
        if not self._closing.is_set():
            log.log(level, "%s%s", what, "" if self._draining else "; dialling again")

    def _report(self, error: grpc.RpcError) -> None:
        if self._closing.is_set():
            return
        code = error.code() if isinstance(error, grpc.Call) else None
        details = error.details() if isinstance(error, grpc.Call) else str(error)
        name = "an error" if code is None else code.name
        if self.welcomed.is_set():
            self._say(logging.WARNING, f"lost the router ({name}: {details})")
        else:
            log.info("no router at %s yet (%s: %s)", self._options.target, name, details)

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        token = self._options.token
        return () if token is None else (("authorization", f"Bearer {token}"),)

    def _greeting(self, host: EngineHost) -> Iterator[worker_pb2.WorkerMessage]:
        runner = host.runner
        yield worker_pb2.WorkerMessage(
            hello=worker_pb2.Hello(
                protocol=PROTOCOL,
                version=__version__,
                model=self._model_name,
                model_hash=runner.model_hash,
                numeric_fingerprint=runner.numeric_fingerprint,
                capacity=worker_pb2.Capacity(
                    max_context=runner.max_context,
                    max_running=host.max_running,
                    num_pages=runner.num_pages,
                    page_size=runner.page_size,
                    max_draft_tokens=host.options.max_draft_tokens,
                ),
                vocabulary_size=runner.vocabulary_size,
                eos_token_ids=list(runner.eos_token_ids),
                instance=self._instance,
                process_id=os.getpid(),
                exact=runner.exact,
                drafter=next(iter(_drafters(runner)), None),
                drafters=_drafters(runner),
            )
        )
        for chunk in artifact_chunks(host.folder):
            yield worker_pb2.WorkerMessage(artifact=chunk)
        yield worker_pb2.WorkerMessage(ready=worker_pb2.Ready())

    def _beat(self) -> None:
        while not self._closing.wait(HEARTBEAT_S):
            session = self._session
            if session is not None and self.welcomed.is_set():
                session.beat()


def _drafters(runner: Runner) -> list[worker_pb2.Drafter]:
    """Names the drafters beside the model."""
    return [worker_pb2.Drafter(name=one.name, kind=one.kind) for one in runner.drafters]
