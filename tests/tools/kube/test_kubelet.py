"""The order in which containers start, are asked and stop, with processes and a clock of the test."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tools.kube.node.kubelet import Kubelet, PodFailed
from tools.kube.node.pods import Container, Pod, Probe

STARTUP = {"startup": Probe("http", 1, period_s=2, failures=3)}
READY = {"readiness": Probe("http", 2, period_s=5, failures=2)}
ALIVE = {"liveness": Probe("http", 3, period_s=10, failures=2)}


@dataclass(slots=True)
class FakeProcess:
    """A process that ends when the test says so, or by SIGKILL."""

    code: int | None = None
    signals: list[str] = field(default_factory=list)

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self.signals.append("TERM")

    def kill(self) -> None:
        self.signals.append("KILL")
        if self.code is None:
            self.code = -9


@dataclass(slots=True)
class FakeNode:
    """Processes by the names of their containers; those in `well` pass their probes."""

    processes: dict[str, FakeProcess] = field(default_factory=dict)
    well: set[str] = field(default_factory=set)

    def start(self, container: Container) -> FakeProcess:
        self.processes[container.name] = FakeProcess()
        return self.processes[container.name]

    def ask(self, container: Container, probe: Probe) -> bool:
        return container.name in self.well


class World:
    """A pod, its node, and a clock that only the test moves."""

    def __init__(self, *containers: Container, grace_s: float = 30.0) -> None:
        self.node, self.now = FakeNode(), 0.0
        pod = Pod("pod", containers, grace_s)
        self.kubelet = Kubelet("pod-0", pod, self.node, lambda: self.now, [])

    def step(self, seconds: float = 0.0) -> list[str]:
        """Lets time pass and does what is due; the events of it."""
        self.now += seconds
        before = len(self.kubelet.events)
        self.kubelet.step()
        return [one.removeprefix("pod-0").lstrip(" /") for one in self.kubelet.events[before:]]

    def end(self, name: str, code: int = 0) -> None:
        """A process ends."""
        self.node.processes[name].code = code


def sidecar(name: str, **more: object) -> Container:
    return Container(name, is_init=True, is_sidecar=True, **more)  # type: ignore[arg-type]


def running(*, pause_s: float = 0.0, grace_s: float = 30.0) -> World:
    """Worker and router as sidecars of an app, all started and ready."""
    world = World(
        sidecar("worker"), sidecar("router"), Container("app", pause_s=pause_s), grace_s=grace_s
    )
    assert world.step() == ["worker started", "router started", "app started", "ready"]
    return world


def test_init_containers_end_and_sidecars_pass_before_the_next_starts() -> None:
    world = World(
        Container("fetch", is_init=True),
        sidecar("worker", probes=STARTUP),
        sidecar("router", probes=STARTUP),
        Container("app"),
        Container("other"),
    )
    assert world.step() == ["fetch started"]
    assert world.step(60) == []
    world.end("fetch")
    assert world.step() == ["fetch ended 0", "worker started"]
    world.node.well = {"worker"}
    assert world.step(2) == ["worker passed"]
    assert world.step() == ["router started"]
    assert world.step(1) == []
    world.node.well = {"worker", "router"}
    assert world.step(2) == ["router passed"]
    assert world.step() == ["app started", "other started", "ready"]


def test_a_pod_is_ready_while_all_that_go_on_are() -> None:
    world = World(sidecar("worker", probes=READY), Container("router", probes=READY))
    world.node.well = {"router"}
    assert world.step() == ["worker started", "router started"]
    assert not world.kubelet.is_ready
    world.node.well.add("worker")
    assert world.step(5) == ["ready"]
    world.node.well.remove("router")
    assert world.step(5) == []
    assert world.step(5) == ["unready"]


def test_a_startup_probe_is_asked_alone_until_it_passes() -> None:
    world = World(Container("router", probes=STARTUP | READY | ALIVE))
    world.step()
    world.step(2)
    assert world.kubelet.questions == {"startup": 2}
    world.node.well = {"router"}
    assert world.step(2) == ["router passed", "ready"]
    assert world.kubelet.questions == {"startup": 3, "readiness": 1, "liveness": 1}
    world.step(5)
    assert world.kubelet.questions == {"startup": 3, "readiness": 2, "liveness": 1}


@pytest.mark.parametrize(("probes", "after"), [(STARTUP, 2), (ALIVE, 1)])
def test_a_startup_or_liveness_probe_that_fails_as_often_as_it_may_fails_the_pod(
    probes: dict[str, Probe], after: int
) -> None:
    world = World(Container("router", probes=probes))
    (probe,) = probes.values()
    world.step()
    for _ in range(after - 1):
        world.step(probe.period_s)
    with pytest.raises(PodFailed, match=f"router fails its .* port {probe.port}"):
        world.step(probe.period_s)


def test_a_container_that_ends_before_the_deletion_fails_the_pod() -> None:
    world = running()
    world.end("router", 0)
    with pytest.raises(PodFailed, match="router ended with code 0"):
        world.step()


def test_an_init_container_that_fails_fails_the_pod() -> None:
    world = World(Container("fetch", is_init=True), Container("app"))
    world.step()
    world.end("fetch", 3)
    with pytest.raises(PodFailed, match="fetch ended with code 3"):
        world.step()


def test_sidecars_stop_in_reverse_once_what_they_serve_has_ended() -> None:
    world = running(pause_s=5)
    world.kubelet.delete()
    assert world.step(4.9) == []
    assert world.step(0.1) == ["app SIGTERM"]
    assert world.step(1) == []
    world.end("app")
    assert world.step() == ["app ended 0", "router SIGTERM"]
    world.end("router")
    assert world.step() == ["router ended 0", "worker SIGTERM"]
    assert not world.kubelet.is_gone
    world.end("worker")
    assert world.step() == ["worker ended 0"]
    assert world.kubelet.is_gone


def test_all_that_are_no_sidecars_stop_at_once() -> None:
    world = World(sidecar("worker"), Container("router"), Container("app"))
    world.step()
    world.kubelet.delete()
    assert world.step() == ["router SIGTERM", "app SIGTERM"]


def test_hooks_take_from_the_grace_period_and_what_outlasts_it_is_killed() -> None:
    world = running(pause_s=10, grace_s=11)
    world.kubelet.delete()
    assert world.step(10) == ["app SIGTERM"]
    assert world.step(1.9) == []
    # Two seconds are the least, even where less of the period is left.
    assert world.step(0.1) == ["app SIGKILL"]
    assert world.step() == ["app ended -9", "router SIGTERM"]
    assert world.step(2) == ["router SIGKILL"]


def test_a_deleted_pod_is_asked_for_readiness_alone() -> None:
    world = World(Container("router", probes=READY | ALIVE))
    world.node.well = {"router"}
    world.step()
    world.kubelet.delete()
    world.node.well.clear()
    world.step(50)
    assert world.kubelet.questions == {"readiness": 2, "liveness": 1}


def test_a_pod_is_stopping_from_its_first_signal_on() -> None:
    world = running(pause_s=5)
    world.kubelet.delete()
    world.step(4)
    assert not world.kubelet.is_stopping
    world.step(1)
    assert world.kubelet.is_stopping
    assert world.kubelet.events[-2:] == ["pod-0 deleted", "pod-0/app SIGTERM"]


def test_killing_ends_whatever_runs() -> None:
    world = running()
    world.kubelet.kill()
    assert [one.signals for one in world.node.processes.values()] == [["KILL"]] * 3
