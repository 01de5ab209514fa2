"""The order in which a kubelet starts, asks and stops the containers of a pod (kubelet 1.36).

Init containers start one after the other: an ordinary one ends before the next, a sidecar has passed its startup
probe. Then all others start. A deletion calls all preStop hooks at once; then the others get SIGTERM. A sidecar
gets it when all others have ended and all sidecars after it. What is left of the grace period, but at least two
seconds, is between SIGTERM and SIGKILL.

A kubelet would start a container again that ends, or fails its startup or liveness probe. Here the pod has failed:
what it runs is well, so the manifest is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tools.kube.node.pods import Container, Pod, Probe

__all__ = ["Kubelet", "Node", "PodFailed", "Process"]

LEAST_GRACE_S = 2.0


class PodFailed(Exception):
    """A container did what a pod that is well does not; the message names it and says what."""


class Process(Protocol):
    """What runs a container."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""

    def terminate(self) -> None:
        """Sends SIGTERM."""

    def kill(self) -> None:
        """Sends SIGKILL."""


class Node(Protocol):
    """Where containers run."""

    def start(self, container: Container) -> Process:
        """Starts a container."""

    def ask(self, container: Container, probe: Probe) -> bool:
        """Whether the container answers a probe as it should, within the probe's time."""


@dataclass(slots=True)
class _Asked:
    """A probe of a container: when it is due, and how it went of late."""

    probe: Probe
    due: float
    failures: int = 0
    successes: int = 0


@dataclass(slots=True)
class _Running:
    """A container of the pod, from its start on."""

    container: Container
    process: Process
    asked: dict[str, _Asked]
    is_started: bool
    is_ready: bool
    exit_code: int | None = None
    hook_until: float = 0.0
    kill_at: float | None = None
    is_killed: bool = False


@dataclass(slots=True)
class Kubelet:
    """A pod from its start to its end; `step` goes on with what is due.

    Args:
        name: Of the pod.
        pod: What it is made of.
        node: Runs its containers and answers for them.
        clock: Seconds.
        events: Gets what happens, in order: `POD ready`, `unready`, `deleted`, or of a container `started`,
            `passed` its startup probe, `SIGTERM`, `SIGKILL`, `ended CODE`, as `POD/CONTAINER ended 0`.
    """

    name: str
    pod: Pod
    node: Node
    clock: Callable[[], float]
    events: list[str]
    questions: dict[str, int] = field(default_factory=dict)
    """How often each kind of probe was asked."""
    _running: dict[str, _Running] = field(default_factory=dict)
    _deleted_at: float | None = None
    _was_ready: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether every container that goes on is ready."""
        lasting = [one for one in self.pod.containers if one.is_sidecar or not one.is_init]
        return all(
            one.name in self._running and self._running[one.name].is_ready for one in lasting
        )

    @property
    def is_gone(self) -> bool:
        """Whether it was deleted and nothing of it runs."""
        return self._deleted_at is not None and not any(map(self._runs, self._running.values()))

    @property
    def is_stopping(self) -> bool:
        """Whether a container has got SIGTERM, or none is left."""
        return self.is_gone or any(one.kill_at is not None for one in self._running.values())

    def delete(self) -> None:
        """The pod is to stop."""
        self._deleted_at = self.clock()
        self._event("deleted")
        for one in self._running.values():
            one.hook_until = self._deleted_at + min(one.container.pause_s, self.pod.grace_s)

    def step(self) -> None:
        """Does what is due.

        Raises:
            PodFailed: A container ended before it was to, or fails a probe.
        """
        self._note_ends()
        if self._deleted_at is None:
            self._start()
        self._ask()
        if self._deleted_at is not None:
            self._stop(self._deleted_at + self.pod.grace_s)
        elif self.is_ready != self._was_ready:
            self._was_ready = self.is_ready
            self._event("ready" if self.is_ready else "unready")

    def kill(self) -> None:
        """Ends all that runs, without grace."""
        for one in self._running.values():
            one.process.kill()

    def _event(self, text: str, container: str = "") -> None:
        self.events.append(
            f"{self.name}/{container} {text}" if container else f"{self.name} {text}"
        )

    @staticmethod
    def _runs(one: _Running) -> bool:
        return one.exit_code is None

    def _note_ends(self) -> None:
        for name, one in self._running.items():
            if one.exit_code is not None:
                continue
            one.exit_code = one.process.poll()
            if one.exit_code is None:
                continue
            one.is_ready = False
            self._event(f"ended {one.exit_code}", name)
            is_step = one.container.is_init and not one.container.is_sidecar
            if self._deleted_at is None and not (is_step and one.exit_code == 0):
                raise PodFailed(
                    f"{name} ended with code {one.exit_code} before its pod was deleted"
                )

    def _start(self) -> None:
        for container in self.pod.containers:
            one = self._running.get(container.name)
            if one is None:
                one = self._begin(container)
            if container.is_sidecar and not one.is_started:
                return
            if container.is_init and not container.is_sidecar and one.exit_code is None:
                return

    def _begin(self, container: Container) -> _Running:
        self._event("started", container.name)
        process, now = self.node.start(container), self.clock()
        asked = {
            kind: _Asked(probe, now + probe.delay_s) for kind, probe in container.probes.items()
        }
        is_started = "startup" not in asked
        is_ready = is_started and "readiness" not in asked
        one = _Running(container, process, asked, is_started, is_ready)
        self._running[container.name] = one
        return one

    def _ask(self) -> None:
        """A startup probe alone until it has passed; none but readiness once the pod is deleted."""
        for one in filter(self._runs, self._running.values()):
            for kind, asked in one.asked.items():
                if (kind == "startup") == one.is_started:
                    continue
                if self._deleted_at is not None and kind != "readiness":
                    continue
                if self.clock() >= asked.due:
                    self._ask_one(one, kind, asked)

    def _ask_one(self, one: _Running, kind: str, asked: _Asked) -> None:
        probe, name = asked.probe, one.container.name
        self.questions[kind] = self.questions.get(kind, 0) + 1
        is_well = self.node.ask(one.container, probe)
        asked.due = self.clock() + probe.period_s
        asked.successes = asked.successes + 1 if is_well else 0
        asked.failures = 0 if is_well else asked.failures + 1
        has_failed = asked.failures >= probe.failures
        if kind == "readiness":
            if asked.successes >= probe.successes or has_failed:
                one.is_ready = is_well
        elif has_failed:
            where = f"{probe.way} port {probe.port}{probe.path}"
            raise PodFailed(
                f"{name} fails its {kind} probe ({where}), {asked.failures} times in a row"
            )
        elif kind == "startup" and is_well:
            one.is_started = True
            one.is_ready = "readiness" not in one.asked
            self._event("passed", name)
            for other in one.asked.values():
                other.due = max(other.due, self.clock() + other.probe.delay_s)

    def _stop(self, deadline: float) -> None:
        now = self.clock()
        for one in filter(self._runs, self._running.values()):
            if one.kill_at is None:
                if now >= one.hook_until and not self._outlives(one.container):
                    one.kill_at = max(deadline, now + LEAST_GRACE_S)
                    self._event("SIGTERM", one.container.name)
                    one.process.terminate()
            elif now >= one.kill_at and not one.is_killed:
                one.is_killed = True
                self._event("SIGKILL", one.container.name)
                one.process.kill()

    def _outlives(self, container: Container) -> bool:
        """Whether something still runs that a sidecar stops after."""
        if not container.is_sidecar:
            return False
        names = [one.name for one in self.pod.containers]
        later = names[names.index(container.name) + 1 :]
        return any(name in self._running and self._runs(self._running[name]) for name in later)
