"""The chart's objects on the API server: what it takes, what it makes of them, and what its controllers say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tools.kube.api import Api, Refused, has_condition
from tools.kube.node.pods import WORKLOADS, Manifest, spec_of
from tools.kube.surroundings import THEIRS

__all__ = ["Applied", "apply", "dry_run", "restricted"]


@dataclass(frozen=True, slots=True)
class Applied:
    """What a namespace holds once everything is ready.

    Attributes:
        pods: How many are Ready.
        claims: How many are bound.
        endpoints: How many addresses the Services have.
        guarded: How many pods the disruption budgets count.
        scaled: How many pods the autoscalers count.
    """

    pods: int
    claims: int
    endpoints: int
    guarded: int
    scaled: int


def _is_patch(manifest: Manifest) -> bool:
    """Whether it is a part of a Deployment, which the component adds to another one."""
    return manifest["kind"] == "Deployment" and "selector" not in manifest["spec"]


def dry_run(api: Api, namespace: str, manifests: list[Manifest]) -> list[str]:
    """What the API server refuses of objects, or warns of, without keeping any."""
    faults = []
    for one in manifests:
        what = f"{one['kind']} {one['metadata']['name']}"
        try:
            if _is_patch(one):
                api.apply(THEIRS, namespace)
                answer = api.merge(THEIRS, namespace, {"spec": one["spec"]}, is_dry=True)
            else:
                answer = api.apply(one, namespace, is_dry=True)
        except Refused as error:
            faults.append(f"{what}: {error}")
            continue
        # Those of the level "restricted" have a step of their own.
        faults += [f"{what}: {text}" for text in answer.warnings if "PodSecurity" not in text]
    return faults


def restricted(api: Api, namespace: str, manifests: list[Manifest]) -> list[str]:
    """What the level "restricted" refuses: the pod of each workload, made alone."""
    faults = []
    for one in manifests:
        spec = spec_of(one)
        if spec is None:
            continue
        if _is_patch(one):
            spec = THEIRS["spec"]["template"]["spec"] | spec
        own = one["spec"].get("volumeClaimTemplates", [])
        scratch = [{"name": claim["metadata"]["name"], "emptyDir": {}} for claim in own]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": one["metadata"]["name"]},
            "spec": spec | {"volumes": spec.get("volumes", []) + scratch},
        }
        try:
            answer = api.apply(pod, namespace, is_dry=True)
        except Refused as error:
            faults.append(f"{one['kind']} {one['metadata']['name']}: {error}")
        else:
            faults += [f"{one['metadata']['name']}: {text}" for text in answer.warnings]
    return faults


def apply(api: Api, namespace: str, manifests: list[Manifest]) -> Applied:
    """Applies objects and waits until all that follows from them is there.

    Raises:
        Refused: The API server refuses one.
        TimeoutError: Something does not become so; the message has what the controllers say.
    """
    live = []
    for one in manifests:
        if _is_patch(one):
            api.apply(THEIRS, namespace)
            api.merge(THEIRS, namespace, {"spec": one["spec"]})
            live.append(THEIRS)
        else:
            api.apply(one, namespace)
            live.append(one)

    def why() -> str:
        return "; ".join(dict.fromkeys(api.events(namespace)))

    def ready() -> bool:
        return sum(map(_is_ready, api.pods(namespace))) == wanted

    wanted = sum(_replicas(api, namespace, one) for one in live if one["kind"] in WORKLOADS)
    api.wait(f"{wanted} pods Ready", ready, why)
    counts = dict.fromkeys(_COUNTED, 0)
    for one in live:
        # Nobody here makes pods of an InferenceService.
        if one["kind"] in _COUNTED and wanted:
            count = partial(_COUNTED[one["kind"]], api, namespace, one)
            api.wait(f"{one['kind']} {one['metadata']['name']}", count, why)
            counts[one["kind"]] += count()
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    claims = [one["status"]["phase"] for one in api.call("GET", path).body["items"]]
    return Applied(
        pods=wanted,
        claims=claims.count("Bound"),
        endpoints=counts["Service"],
        guarded=counts["PodDisruptionBudget"],
        scaled=counts["HorizontalPodAutoscaler"],
    )


def _replicas(api: Api, namespace: str, workload: Manifest) -> int:
    """How many pods a workload has: what an autoscaler has asked for, once one does."""
    scalers = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
    for one in api.call("GET", scalers).body["items"]:
        target = one["spec"]["scaleTargetRef"]
        if (target["kind"], target["name"]) == (workload["kind"], workload["metadata"]["name"]):
            return int(one["spec"]["minReplicas"])
    return int(api.get(workload, namespace)["spec"]["replicas"])


def _is_ready(pod: Manifest) -> bool:
    return has_condition(pod, "Ready")


def _endpoints(api: Api, namespace: str, service: Manifest) -> int:
    """Ready addresses of a Service whose ports all have a number."""
    name = service["metadata"]["name"]
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    found = 0
    for one in api.call("GET", f"{path}?labelSelector=kubernetes.io/service-name%3D{name}").body[
        "items"
    ]:
        ports = [port["port"] for port in one["ports"] or []]
        if len(ports) == len(service["spec"]["ports"]) and all(ports):
            found += sum(end["conditions"]["ready"] for end in one["endpoints"] or [])
    return found


def _guarded(api: Api, namespace: str, budget: Manifest) -> int:
    status = api.get(budget, namespace).get("status", {})
    is_whole = status.get("currentHealthy") == status.get("expectedPods")
    return int(status.get("expectedPods", 0)) if is_whole else 0


def _scaled(api: Api, namespace: str, scaler: Manifest) -> int:
    """Pods of the workload that an autoscaler has found and brought to its least number.

    No metrics API says by what to scale further.
    """
    live = api.get(scaler, namespace)
    status, found = live.get("status", {}), has_condition(live, "AbleToScale")
    enough = status.get("currentReplicas", 0) >= scaler["spec"]["minReplicas"]
    return int(status["currentReplicas"]) if found and enough else 0


_COUNTED: dict[str, Callable[[Api, str, Manifest], int]] = {
    "Service": _endpoints,
    "PodDisruptionBudget": _guarded,
    "HorizontalPodAutoscaler": _scaled,
}
"""Kinds whose controllers are waited for: each counts what it found, and nothing is not enough."""
