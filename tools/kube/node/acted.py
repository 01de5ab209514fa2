"""Pods of the chart acted out: started, asked and stopped as a kubelet does, with streams running."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tools.kube.node.box import Box, Network
from tools.kube.node.kubelet import Kubelet, PodFailed
from tools.kube.node.load import Load, Outcome, Way
from tools.kube.node.pods import Manifest, pod_of

__all__ = ["Acted", "Stage", "act", "act_split", "new_key"]

_STEP_S = 0.05
_LIMIT_S = 900.0
_CALLERS = 6
_WORKERS = 2
_LAG_S = 1.0
"""The endpoints have forgotten a pod so long before its pause is over."""
_APP = Way(8080, "/")


@dataclass(frozen=True, slots=True)
class Stage:
    """What a pod is acted out with.

    Attributes:
        folder: For volumes and logs.
        network: Its addresses.
        secrets: Files of each secret, by key.
        claims: The folder that each claim stands for.
        key: An API key that the secrets list.
    """

    folder: Path
    network: Network
    secrets: Mapping[str, Mapping[str, bytes]]
    claims: Mapping[str, Path]
    key: str


@dataclass(frozen=True, slots=True)
class Acted:
    """How it went.

    Attributes:
        events: What happened, in order.
        questions: How often each kind of probe was asked.
        running: Streams when a pod's first container got SIGTERM, the fewest of all pods that stopped under load.
        outcome: What became of the streams.
        start_s: From the start to Ready.
        stop_s: From deletion to the last end, of all pods together.
    """

    events: list[str]
    questions: Mapping[str, int]
    running: int
    outcome: Outcome
    start_s: float
    stop_s: float

    def story(self) -> list[str]:
        """What happened, without the pod's name where there is one pod."""
        pods = {one.partition(" ")[0].partition("/")[0] for one in self.events}
        if len(pods) > 1:
            return self.events
        return [one.removeprefix(*pods).lstrip(" /") for one in self.events]

    def faults(self) -> list[str]:
        """What a stop that loses nothing does not have."""
        found = [f"{one} after its grace period" for one in self.events if "SIGKILL" in one]
        found += [one for one in self.events if " ended " in one and not one.endswith(" 0")]
        if not self.running:
            found.append("no stream was running at SIGTERM: this proves nothing")
        found += [f"a stream was lost: {why}" for why in self.outcome.lost]
        return found + [f"a request was refused: {why}" for why in self.outcome.refused]


