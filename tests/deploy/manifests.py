"""Reads manifests: pods of any kind, their containers, and where our processes listen."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spectrie.cli.flags.options import add_options, options_of
from spectrie.cli.flags.settings import Settings, resolve

__all__ = ["FOLDER", "Container", "Manifest", "Pod", "documents", "pods", "with_app"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
Manifest = dict[str, Any]
_KINDS = ("Deployment", "StatefulSet")
_LISTENERS = ("http", "grpc", "worker_listen", "metrics_listen", "health")


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod.

    Attributes:
        spec: As written.
        is_init: Whether it is among the init containers.
    """

    spec: Manifest
    is_init: bool

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return str(self.spec["name"])

    @property
    def command(self) -> str | None:
        """The command of `spectrie` that it runs; None where the image is not ours."""
        return self.spec["args"][0] if self.spec["image"].startswith("spectrie:") else None

    @property
    def is_sidecar(self) -> bool:
        """Whether it goes on beside the containers after it."""
        return self.is_init and self.spec.get("restartPolicy") == "Always"

    @property
    def env(self) -> dict[str, str]:
        """Its environment variables with a value."""
        return {one["name"]: one["value"] for one in self.spec.get("env", []) if "value" in one}

    @property
    def settings(self) -> Settings:
        """Its options, read as the command line reads them; raises as it does."""
        command, *rest = self.spec["args"]
        parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
        if command == "worker":
            parser.add_argument("model")
        add_options(parser, command)
        args, unknown = parser.parse_known_args(rest)
        if unknown:
            raise ValueError(f"{self.name}: unknown options {unknown}")
        return resolve(command, args, self.env)

    @property
    def listens(self) -> dict[int, tuple[str, str]]:
        """The TCP ports of our process: option and host of each."""
        if self.command not in ("router", "worker"):
            return {}
        settings, known = self.settings, {one.key for one in options_of(self.command)}
        found = {}
        for key in _LISTENERS:
            address = settings[key] if key in known else None
            if address and address != "off" and not address.startswith("unix:"):
                host, _, port = address.rpartition(":")
                found[int(port)] = (key, host)
        return found

    @property
    def ports(self) -> dict[str, int]:
        """Its declared ports by name."""
        return {one["name"]: one["containerPort"] for one in self.spec.get("ports", [])}


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of a workload.

    Attributes:
        name: Of the workload.
        labels: Of the pod.
        spec: Of the pod.
        claims: Names of the claims that each replica has of its own.
    """

    name: str
    labels: dict[str, str]
    spec: Manifest
    claims: tuple[str, ...]

    @property
    def containers(self) -> list[Container]:
        """Init containers first, each in its order."""
        first = [Container(one, True) for one in self.spec.get("initContainers", [])]
        return first + [Container(one, False) for one in self.spec.get("containers", [])]

    @property
    def ours(self) -> list[Container]:
        """The containers that run a worker or a router."""
        return [one for one in self.containers if one.command in ("worker", "router")]

    def is_selected(self, labels: dict[str, str]) -> bool:
        """Whether a selector of these labels finds it."""
        return labels.items() <= self.labels.items()


def documents(path: Path) -> list[Manifest]:
    """The manifests of a file."""
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


def pods(manifests: list[Manifest]) -> list[Pod]:
    """The pods of all workloads, and of what KServe makes one of."""
    found = []
    for one in manifests:
        if one["kind"] in _KINDS:
            template = one["spec"]["template"]
            claims = one["spec"].get("volumeClaimTemplates", [])
            found.append(
                Pod(
                    one["metadata"]["name"],
                    template.get("metadata", {}).get("labels", {}),
                    template["spec"],
                    tuple(claim["metadata"]["name"] for claim in claims),
                )
            )
        elif one["kind"] == "InferenceService":
            predictor = one["spec"]["predictor"]
            found.append(Pod(one["metadata"]["name"], predictor["labels"], predictor, ()))
    return found


def with_app(patch: Manifest) -> Manifest:
    """A Deployment of somebody else with a strategic merge patch applied, as Kustomize does."""
    labels = {"app": "theirs"}
    added = patch["spec"]["template"]["spec"]
    app = {
        "name": "app",
        "image": "registry.example/theirs:1",
        "resources": {"limits": {"memory": "64Mi"}},
        "securityContext": added["initContainers"][0]["securityContext"],
    }
    spec = added | {"containers": [app], "automountServiceAccountToken": False}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "theirs"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
