"""What is read of manifests, those of the chart among them, and what is refused because it is not acted out."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.deploy.manifests import FOLDER, documents
from tools.kube.node.images import ROOT, image_of
from tools.kube.node.pods import Manifest, Mount, NotActed, Probe, Volume, pod_of


def workload(name: str) -> Manifest:
    """The workload of a render."""
    kinds = ("Deployment", "StatefulSet")
    (found,) = (one for one in documents(FOLDER / name) if one["kind"] in kinds)
    return copy.deepcopy(found)


def test_order_probes_hooks_and_volumes_of_router_beside_worker_are_read() -> None:
    pod = pod_of(workload("standalone.yaml"))
    worker, router = pod.containers
    assert [one.name for one in pod.containers] == ["worker", "router"]
    assert worker.is_sidecar and not router.is_init
    assert pod.grace_s == 90 and router.pause_s == 10
    assert worker.probes["startup"] == Probe("grpc", 50052, period_s=10, failures=60)
    # The manifest gives this port by its name.
    assert router.probes["readiness"] == Probe("http", 9090, "/readyz", period_s=5, failures=2)
    assert router.user == 65532 and router.is_root_read_only
    assert Mount("models", "/models", True) in worker.mounts
    assert pod.volumes["models"] == Volume("models", "claim", "spectrie-models")
    assert pod.volumes["keys"] == Volume("keys", "secret", "spectrie-keys")
    assert pod.volumes["state"].kind == "own claim"


def test_sidecars_beside_an_app_are_read_with_its_variables() -> None:
    pod = pod_of(workload("sidecars.yaml"))
    *sidecars, app = pod.containers
    assert [one.is_sidecar for one in sidecars] == [True, True]
    assert app.command[-1] == "/opt/app/app.py" and not app.args
    assert app.env["SPECTRIE_TARGET"] == "127.0.0.1:50051"


def test_a_variable_from_a_secret_is_named_by_its_key() -> None:
    one = workload("standalone.yaml")
    env = one["spec"]["template"]["spec"]["containers"][0]["env"]
    reference = {"secretKeyRef": {"name": "redis", "key": "url"}}
    env.append({"name": "SPECTRIE_REDIS", "valueFrom": reference})
    router = pod_of(one).containers[1]
    assert router.secrets == {"SPECTRIE_REDIS": ("redis", "url")}
    assert "SPECTRIE_REDIS" not in router.env


def hook_with_a_command(container: Any, spec: Any) -> None:
    container["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", "1"]}}}


def hook_after_the_start(container: Any, spec: Any) -> None:
    container["lifecycle"]["postStart"] = {"sleep": {"seconds": 1}}


def probe_with_a_command(container: Any, spec: Any) -> None:
    container["livenessProbe"] = {"exec": {"command": ["true"]}}


def probe_of_another_host(container: Any, spec: Any) -> None:
    container["livenessProbe"]["httpGet"]["host"] = "127.0.0.1"


def probe_of_an_unknown_port(container: Any, spec: Any) -> None:
    container["livenessProbe"]["httpGet"]["port"] = "metric"


def variable_of_the_pod(container: Any, spec: Any) -> None:
    field = {"fieldRef": {"fieldPath": "status.podIP"}}
    container["env"].append({"name": "POD_IP", "valueFrom": field})


def argument_with_a_variable(container: Any, spec: Any) -> None:
    container["args"].append("--grpc=$(POD_IP):1")


def folder_of_the_host(container: Any, spec: Any) -> None:
    spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}})


def working_folder(container: Any, spec: Any) -> None:
    container["workingDir"] = "/tmp"


@pytest.mark.parametrize(
    "spoil",
    [
        hook_with_a_command,
        hook_after_the_start,
        probe_with_a_command,
        probe_of_another_host,
        probe_of_an_unknown_port,
        variable_of_the_pod,
        argument_with_a_variable,
        folder_of_the_host,
        working_folder,
    ],
)
def test_what_is_not_acted_out_is_refused(spoil: Any) -> None:
    one = workload("standalone.yaml")
    spec = one["spec"]["template"]["spec"]
    spoil(spec["containers"][0], spec)
    with pytest.raises(NotActed):
        pod_of(one)


@pytest.mark.parametrize("name", ["standalone.yaml", "sidecars.yaml"])
def test_images_of_acted_pods_have_entry_points_whose_files_are_here(name: str) -> None:
    for container in pod_of(workload(name)).containers:
        image = image_of(container.image)
        program, script, *_ = container.command or image.command
        at = {to: path for to, path in image.files.items() if script.startswith(to)}
        assert program.startswith("/opt/spectrie/") and "/opt/spectrie" in image.files
        (to,) = at
        here = at[to] / script.removeprefix(f"{to}/") if at[to].is_dir() else at[to]
        assert here.is_file() and here.is_relative_to(ROOT)


def test_an_image_of_others_is_unknown() -> None:
    with pytest.raises(KeyError, match="nginx"):
        image_of("nginx:1")
