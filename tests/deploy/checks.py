"""What must hold in every manifest; each check returns the faults that it found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from spectrie.cli.flags.options import TABLE
from spectrie.errors import ConfigError
from tests.deploy.exported import documented
from tests.deploy.manifests import Container, Manifest, Pod, pods

__all__ = ["CHECKS", "faults"]

_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_LOCAL = re.compile(r"127\.0\.0\.1:(\d+)")
_VARIABLES = {one.variable for one in TABLE} | {"SPECTRIE_CACHE", "SPECTRIE_OPEN"}
_SPARE_S = 5
"""The least time beyond hooks and drains: for snapshots, and for the kubelet itself."""


def ports(manifests: list[Manifest]) -> Iterator[str]:
    """Whatever names a port reaches a process that listens there, on an address that it can reach."""
    for pod in pods(manifests):
        for one in pod.ours:
            open_ports = {port for port, (_, host) in one.listens.items() if host == "0.0.0.0"}
            for name, port in one.ports.items():
                if port not in open_ports:
                    yield f"{one.name}: nothing listens on port {name} ({port})"
            for probe in _PROBES:
                yield from _probe(one, probe, one.spec[probe])
        local = {port for one in pod.ours for port in one.listens}
        for one in pod.containers:
            for port in _LOCAL.findall(" ".join(one.env.values())):
                if int(port) not in local:
                    yield f"{one.name}: nothing listens on 127.0.0.1:{port}"
    yield from _services(manifests)


def _probe(one: Container, probe: str, given: Manifest) -> Iterator[str]:
    way = given.get("grpc") or given["httpGet"]
    port = one.ports.get(way["port"], way["port"])
    option, host = one.listens.get(port, ("nothing", ""))
    wanted = ("health",) if "grpc" in given else ("metrics_listen",)
    if option not in wanted or host != "0.0.0.0":
        yield f"{one.name}: {probe} asks port {way['port']}, where {option} listens"
    if "httpGet" in given and way["path"] not in ("/healthz", "/readyz"):
        yield f"{one.name}: {probe} asks for {way['path']}"


def _services(manifests: list[Manifest]) -> Iterator[str]:
    services = {one["metadata"]["name"]: one for one in manifests if one["kind"] == "Service"}
    all_pods = pods(manifests)
    for name, service in services.items():
        chosen = [pod for pod in all_pods if pod.is_selected(service["spec"]["selector"])]
        for port in service["spec"]["ports"]:
            if not chosen or any(port["targetPort"] not in _names(pod) for pod in chosen):
                yield f"service {name}: no pod has the port {port['targetPort']}"
    for one in (one for pod in all_pods for one in pod.ours if one.command == "worker"):
        target = one.settings["router"]
        if not target.startswith("unix:"):
            yield from _dialled(one, target, services)
    for manifest in manifests:
        if manifest["kind"] == "NetworkPolicy":
            yield from _policy(manifest, all_pods)
        if manifest["kind"] == "InferencePool":
            yield from _pool(manifest, all_pods)


def _dialled(one: Container, target: str, services: dict[str, Manifest]) -> Iterator[str]:
    host, _, port = target.rpartition(":")
    service = services.get(host, {"spec": {"ports": []}})
    if int(port) not in [given["port"] for given in service["spec"]["ports"]]:
        yield f"{one.name}: no service has the address {target}"
    elif not service["spec"].get("publishNotReadyAddresses"):
        yield f"{one.name}: {target} appears when the router is ready: it waits for workers"


def _policy(policy: Manifest, all_pods: list[Pod]) -> Iterator[str]:
    name, spec = policy["metadata"]["name"], policy["spec"]
    chosen = [pod for pod in all_pods if pod.is_selected(spec["podSelector"]["matchLabels"])]
    if not chosen:
        yield f"network policy {name}: it selects no pod"
    for rule in spec["ingress"]:
        for port in rule["ports"]:
            if any(port["port"] not in _names(pod) for pod in chosen):
                yield f"network policy {name}: no pod has the port {port['port']}"


def _pool(pool: Manifest, all_pods: list[Pod]) -> Iterator[str]:
    name, spec = pool["metadata"]["name"], pool["spec"]
    chosen = [pod for pod in all_pods if pod.is_selected(spec["selector"]["matchLabels"])]
    if not chosen:
        yield f"pool {name}: it selects no pod"
    for port in (one["number"] for one in spec["targetPorts"]):
        for pod in chosen:
            options = [
                key for one in pod.ours for at, (key, _) in one.listens.items() if at == port
            ]
            if options != ["http"]:
                yield f"pool {name}: HTTP does not listen on port {port}"


def _names(pod: Pod) -> set[str]:
    return {name for one in pod.containers for name in one.ports}


def volumes(manifests: list[Manifest]) -> Iterator[str]:
    """Each path that a process is given is on a volume, writable where it writes; no state is shared."""
    for pod in pods(manifests):
        given = {one["name"]: one for one in pod.spec.get("volumes", [])}
        mounted = set()
        for one in pod.containers:
            mounts = {mount["mountPath"]: mount for mount in one.spec.get("volumeMounts", [])}
            mounted |= {mount["name"] for mount in mounts.values()}
            for path, mount in mounts.items():
                if mount["name"] not in given and mount["name"] not in pod.claims:
                    yield f"{one.name}: no volume {mount['name']}"
                if "subPath" in mount:
                    yield f"{one.name}: {path} is a subPath, which is never read again"
            for path, is_written in _paths(one):
                at = [
                    mount for parent, mount in mounts.items() if f"{path}/".startswith(f"{parent}/")
                ]
                if not at or (is_written and at[0].get("readOnly")):
                    yield f"{one.name}: {path} is on no {'writable ' if is_written else ''}volume"
            state = mounts.get("/var/lib/spectrie", {}).get("name")
            if "persistentVolumeClaim" in given.get(state or "", {}):
                yield f"{one.name}: replicas share the claim of their state"
        for name in given.keys() - mounted:
            yield f"{pod.name}: the volume {name} is mounted nowhere"


def _paths(one: Container) -> Iterator[tuple[str, bool]]:
    """The paths of our containers, and whether they are written to."""
    if one.command is None:
        return
    yield "/tmp", True
    for key in ("SPECTRIE_CACHE", "TRITON_CACHE_DIR"):
        if key in one.env:
            yield one.env[key], True
    if one.command not in ("router", "worker"):
        return
    if one.command == "worker" and one.spec["args"][1].startswith("/"):
        yield one.spec["args"][1], False
    for key, value in one.settings.items():
        if key == "state_dir" and value:
            yield value, True
        elif isinstance(value, str) and value.startswith("unix:"):
            yield value.removeprefix("unix:").rpartition("/")[0], True
        elif isinstance(value, str) and value.startswith("/"):
            yield value, False


def security(manifests: list[Manifest]) -> Iterator[str]:
    """Pods meet the level "restricted", with a read-only root and no token of the API server."""
    for pod in pods(manifests):
        if pod.spec.get("automountServiceAccountToken") is not False:
            yield f"{pod.name}: it mounts a service account's token"
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.spec.get(key):
                yield f"{pod.name}: {key}"
        if any("hostPath" in volume for volume in pod.spec.get("volumes", [])):
            yield f"{pod.name}: a path of the host"
        for one in pod.containers:
            yield from _container_security(one, pod.spec.get("securityContext", {}))


def _container_security(one: Container, of_pod: Manifest) -> Iterator[str]:
    context: dict[str, Any] = of_pod | one.spec.get("securityContext", {})
    for key, wanted in {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }.items():
        if context.get(key) != wanted:
            yield f"{one.name}: {key} is {context.get(key)}"
    if context.get("privileged"):
        yield f"{one.name}: privileged"
    if "memory" not in one.spec.get("resources", {}).get("limits", {}):
        yield f"{one.name}: no limit of memory"


def order(manifests: list[Manifest]) -> Iterator[str]:
    """In one pod the worker starts before the router and stops after it; both do so around an app."""
    for pod in pods(manifests):
        ours = pod.ours
        commands = [one.command for one in ours]
        if len(commands) == 1:
            continue
        if commands != ["worker", "router"]:
            yield f"{pod.name}: the order is {', '.join(str(one) for one in commands)}"
            continue
        if not ours[0].is_sidecar:
            yield f"{pod.name}: the worker is no sidecar: it stops before the router has drained"
        others = [one for one in pod.containers if one.command is None and not one.is_init]
        if others and not ours[1].is_sidecar:
            yield f"{pod.name}: the router is no sidecar: it stops together with the app"
        if not others and ours[1].is_sidecar:
            yield f"{pod.name}: nothing but sidecars"
        before = pod.containers[: [one.name for one in pod.containers].index(ours[0].name)]
        if any(one.is_sidecar for one in before if one.command == "models"):
            yield f"{pod.name}: the model must be there before the worker starts"


def grace(manifests: list[Manifest]) -> Iterator[str]:
    """The grace period is longer than the hooks and the drain of what stops first."""
    for pod in pods(manifests):
        given = pod.spec.get("terminationGracePeriodSeconds", 30)
        for one in pod.ours:
            hook = one.spec.get("lifecycle", {}).get("preStop", {}).get("sleep", {})
            needed = one.settings["drain_timeout"] + hook.get("seconds", 0) + _SPARE_S
            if given < needed:
                yield f"{pod.name}: the grace of {given} s ends before {one.name} has {needed:g} s"
            is_called = one.command == "router" and not one.is_sidecar
            if is_called and not hook.get("seconds"):
                yield f"{one.name}: it stops accepting while the Service still sends"


def options(manifests: list[Manifest]) -> Iterator[str]:
    """Each option, value and variable is one that the command knows; each router asks for keys."""
    for pod in pods(manifests):
        for one in pod.containers:
            if one.command is None:
                continue
            for name in (given["name"] for given in one.spec.get("env", [])):
                if name.startswith("SPECTRIE_") and name not in _VARIABLES:
                    yield f"{one.name}: unknown variable {name}"
            if one.command == "models":
                if one.spec["args"][1] not in ("fetch", "bigrams") or len(one.spec["args"]) != 3:
                    yield f"{one.name}: unknown command {one.spec['args']}"
                continue
            try:
                settings = one.settings
            except (ConfigError, ValueError) as error:
                yield f"{one.name}: {error}"
                continue
            is_open = any(host == "0.0.0.0" for key, host in one.listens.values() if key == "http")
            if is_open and not settings["api_keys"] and one.env.get("SPECTRIE_OPEN") != "1":
                yield f"{one.name}: everyone may call, which nothing says"


def link(manifests: list[Manifest]) -> Iterator[str]:
    """A worker dials where its router listens, with the secret that this one asks for."""
    routers = [one for pod in pods(manifests) for one in pod.ours if one.command == "router"]
    workers = [one for pod in pods(manifests) for one in pod.ours if one.command == "worker"]
    for worker in workers:
        for router in routers:
            asked, sent = router.settings["worker_listen"], worker.settings["router"]
            if asked.startswith("unix:") and asked != sent:
                yield f"{worker.name}: it dials {sent}, the router listens at {asked}"
            if asked.rpartition(":")[2] != sent.rpartition(":")[2]:
                yield f"{worker.name}: it dials {sent}, the router listens at {asked}"
            for key, other in (("worker_token_file", "worker_token_file"), ("tls_cert", "tls_ca")):
                is_tcp = not asked.startswith("unix:")
                if is_tcp and bool(router.settings[key]) != bool(worker.settings[other]):
                    yield f"{worker.name}: the router has {key}, the worker not {other}"


def metrics(manifests: list[Manifest]) -> Iterator[str]:
    """What scaling goes by is a metric of the router, and scales what is there."""
    names = {(one["kind"], one["metadata"]["name"]) for one in manifests}
    for one in manifests:
        if one["kind"] == "HorizontalPodAutoscaler":
            target = one["spec"]["scaleTargetRef"]
            if (target["kind"], target["name"]) not in names:
                yield f"autoscaler: no {target['kind']} {target['name']}"
            for source in one["spec"]["metrics"]:
                metric = source[source["type"].lower()]["metric"]["name"]
                if metric not in documented():
                    yield f"autoscaler: no metric {metric}"
        if one["kind"] == "InferencePool":
            yield from _picked(one, manifests)
        if one["kind"] == "PodMonitor":
            chosen = [
                pod
                for pod in pods(manifests)
                if pod.is_selected(one["spec"]["selector"]["matchLabels"])
            ]
            for endpoint in one["spec"]["podMetricsEndpoints"]:
                if not any(endpoint["port"] in _names(pod) for pod in chosen):
                    yield f"pod monitor: no pod has the port {endpoint['port']}"


def _picked(pool: Manifest, manifests: list[Manifest]) -> Iterator[str]:
    labels = pool["spec"]["selector"]["matchLabels"]
    chosen = [one for pod in pods(manifests) if pod.is_selected(labels) for one in pod.ours]
    for router in (one for one in chosen if one.command == "router"):
        if router.settings["metrics_compat"] != "vllm":
            yield f"pool: {router.name} has no metrics that a picker asks for"


CHECKS: dict[str, Callable[[list[Manifest]], Iterator[str]]] = {
    "ports": ports,
    "volumes": volumes,
    "security": security,
    "order": order,
    "grace": grace,
    "options": options,
    "link": link,
    "metrics": metrics,
}


def faults(manifests: list[Manifest]) -> dict[str, list[str]]:
    """The faults that each check found, of those that found some."""
    found = {name: list(check(manifests)) for name, check in CHECKS.items()}
    return {name: lines for name, lines in found.items() if lines}
