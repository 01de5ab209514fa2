"""Schemas in the form that kubeconform reads: of Kubernetes from `kubernetes_validate`, of custom resources from
their definitions."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from tools.kube.cluster import folder_of_programs, program

__all__ = ["VERSIONS", "closed", "conform", "definitions", "write_schemas"]

VERSIONS = ("1.30.0", "1.37.0")
"""The oldest version that the chart supports, and the newest with a schema."""


@functools.cache
def definitions() -> list[dict[str, Any]]:
    """The custom resources that the charts' objects are of."""
    found = []
    for path in sorted((folder_of_programs() / "crds").glob("*.yaml")):
        found += [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]
    return found


def write_schemas(folder: Path) -> None:
    """Writes the schemas into a folder."""
    source = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    custom = _custom()
    for version in VERSIONS:
        to = folder / f"v{version}"
        to.mkdir(parents=True)
        for path in (source / f"v{version}-local-strict").glob("*.json"):
            # References are to the folder's own file; an `$id` would make them relative to another place.
            text = path.read_text(encoding="utf-8")
            schema = json.loads(text.replace("/api/_definitions.json#", "_definitions.json#"))
            schema.pop("$id", None)
            (to / path.name).write_text(json.dumps(schema), encoding="utf-8")
        for name, schema in custom.items():
            (to / name).write_text(json.dumps(schema), encoding="utf-8")


def _custom() -> dict[str, Any]:
    """The schema of each version of each custom resource, by the name that kubeconform looks for."""
    found = {}
    for one in definitions():
        kind, group = one["spec"]["names"]["kind"].lower(), one["spec"]["group"].partition(".")[0]
        for version in one["spec"]["versions"]:
            name = f"{kind}-{group}-{version['name']}.json"
            found[name] = closed(version["schema"]["openAPIV3Schema"])
    return found


def closed(schema: Any) -> Any:
    """A schema in which an object has no fields but those that are named, as the API server has it."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    is_open = "additionalProperties" in result or schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(schema.get("properties"), dict) and not is_open:
        result["additionalProperties"] = False
    return result


def conform(schemas: Path, manifests: Path) -> list[str]:
    """Lets kubeconform check a file against each version.

    Args:
        schemas: What `write_schemas` wrote.
        manifests: The file.

    Returns:
        What it refuses.
    """
    form = "{{ .NormalizedKubernetesVersion }}/{{ .ResourceKind }}{{ .KindSuffix }}.json"
    command = [str(program("kubeconform")), "-strict", "-output", "json"]
    command += ["-schema-location", f"{schemas}/{form}"]
    faults = []
    for version in VERSIONS:
        done = subprocess.run(
            [*command, "-kubernetes-version", version, str(manifests)],
            capture_output=True,
            text=True,
        )
        for one in json.loads(done.stdout)["resources"]:
            faults.append(f"{version}: {one['kind']} {one['name']}: {one['msg']}")
    return faults
