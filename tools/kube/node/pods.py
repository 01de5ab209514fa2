"""What a kubelet reads of a workload: containers, probes, hooks, volumes. What is not acted out is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "WORKLOADS",
    "Container",
    "Manifest",
    "Mount",
    "NotActed",
    "Pod",
    "Probe",
    "Volume",
    "pod_of",
    "spec_of",
]

Manifest = dict[str, Any]

WORKLOADS = ("Deployment", "StatefulSet")
"""Kinds of ours whose controllers make pods."""
_KSERVES = {"minReplicas", "maxReplicas", "labels"}
"""What a predictor has besides a pod's own fields."""
_CONTAINER = {"name", "image", "imagePullPolicy", "command", "args", "env", "ports", "resources"}
_CONTAINER |= {"startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "restartPolicy"}
_CONTAINER |= {"securityContext", "volumeMounts"}
_NUMBERS = {
    "initialDelaySeconds": "delay_s",
    "periodSeconds": "period_s",
    "timeoutSeconds": "timeout_s",
    "failureThreshold": "failures",
    "successThreshold": "successes",
}
_PROBE = {"httpGet", "grpc", *_NUMBERS}
_KINDS = ("startup", "readiness", "liveness")


class NotActed(ValueError):
    """A manifest has something that is not acted out: a run that left it out would prove too much."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A question that the kubelet asks a container. Defaults are Kubernetes'.

    Attributes:
        way: `http` or `grpc`.
        port: Where it listens.
        path: What an HTTP probe asks for.
        delay_s: Time before the first question.
        period_s: Time between questions.
        timeout_s: Time for an answer.
        failures: So many in a row are a failure.
        successes: So many in a row are a success.
    """

    way: str
    port: int
    path: str = ""
    delay_s: float = 0.0
    period_s: float = 10.0
    timeout_s: float = 1.0
    failures: int = 3
    successes: int = 1


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume at a path of a container."""

    volume: str
    path: str
    is_read_only: bool


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of a pod.

    Attributes:
        name: In the pod.
        kind: `scratch` (emptyDir), `secret`, `claim`, or `own claim` (one for each replica).
        source: Name of the secret or claim; empty for the others.
    """

    name: str
    kind: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod.

    Attributes:
        name: In the pod.
        image: As written.
        command: Replaces the image's entry point; empty keeps it.
        args: Replaces the image's arguments; empty keeps them.
        env: Variables with a value.
        secrets: Variables whose value is a key of a secret: name to (secret, key).
        is_init: Whether it is among the init containers.
        is_sidecar: Whether it is an init container that goes on.
        probes: By `startup`, `readiness` and `liveness`.
        pause_s: The sleep of its preStop hook.
        mounts: In their order.
        user: Its user and group.
        is_root_read_only: Whether it writes to its volumes alone.
    """

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    is_init: bool = False
    is_sidecar: bool = False
    probes: Mapping[str, Probe] = field(default_factory=dict)
    pause_s: float = 0.0
    mounts: tuple[Mount, ...] = ()
    user: int = 0
    is_root_read_only: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of a workload.

    Attributes:
        name: Of the workload.
        containers: Init containers first, each in its order.
        grace_s: From its deletion to SIGKILL.
        volumes: By name.
    """

    name: str
    containers: tuple[Container, ...]
    grace_s: float = 30.0
    volumes: Mapping[str, Volume] = field(default_factory=dict)


def spec_of(manifest: Manifest) -> Manifest | None:
    """The pods' spec of a workload or an InferenceService; None of other kinds."""
    if manifest["kind"] in WORKLOADS:
        return dict(manifest["spec"]["template"]["spec"])
    if manifest["kind"] == "InferenceService":
        predictor = manifest["spec"]["predictor"]
        return {key: value for key, value in predictor.items() if key not in _KSERVES}
    return None


def pod_of(workload: Manifest) -> Pod:
    """The pod of a Deployment or StatefulSet.

    Raises:
        NotActed: It has something that is not acted out.
    """
    spec = workload["spec"]["template"]["spec"]
    of_pod = spec.get("securityContext", {})
    first = [_container(one, of_pod, is_init=True) for one in spec.get("initContainers", [])]
    rest = [_container(one, of_pod, is_init=False) for one in spec["containers"]]
    volumes = [_volume(one) for one in spec.get("volumes", [])]
    volumes += [
        Volume(one["metadata"]["name"], "own claim")
        for one in workload["spec"].get("volumeClaimTemplates", [])
    ]
    return Pod(
        name=workload["metadata"]["name"],
        containers=(*first, *rest),
        grace_s=float(spec.get("terminationGracePeriodSeconds", 30)),
        volumes={one.name: one for one in volumes},
    )


def _refuse(what: str, names: set[str]) -> None:
    if names:
        raise NotActed(f"{what}: {', '.join(sorted(names))} cannot be acted out")


def _container(given: Manifest, of_pod: Manifest, *, is_init: bool) -> Container:
    name = given["name"]
    _refuse(name, given.keys() - _CONTAINER)
    words = [*given.get("command", []), *given.get("args", [])]
    _refuse(name, {word for word in words if "$(" in word})
    hook = given.get("lifecycle", {})
    _refuse(f"{name}: lifecycle", hook.keys() - {"preStop"})
    _refuse(f"{name}: preStop", hook.get("preStop", {}).keys() - {"sleep"})
    ports = {one["name"]: one["containerPort"] for one in given.get("ports", []) if "name" in one}
    context = of_pod | given.get("securityContext", {})
    env, secrets = _env(name, given.get("env", []))
    return Container(
        name=name,
        image=given["image"],
        command=tuple(given.get("command", [])),
        args=tuple(given.get("args", [])),
        env=env,
        secrets=secrets,
        is_init=is_init,
        is_sidecar=is_init and given.get("restartPolicy") == "Always",
        probes={
            kind: _probe(f"{name}: {kind}Probe", given[f"{kind}Probe"], ports)
            for kind in _KINDS
            if f"{kind}Probe" in given
        },
        pause_s=float(hook.get("preStop", {}).get("sleep", {}).get("seconds", 0)),
        mounts=tuple(
            Mount(one["name"], one["mountPath"], bool(one.get("readOnly")))
            for one in given.get("volumeMounts", [])
        ),
        user=context.get("runAsUser", 0),
        is_root_read_only=context.get("readOnlyRootFilesystem", False),
    )


def _env(name: str, given: list[Manifest]) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    plain, secret = {}, {}
    for one in given:
        reference = one.get("valueFrom", {}).get("secretKeyRef")
        if reference is not None:
            secret[one["name"]] = (reference["name"], reference["key"])
        elif "valueFrom" in one or "$(" in one.get("value", ""):
            raise NotActed(f"{name}: the value of {one['name']} cannot be acted out")
        else:
            plain[one["name"]] = one.get("value", "")
    return plain, secret


def _probe(what: str, given: Manifest, ports: Mapping[str, int]) -> Probe:
    _refuse(what, given.keys() - _PROBE)
    way = given.get("grpc") or given["httpGet"]
    _refuse(what, way.keys() - {"path", "port"})
    port = way["port"]
    if isinstance(port, str):
        if port not in ports:
            raise NotActed(f"{what}: no port has the name {port}")
        port = ports[port]
    return Probe(
        way="grpc" if "grpc" in given else "http",
        port=port,
        path=way.get("path", ""),
        **{name: given[key] for key, name in _NUMBERS.items() if key in given},
    )


def _volume(given: Manifest) -> Volume:
    name = given["name"]
    if "emptyDir" in given:
        return Volume(name, "scratch")
    if "secret" in given:
        return Volume(name, "secret", given["secret"]["secretName"])
    if "persistentVolumeClaim" in given:
        return Volume(name, "claim", given["persistentVolumeClaim"]["claimName"])
    raise NotActed(f"the volume {name} cannot be acted out")
