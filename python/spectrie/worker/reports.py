"""What a worker says of itself to its router: its progress and its load."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from spectrie._proto import worker_pb2
from spectrie.worker.messages import load_message

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["Reports", "ReportsLoad"]

log = logging.getLogger("spectrie.worker")

LOAD_INTERVAL_S = 0.1


class ReportsLoad(Protocol):
    """The part of an `EngineHost` that is reported."""

    @property
    def engine(self) -> _core.Engine:
        """The engine, whose load is reported."""

    @property
    def recycles(self) -> bool:
        """Whether drafts use the model's runner-up tokens."""

    @property
    def drafters(self) -> Sequence[str]:
        """Names of the drafters that the engine knows, in its order."""

    @property
    def steps(self) -> int:
        """Steps done since the start."""

    @property
    def busy(self) -> bool:
        """Whether the last plan had work."""


class Reports:
    """Makes the reports of one connection."""

    def __init__(self, host: ReportsLoad) -> None:
        self._host = host
        self._load_sent_s = 0.0
        self._lost_corpus_blocks = 0

    def heartbeat(self) -> worker_pb2.WorkerMessage:
        """How far the worker is, and how long a step may take."""
        host, load = self._host, self._host.engine.load(memory=False)
        beat = worker_pb2.Heartbeat(
            steps=host.steps,
            busy=host.busy or load.running + load.waiting > 0,
            longest_step_ms=load.longest_step_ms,
        )
        return worker_pb2.WorkerMessage(heartbeat=beat)

    def is_load_due(self) -> bool:
        """Whether the last load is old enough for another one."""
        return time.monotonic() - self._load_sent_s >= LOAD_INTERVAL_S

    def load(self) -> worker_pb2.WorkerMessage:
        """The load now. Blocks of corpora that were lost since the last one are logged."""
        self._load_sent_s = time.monotonic()
        load = self._host.engine.load()
        if load.lost_corpus_blocks > self._lost_corpus_blocks:
            self._lost_corpus_blocks = load.lost_corpus_blocks
            log.warning(
                "Blocks of corpora that are damaged or cut off: %d. Nothing is drafted from them. "
                "`spectrie corpus list` names the files: build them again",
                load.lost_corpus_blocks,
            )
        message = load_message(load, self._host.recycles, self._host.drafters)
        return worker_pb2.WorkerMessage(load=message)
