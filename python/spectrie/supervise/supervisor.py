"""Keeps a router and several workers running: restarts what dies, gives up on what cannot start."""

from __future__ import annotations

import logging
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from spectrie.supervise.child import Child

__all__ = ["EXIT_HOPELESS", "Program", "Supervisor"]

log = logging.getLogger("spectrie.serve")

EXIT_HOPELESS = 78
"""A child ends with this when starting it again cannot help: a bad model, a taken address."""

MAX_FAILED_STARTS = 5
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
STABLE_AFTER_S = 60.0
"""A child that was ready this long is restarted after the first pause again."""

STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class Program:
    """What to keep running.

    Attributes:
        name: Prefix of its log lines.
        command: Gives program and arguments at each start, from the facts of its first ready line
            (none at the first start), so that a restart takes the same ports.
        environment: Variables added to this process's own.
    """

    name: str
    command: Callable[[Mapping[str, Any] | None], Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Slot:
    """A program and the process that runs it now."""

    program: Program
    child: Child | None = None
    facts: dict[str, Any] | None = None
    ready: bool = False
    ready_since_s: float = 0.0
    failed_starts: int = 0
    pause_s: float = FIRST_PAUSE_S


@dataclass(frozen=True, slots=True)
class _Event:
    """Something that happened to a slot, or (slot None) a signal."""

    slot: _Slot | None
    kind: str
    payload: Any = None


class Supervisor:
    """Starts programs in order and keeps them running until a signal or a hopeless failure.

    The first SIGINT or SIGTERM drains: programs get SIGTERM one after the other, in the order
    they were given. The second stops all at once.

    Args:
        drain_s: How long the first program may take to end; the others get 10 s.
    """

    def __init__(self, drain_s: float) -> None:
        self._drain_s = drain_s
        self._slots: list[_Slot] = []
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._num_signals = 0

    def __enter__(self) -> Supervisor:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self._slots:
            if slot.child is not None:
                slot.child.kill()

    def start(self, program: Program) -> None:
        """Starts a program without waiting for it."""
        slot = _Slot(program)
        self._slots.append(slot)
        self._spawn(slot)

    def wait_ready(self) -> list[dict[str, Any]] | int:
        """Waits until every program is ready.

        Returns:
            The facts of each program's ready line, in the order of `start`; or the exit code,
            when a signal or a hopeless failure came first.
        """
        while not all(slot.ready for slot in self._slots):
            code = self._act(self._events.get())
            if code is not None:
                return code
        return [slot.facts or {} for slot in self._slots]

    def run(self) -> int:
        """Keeps everything running; returns the exit code after a signal or a hopeless failure."""
        while True:
            code = self._act(self._events.get())
            if code is not None:
                return code

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._num_signals += 1
        self._events.put(_Event(None, "signal"))

    def _spawn(self, slot: _Slot) -> None:
        slot.ready = False
        slot.child = Child(
            slot.program.name,
            slot.program.command(slot.facts),
            environment=slot.program.environment,
            on_ready=lambda facts: self._events.put(_Event(slot, "ready", facts)),
            on_exit=lambda code: self._events.put(_Event(slot, "exit", code)),
        )

    def _act(self, event: _Event) -> int | None:
        """Acts on an event; the exit code when it ends everything."""
        slot = event.slot
        if slot is None:
            return self._drain()
        if event.kind == "ready":
            slot.ready = True
            slot.ready_since_s = time.monotonic()
            slot.failed_starts = 0
            slot.facts = slot.facts or event.payload
        elif event.kind == "restart":
            self._spawn(slot)
        elif event.kind == "exit":
            return self._ended(slot, event.payload)
        return None

    def _ended(self, slot: _Slot, code: int) -> int | None:
        was_ready = slot.ready
        slot.ready = False
        name = slot.program.name
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if code == EXIT_HOPELESS:
            log.error("%s cannot start; starting it again would not help", name)
            return 1
        if was_ready:
            if time.monotonic() - slot.ready_since_s >= STABLE_AFTER_S:
                slot.pause_s = FIRST_PAUSE_S
            log.warning("%s ended (%s); starting it again in %g s", name, how, slot.pause_s)
        else:
            slot.failed_starts += 1
            if slot.failed_starts >= MAX_FAILED_STARTS:
                self._give_up(slot, how)
                return 1
            log.warning(
                "%s did not start (%s), %d of %d tries; again in %g s",
                name,
                how,
                slot.failed_starts,
                MAX_FAILED_STARTS,
                slot.pause_s,
            )
        pause_s, slot.pause_s = slot.pause_s, min(slot.pause_s * 2, LONGEST_PAUSE_S)
        timer = threading.Timer(pause_s, self._events.put, (_Event(slot, "restart"),))
        timer.daemon = True
        timer.start()
        return None

    def _give_up(self, slot: _Slot, how: str) -> None:
        log.error(
            "%s did not start in %d tries (%s); its last lines:",
            slot.program.name,
            MAX_FAILED_STARTS,
            how,
        )
        for line in slot.child.last_lines if slot.child is not None else ():
            log.error("  %s", line)

    def _drain(self) -> int:
        """Ends the programs one after the other; a second signal ends all at once."""
        log.info("draining: running requests may finish; once more stops at once")
        for index, slot in enumerate(self._slots):
            child = slot.child
            if child is None:
                continue
            child.signal(signal.SIGTERM)
            limit_s = self._drain_s + STOP_S if index == 0 else STOP_S
            if not self._wait_or_signal(child, limit_s):
                break
        if self._num_signals > 1:
            log.warning("stopping at once")
            return 130
        return 0

    def _wait_or_signal(self, child: Child, limit_s: float) -> bool:
        """Waits for a child's end; False when a second signal or the limit came first."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline and self._num_signals < 2:
            if child.wait(0.05):
                return True
        if self._num_signals < 2:
            log.warning("%s did not end in %g s: killing it", child.name, limit_s)
            child.kill()
            return True
        return False
