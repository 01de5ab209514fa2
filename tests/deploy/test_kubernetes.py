"""The Kubernetes examples: valid by schema, restricted, and drained within their grace period."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from spectrie.cli.flags.options import add_options

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))
VERSIONS = ["1.30", "1.33", "1.36"]
Manifest = dict[str, Any]


def documents(path: Path) -> list[Manifest]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def pod_of(path: Path) -> Manifest:
    for document in documents(path):
        if document["kind"] == "Pod":
            return dict(document["spec"])
        if document["kind"] == "Deployment":
            return dict(document["spec"]["template"]["spec"])
    raise AssertionError(f"no pod in {path.name}")


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def ours(pod: Manifest) -> list[Manifest]:
    return [one for one in containers(pod) if one["image"].startswith("spectrie:")]


def seconds(arguments: list[str], flag: str) -> int:
    values = [one.split("=", 1)[1] for one in arguments if one.startswith(flag + "=")]
    return int(values[0].removesuffix("s"))


def test_both_examples_are_here() -> None:
    assert [path.name for path in FILES] == ["sidecars.yaml", "standalone.yaml"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example_matches_the_schema(path: Path, version: str) -> None:
    for document in documents(path):
        kubernetes_validate.validate(document, version, strict=True)


def test_schema_check_catches_a_misspelt_field() -> None:
    document = documents(FOLDER / "sidecars.yaml")[0]
    document["spec"]["initContainers"][0]["restartPolicyy"] = "Always"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, VERSIONS[0], strict=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_pod_meets_the_restricted_level(path: Path) -> None:
    pod = pod_of(path)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(pod):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False, container["name"]
        assert context["readOnlyRootFilesystem"] is True, container["name"]
        assert context["capabilities"] == {"drop": ["ALL"]}, container["name"]
        assert "memory" in container["resources"]["limits"], container["name"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_worker_is_a_sidecar_that_outlives_the_router(path: Path) -> None:
    pod = pod_of(path)
    order = [(one["args"][0], one.get("restartPolicy")) for one in ours(pod)]
    assert order[0] == ("worker", "Always")
    assert order[1][0] == "router"
    assert pod["initContainers"][0]["startupProbe"]["grpc"]["port"] == 50052


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_grace_period_covers_the_sleep_and_the_drain(path: Path) -> None:
    pod = pod_of(path)
    for container in ours(pod):
        hook = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {})
        drain_s = seconds(container["args"], "--drain-timeout")
        assert pod["terminationGracePeriodSeconds"] > drain_s + hook.get("seconds", 0)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_router_and_worker_share_one_socket(path: Path) -> None:
    worker, router = (one["args"] for one in ours(pod_of(path)))
    socket = [one.split("=", 1)[1] for one in worker if one.startswith("--router=")]
    assert socket == [one.split("=", 1)[1] for one in router if one.startswith("--worker-listen=")]
    assert socket[0].startswith("unix:/run/spectrie/")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_option_is_one_the_command_knows(path: Path) -> None:
    for container in ours(pod_of(path)):
        command, *rest = container["args"]
        parser = argparse.ArgumentParser(exit_on_error=False)
        if command == "worker":
            parser.add_argument("model")
        add_options(parser, command)
        _, unknown = parser.parse_known_args(rest)
        assert unknown == []
