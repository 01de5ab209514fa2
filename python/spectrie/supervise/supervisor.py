"""Keeps a router and several workers running: restarts those that die, ends where none could serve."""

from __future__ import annotations

import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from spectrie.supervise.backoff import Backoff
from spectrie.supervise.child import Child
from spectrie.supervise.descendants import descendants
from spectrie.supervise.pulse import STACKS_SIGNAL, Pulse
from spectrie.supervise.signals import SIGNAL_S
from spectrie.supervise.stall import StallWatch

__all__ = ["EXIT_HOPELESS", "Program", "Supervisor"]

log = logging.getLogger("spectrie.serve")

EXIT_HOPELESS = 78
"""Exit code of a child that a restart cannot help, such as a bad model or an address in use."""

MAX_FAILED_STARTS = 5
CHECK_S = 0.1
"""How often watched children are looked at."""

STACKS_S = 0.3
"""Time for a stalled child to write where its threads are."""

STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class Program:
    """A program to keep running.

    Attributes:
        name: Prefix of its log lines.
        command: Returns program and arguments for each start, given the facts of its first ready line
            (none at the first start), so that a restart uses the same ports.
        environment: Variables added to this process's own.
        stall_timeout_s: Seconds without progress after which it is killed and started again; the
            program says how far it is, see `pulse`. None watches nothing.
        serves: The model that it serves. None is for a program that all others need.
    """

    name: str
    command: Callable[[Mapping[str, Any] | None], Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)
    stall_timeout_s: float | None = None
    serves: str | None = None


@dataclass(slots=True)
class _Slot:
    """A program and its current process."""

    program: Program
    child: Child | None = None
    watch: StallWatch | None = None
    facts: dict[str, Any] | None = None
    ready: bool = False
    ready_since_s: float = 0.0
    progress: int | None = None
    has_worked: bool = False
    failed_starts: int = 0
    is_hopeless: bool = False
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True, slots=True)
class _Event:
    """An event of a slot, or (slot None) a signal."""

    slot: _Slot | None
    kind: str
    payload: Any = None