def new_key() -> tuple[str, bytes]:
    """An API key, and the keys.toml that lists it, as the page says to make them."""
    command = [sys.executable, "-m", "spectrie", "keys", "new", "kube-e2e"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stderr.split()[-1], done.stdout.encode()


def act(workload: Manifest, stage: Stage) -> Acted:
    """Acts out the pod of a workload, from its start to its end, with streams running.

    Raises:
        PodFailed: It does not become Ready; the message has what its containers wrote.
    """
    with _Scene(stage) as scene:
        kubelet = scene.add(workload)
        scene.until("Ready", lambda: kubelet.is_ready)
        has_app = any("APP_LISTEN" in one.env for one in kubelet.pod.containers)
        scene.call(kubelet, _APP if has_app else _chat(stage))
        scene.stop_called(kubelet)
        return scene.acted()


def act_split(router: Manifest, worker: Manifest, stage: Stage) -> Acted:
    """Acts out a router and two workers: one worker stops under load, then the router, then the other one.

    Args:
        router: The router's workload.
        worker: The workers'.
        stage: What they are acted out with.

    Raises:
        PodFailed: One does not become Ready, or they do not join.
    """
    with _Scene(stage) as scene:
        of_router = scene.add(router)
        service = worker["spec"]["serviceName"]
        workers = [scene.add(worker, number, {service: of_router}) for number in range(_WORKERS)]
        scene.until("Ready", lambda: all(one.is_ready for one in (of_router, *workers)))
        scene.call(of_router, _chat(stage))
        scene.stop(workers[0])
        scene.stop_called(of_router)
        scene.stop(workers[1])
        return scene.acted()


def _chat(stage: Stage) -> Way:
    return Way(8000, "/v1/chat/completions", stage.key)


class _Scene:
    """Pods that run beside each other, and who calls one of them."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._boxes: dict[str, Box] = {}
        self._kubelets: dict[str, Kubelet] = {}
        self._load: Load | None = None
        self._began = time.monotonic()
        self._start_s = self._stop_s = 0.0
        self._running: list[int] = []
        self._events: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._load is not None:
            self._load.stop_asking()
        for kubelet in self._kubelets.values():
            kubelet.kill()

    def add(
        self, workload: Manifest, number: int = 0, services: Mapping[str, Kubelet] | None = None
    ) -> Kubelet:
        """A replica of a workload, which starts with the next step.

        Args:
            workload: The workload.
            number: Of the replica.
            services: The pod behind each Service that it looks for.
        """
        pod, stage = pod_of(workload), self._stage
        name = f"{pod.name}-{number}"
        hosts = {
            service: self._boxes[other.name].address for service, other in (services or {}).items()
        }
        self._boxes[name] = Box(
            pod,
            stage.folder / name,
            stage.network,
            secrets=stage.secrets,
            claims=stage.claims,
            hosts=hosts,
        )
        self._kubelets[name] = Kubelet(name, pod, self._boxes[name], time.monotonic, self._events)
        return self._kubelets[name]

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Lets all pods go on until something is so.

        Raises:
            PodFailed: It does not become so, or a pod fails; the message has what the containers wrote.
        """
        deadline = time.monotonic() + _LIMIT_S
        try:
            while not is_so():
                if time.monotonic() > deadline:
                    raise PodFailed(f"not {what} within {_LIMIT_S:g} s")
                for kubelet in self._kubelets.values():
                    kubelet.step()
                time.sleep(_STEP_S)
        except PodFailed as error:
            raise PodFailed("\n".join([str(error), *self._logs()])) from None

    def call(self, kubelet: Kubelet, way: Way) -> None:
        """Streams run from now on."""
        self._start_s = time.monotonic() - self._began
        address = self._boxes[kubelet.name].address
        load = self._load = Load(lambda: address, way, _CALLERS)
        self.until("answering", lambda: load.is_flowing or load.is_done)

    def stop(self, kubelet: Kubelet) -> None:
        """Deletes a pod that nobody calls, and waits for its end."""
        began = time.monotonic()
        kubelet.delete()
        self._wait_gone(kubelet)
        self._stop_s += time.monotonic() - began

    def stop_called(self, kubelet: Kubelet) -> None:
        """Deletes the pod that is called: requests arrive until the endpoints have forgotten it."""
        load, began = self._load, time.monotonic()
        assert load is not None
        kubelet.delete()
        last = began + max(0.0, max(one.pause_s for one in kubelet.pod.containers) - _LAG_S)
        self.until("asked for the last time", lambda: time.monotonic() >= last)
        load.stop_asking()
        self._wait_gone(kubelet)
        self._stop_s += time.monotonic() - began
        self.until("read to its end", lambda: load.is_done)

    def _wait_gone(self, kubelet: Kubelet) -> None:
        self.until("asked to stop", lambda: kubelet.is_stopping)
        if self._load is not None and not self._load.is_done:
            self._running.append(self._load.running)
        self.until("gone", lambda: kubelet.is_gone)

    def _logs(self) -> list[str]:
        return [
            f"--- {name}, {one.name}\n{self._boxes[name].log(one.name)[-1500:]}"
            for name, kubelet in self._kubelets.items()
            for one in kubelet.pod.containers
        ]

    def acted(self) -> Acted:
        """How it went."""
        assert self._load is not None
        questions: Counter[str] = Counter()
        for kubelet in self._kubelets.values():
            questions.update(kubelet.questions)
        return Acted(
            events=self._events,
            questions=questions,
            running=min(self._running, default=0),
            outcome=self._load.outcome(),
            start_s=self._start_s,
            stop_s=self._stop_s,
        )
