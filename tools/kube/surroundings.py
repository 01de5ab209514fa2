"""What a cluster has around the chart: nodes, storage, a namespace at the level "restricted", secrets, claims."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from tools.kube.api import Api
from tools.kube.node.pods import Manifest, spec_of

__all__ = ["THEIRS", "claims_of", "prepare_cluster", "prepare_namespace", "secrets_of"]

_CLASS = "static"
_NODES = 3
_GPUS = "nvidia.com/gpu"
THEIRS: Manifest = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "theirs"},
    "spec": {
        "selector": {"matchLabels": {"app": "theirs"}},
        "template": {
            "metadata": {"labels": {"app": "theirs"}},
            "spec": {
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 1000,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "app",
                        "image": "registry.example/theirs:1",
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }
                ],
            },
        },
    },
}
"""A Deployment of somebody else, which the component patches."""


def prepare_cluster(api: Api) -> None:
    """Nodes with GPUs, a storage class, and the runtime class of GPUs."""
    size = {"cpu": "32", "memory": "256Gi", "pods": "110", _GPUS: "8"}
    for number in range(_NODES):
        node: Manifest = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node-{number}",
                "labels": {"kubernetes.io/hostname": f"node-{number}"},
            },
        }
        api.apply(node, "")
        api.status(node, "", {"capacity": size, "allocatable": size})
    api.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": _CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "kubernetes.io/no-provisioner",
        },
        "",
    )
    api.apply(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        },
        "",
    )


def secrets_of(manifests: list[Manifest]) -> set[str]:
    """The secrets that pods read."""
    found = set()
    for spec in filter(None, map(spec_of, manifests)):
        found |= {one["secret"]["secretName"] for one in spec.get("volumes", []) if "secret" in one}
        for container in [*spec.get("initContainers", []), *spec.get("containers", [])]:
            for one in container.get("env", []):
                if "secretKeyRef" in one.get("valueFrom", {}):
                    found.add(one["valueFrom"]["secretKeyRef"]["name"])
    return found


def claims_of(manifests: list[Manifest]) -> set[str]:
    """The claims that pods name."""
    return {
        one["persistentVolumeClaim"]["claimName"]
        for spec in filter(None, map(spec_of, manifests))
        for one in spec.get("volumes", [])
        if "persistentVolumeClaim" in one
    }


def prepare_namespace(
    api: Api, name: str, manifests: list[Manifest], secrets: Mapping[str, Mapping[str, bytes]]
) -> None:
    """A namespace that admits nothing above "restricted", with what the page tells users to make.

    Args:
        api: The API server.
        name: Of the namespace.
        manifests: What will be applied there.
        secrets: Files of each secret, by key.
    """
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    api.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": levels}}, ""
    )
    for secret in sorted(secrets_of(manifests)):
        files = secrets[secret]
        data = {key: base64.b64encode(content).decode() for key, content in files.items()}
        metadata = {"name": secret}
        api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}, name)
    for claim in sorted(claims_of(manifests)):
        spec = {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "4Gi"}},
        }
        metadata = {"name": claim}
        api.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": spec,
            },
            name,
        )
        _volume(api, f"{name}-{claim}", "ReadWriteMany")
    for one in manifests:
        for template in one.get("spec", {}).get("volumeClaimTemplates", []):
            (mode,) = template["spec"]["accessModes"]
            for number in range(one["spec"].get("replicas", _NODES)):
                _volume(api, f"{name}-{one['metadata']['name']}-{number}", mode)


def _volume(api: Api, name: str, mode: str) -> None:
    """A volume of 8 GiB that waits for a claim."""
    api.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "8Gi"},
                "accessModes": [mode],
                "storageClassName": _CLASS,
                "hostPath": {"path": f"/volumes/{name}"},
            },
        },
        "",
    )