class Supervisor:
    """Starts programs in order and keeps them running until a signal or a hopeless failure.

    A program is hopeless when it says so by its exit code, or after five starts that failed. Until all
    were ready, that ends everything at once. Afterwards it ends everything where all others need that
    program, or where every one that serves a model is hopeless; else it is tried again at the longest
    pause, and the others go on.

    The first SIGINT or SIGTERM drains: programs receive SIGTERM one after the other, in the order
    of their start. The second kills them all at once.

    Args:
        drain_s: Seconds the first program may take to end; the others have 10 s.
    """

    def __init__(self, drain_s: float) -> None:
        self._drain_s = drain_s
        self._slots: list[_Slot] = []
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._num_signals = 0
        self._were_ready = False

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
            if a signal or a hopeless failure came first.
        """
        while not all(slot.ready for slot in self._slots):
            code = self._next()
            if code is not None:
                return code
        return [slot.facts or {} for slot in self._slots]

    def run(self) -> int:
        """Keeps everything running; returns the exit code after a signal or a hopeless failure."""
        self._were_ready = True
        while True:
            code = self._next()
            if code is not None:
                return code

    def _next(self) -> int | None:
        """Handles the next event, or looks at the watched children; the exit code, if there is one."""
        watched = [slot for slot in self._slots if slot.watch is not None]
        try:
            code = self._act(self._events.get(timeout=CHECK_S if watched else SIGNAL_S))
        except queue.Empty:
            code = None
        if code is None:
            for slot in watched:
                self._kill_stalled(slot)
        return code

    def _kill_stalled(self, slot: _Slot) -> None:
        """Kills a child that is stalled, after it was asked where; its end is an event as any other."""
        child, watch = slot.child, slot.watch
        reason = None if watch is None else watch.stalled(time.monotonic())
        if child is None or reason is None:
            return
        slot.watch = None
        log.error("%s %s: killing it", slot.program.name, reason)
        child.signal(STACKS_SIGNAL)
        child.wait(STACKS_S)
        # A rank of its that is stopped does not notice the end of the others.
        others = descendants(child.pid)
        child.signal(signal.SIGKILL)
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._num_signals += 1
        self._events.put(_Event(None, "signal"))

    def _spawn(self, slot: _Slot) -> None:
        slot.ready = False
        timeout_s = slot.program.stall_timeout_s
        slot.watch = watch = None if timeout_s is None else StallWatch(timeout_s, time.monotonic())

        def on_pulse(pulse: Pulse) -> None:
            self._events.put(_Event(slot, "pulse", (watch, pulse, time.monotonic())))

        slot.child = Child(
            slot.program.name,
            slot.program.command(slot.facts),
            environment=slot.program.environment,
            on_ready=lambda facts: self._events.put(_Event(slot, "ready", facts)),
            on_exit=lambda code: self._events.put(_Event(slot, "exit", code)),
            on_pulse=None if watch is None else on_pulse,
        )

    def _act(self, event: _Event) -> int | None:
        """Handles an event; returns the exit code if the event ends everything."""
        slot = event.slot
        if slot is None:
            return self._drain()
        if event.kind == "ready":
            slot.ready = True
            slot.ready_since_s = time.monotonic()
            slot.progress, slot.has_worked = None, False
            slot.failed_starts = 0
            if slot.is_hopeless:
                slot.is_hopeless = False
                log.info("%s is back", slot.program.name)
            slot.facts = slot.facts or event.payload
        elif event.kind == "pulse":
            watch, pulse, now_s = event.payload
            watch.note(pulse, now_s)
            if slot.progress is None:
                slot.progress = pulse.progress
            slot.has_worked |= slot.ready and pulse.progress != slot.progress
        elif event.kind == "restart":
            self._spawn(slot)
        elif event.kind == "exit":
            return self._ended(slot, event.payload)
        return None

    def _ended(self, slot: _Slot, code: int) -> int | None:
        was_ready = slot.ready
        slot.ready = False
        slot.watch = None
        name = slot.program.name
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if code == EXIT_HOPELESS:
            if self._goes_on_without(slot, "cannot start, and a restart alone would not help"):
                return None
            log.error("%s cannot start, and a restart would not help", name)
            return 1
        if was_ready and code == 0:
            # It was asked to drain, by an operator or by a signal of its own.
            log.info("%s drained; starting a fresh one", name)
            self._events.put(_Event(slot, "restart"))
            return None
        if was_ready:
            ready_s = time.monotonic() - slot.ready_since_s
            pause_s = slot.backoff.after_end(ready_s, has_worked=slot.has_worked)
            log.warning("%s ended (%s); restarting it in %.3g s", name, how, pause_s)
        else:
            slot.failed_starts += 1
            if slot.is_hopeless or slot.failed_starts >= MAX_FAILED_STARTS:
                what = f"did not start in {slot.failed_starts} attempts ({how})"
                if self._goes_on_without(slot, what):
                    return None
                log.error("%s %s; its last lines:", name, what)
                for line in _last_lines(slot):
                    log.error("  %s", line)
                return 1
            pause_s = slot.backoff.after_failed_start()
            log.warning(
                "%s did not start (%s), attempt %d of %d; next one in %g s",
                name,
                how,
                slot.failed_starts,
                MAX_FAILED_STARTS,
                pause_s,
            )
        self._restart(slot, pause_s)
        return None

    def _restart(self, slot: _Slot, pause_s: float) -> None:
        """Starts a program again after a pause."""
        timer = threading.Timer(pause_s, self._events.put, (_Event(slot, "restart"),))
        timer.daemon = True
        timer.start()

    def _goes_on_without(self, slot: _Slot, what: str) -> bool:
        """Notes that a program is hopeless; tries it again later if something is left without it."""
        slot.is_hopeless = True
        if not self._were_ready:
            return False
        workers = [one for one in self._slots if one.program.serves is not None]
        if slot.program.serves is None or all(one.is_hopeless for one in workers):
            log.error("nothing can be served any more: ending")
            return False
        pause_s = slot.backoff.after_hopeless_start()
        log.error(
            "%s %s: %s. Put that right: it is tried again every %g s. Now served: %s",
            slot.program.name,
            what,
            (_last_lines(slot) or ["it said nothing"])[-1],
            pause_s,
            self._served(),
        )
        self._restart(slot, pause_s)
        return True

    def _served(self) -> str:
        """How many workers each model has, in words."""
        ready: dict[str, list[bool]] = {}
        for slot in self._slots:
            if slot.program.serves is not None:
                ready.setdefault(slot.program.serves, []).append(slot.ready)
        return ", ".join(f"{one} by {sum(of)} of {len(of)} workers" for one, of in ready.items())

    def _drain(self) -> int:
        """Ends the programs one after the other; a second signal kills them all at once."""
        log.info("draining: running requests may finish; a second signal stops at once")
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
        """Waits for a child's end; returns False if a second signal or the limit came first."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline and self._num_signals < 2:
            if child.wait(0.05):
                return True
        if self._num_signals < 2:
            log.warning("%s did not end in %g s: killing it", child.name, limit_s)
            child.kill()
            return True
        return False


def _last_lines(slot: _Slot) -> list[str]:
    return [] if slot.child is None else slot.child.last_lines
