"""Whether this worker goes on, as its supervisor and its probes see it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from spectrie.supervise.pulse import Pulse
from spectrie.supervise.stall import LOADING_S, StallWatch

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["LONGEST_STEPS", "Vitals"]

log = logging.getLogger("spectrie.worker")

PULSE_S = 0.25

LONGEST_STEPS = 5.0
"""Steps like the longest one foreseen, in the time that one may take before the worker is stalled."""

STOPPING_S = 60.0
"""Time for the last step and for what is written at the end."""

_LOADED_PER_S = 2.0
"""Loading has made progress at each line of it, and with each half second of computing."""


class MakesSteps(Protocol):
    """The part of an `EngineHost` that tells its progress."""

    @property
    def engine(self) -> _core.Engine:
        """The engine, whose load is read."""

    @property
    def steps(self) -> int:
        """Steps done since the start."""

    @property
    def busy(self) -> bool:
        """Whether the last plan had work."""


class Vitals:
    """Sends a pulse four times a second, and follows it itself for the probes.

    Args:
        send: Sends a pulse to the supervisor; None without one.
        stall_timeout_s: Seconds without a step, with work pending, after which it counts as stalled.
        on_health: Receives whether the model is warm and not stalled, at each change.
    """

    def __init__(
        self,
        send: Callable[[Pulse], None] | None,
        stall_timeout_s: float,
        on_health: Callable[[bool], None],
    ) -> None:
        self._send = send
        self._on_health = on_health
        self._watch = StallWatch(stall_timeout_s, time.monotonic())
        self._healthy = False
        self._lines = 0
        self._host: MakesSteps | None = None
        self._is_stopping = False
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="spectrie-pulse", daemon=True).start()

    def note_loading(self) -> None:
        """Notes a line of progress of loading."""
        self._lines += 1

    def serve(self, host: MakesSteps) -> None:
        """The model is warm: from now on steps are progress."""
        self._host = host
        self._beat()

    def stop(self) -> None:
        """The last step was asked for: from now on ending is the work."""
        self._is_stopping = True
        # The interpreter's own end may leave no time for another one.
        self._beat()

    def close(self) -> None:
        """Sends no more pulses."""
        self._closed.set()

    def pulse(self) -> Pulse:
        """How far this worker is."""
        host = self._host
        if host is None:
            computed = int(time.process_time() * _LOADED_PER_S)
            return Pulse(self._lines + computed, pending=True, patience_s=LOADING_S)
        if self._is_stopping:
            return Pulse(host.steps, pending=True, patience_s=STOPPING_S)
        load = host.engine.load(memory=False)
        pending = host.busy or load.running + load.waiting > 0
        patience_s = LONGEST_STEPS * load.longest_step_ms / 1e3
        return Pulse(host.steps, pending, patience_s)

    def _run(self) -> None:
        self._beat()
        while not self._closed.wait(PULSE_S):
            self._beat()

    def _beat(self) -> None:
        with self._lock:
            pulse, now_s = self.pulse(), time.monotonic()
            if self._send is not None:
                self._send(pulse)
            self._watch.note(pulse, now_s)
            self._follow(self._watch.stalled(now_s))

    def _follow(self, reason: str | None) -> None:
        healthy = self._host is not None and reason is None
        if healthy == self._healthy:
            return
        if reason is not None and self._host is not None:
            log.error("this worker %s", reason)
        self._healthy = healthy
        self._on_health(healthy)
