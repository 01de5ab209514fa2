"""The manifests of deploy/kubernetes: valid, restricted, in the right order, drained in time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.deploy.checks import CHECKS, faults
from tests.deploy.manifests import FOLDER, Manifest, documents, pods, with_app
from tools.kube.node.pods import spec_of
from tools.render_chart import RENDERS, digest, is_current

VERSIONS = ["1.30", "1.33", "1.36"]
CUSTOM = {"PodMonitor", "PrometheusRule", "InferencePool", "InferenceService"}
"""Kinds for which Kubernetes has no schema; `make kube-e2e` has."""

EACH_RENDER = pytest.mark.parametrize("path", RENDERS.values(), ids=lambda path: path.stem)


def manifests_of(path: Path) -> list[Manifest]:
    """The manifests of a render; a patch is applied to a Deployment of somebody else."""
    found = documents(path)
    return [with_app(one) for one in found] if path.parent.name == "component" else found


def predicting(service: Manifest) -> Manifest:
    """The pod that KServe makes, of what it has besides fields of KServe's own."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "predictor"}}
    return pod | {"spec": spec_of(service)}


def split() -> list[Manifest]:
    return documents(FOLDER / "split.yaml")


def beside() -> list[Manifest]:
    return documents(FOLDER / "sidecars.yaml")


@pytest.mark.parametrize("values", RENDERS, ids=lambda path: path.stem)
def test_render_is_of_the_chart_and_values_as_they_are(values: Path) -> None:
    message = "run tools/render_chart.py"
    assert is_current(values, RENDERS[values]), message


def test_a_changed_value_makes_a_render_stale(tmp_path: Path) -> None:
    values, rendered = next(iter(RENDERS.items()))
    assert digest(values) in rendered.read_text(encoding="utf-8").partition("\n")[0]
    stale = tmp_path / "render.yaml"
    stale.write_text(rendered.read_text(encoding="utf-8").replace(digest(values), "0" * 64))
    assert not is_current(values, stale)
    assert not is_current(values, tmp_path / "missing.yaml")


@pytest.mark.parametrize("version", VERSIONS)
@EACH_RENDER
def test_render_matches_the_schema(path: Path, version: str) -> None:
    manifests = manifests_of(path)
    ordinary = [one for one in manifests if one["kind"] not in CUSTOM]
    predictors = [one for one in manifests if one["kind"] == "InferenceService"]
    assert ordinary
    for document in ordinary + [predicting(one) for one in predictors]:
        kubernetes_validate.validate(document, version, strict=True)


def test_schema_check_catches_a_misspelt_field() -> None:
    document = beside()[0]
    document["spec"]["template"]["spec"]["initContainers"][0]["restartPolicyy"] = "Always"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, VERSIONS[0], strict=True)


@EACH_RENDER
def test_render_has_no_fault(path: Path) -> None:
    assert faults(manifests_of(path)) == {}


def test_every_layout_is_rendered() -> None:
    layouts = {yaml.safe_load(values.read_text(encoding="utf-8"))["layout"] for values in RENDERS}
    schema = yaml.safe_load((FOLDER.parent / "helm/spectrie/values.schema.json").read_text())
    assert layouts == set(schema["properties"]["layout"]["enum"])


def first(manifests: list[Manifest], command: str) -> Any:
    """The first container of a command, to change it."""
    return next(one.spec for pod in pods(manifests) for one in pod.ours if one.command == command)


def wrong_port(manifests: list[Manifest]) -> None:
    first(manifests, "worker")["startupProbe"]["grpc"]["port"] = 50051


def wrong_target_port(manifests: list[Manifest]) -> None:
    service = next(one for one in manifests if one["kind"] == "Service")
    service["spec"]["ports"][0]["targetPort"] = "htpp"


def hidden_router(manifests: list[Manifest]) -> None:
    for one in manifests:
        one["spec"].pop("publishNotReadyAddresses", None)


def missing_volume(manifests: list[Manifest]) -> None:
    spec = pods(manifests)[0].spec
    spec["volumes"] = [one for one in spec["volumes"] if not one["name"].endswith("run")]


def unmounted_keys(manifests: list[Manifest]) -> None:
    router = first(manifests, "router")
    router["volumeMounts"] = [one for one in router["volumeMounts"] if one["name"] != "keys"]


def read_only_cache(manifests: list[Manifest]) -> None:
    for mount in first(manifests, "worker")["volumeMounts"]:
        mount["readOnly"] = True


def shared_state(manifests: list[Manifest]) -> None:
    for one in manifests:
        if one["kind"] == "StatefulSet":
            del one["spec"]["volumeClaimTemplates"]
            claim = {"name": "state", "persistentVolumeClaim": {"claimName": "one"}}
            one["spec"]["template"]["spec"]["volumes"].append(claim)


def privileged(manifests: list[Manifest]) -> None:
    first(manifests, "worker")["securityContext"]["privileged"] = True


def root(manifests: list[Manifest]) -> None:
    first(manifests, "router")["securityContext"] |= {"runAsUser": 0, "runAsNonRoot": False}


def reversed_sidecars(manifests: list[Manifest]) -> None:
    pods(manifests)[0].spec["initContainers"].reverse()


def worker_as_app(manifests: list[Manifest]) -> None:
    spec = pods(manifests)[0].spec
    spec["initContainers"], spec["containers"] = [], spec["initContainers"] + spec["containers"]


def grace_below_drain(manifests: list[Manifest]) -> None:
    pods(manifests)[0].spec["terminationGracePeriodSeconds"] = 60


def no_pause(manifests: list[Manifest]) -> None:
    del first(manifests, "router")["lifecycle"]


def misspelt_option(manifests: list[Manifest]) -> None:
    first(manifests, "router")["args"].append("--drain-timeoutt=60s")


def misspelt_variable(manifests: list[Manifest]) -> None:
    first(manifests, "worker")["env"][0]["name"] = "SPECTRIE_CASH"


def open_by_accident(manifests: list[Manifest]) -> None:
    router = first(manifests, "router")
    router["args"] = [one for one in router["args"] if not one.startswith("--api-keys")]
    router["volumeMounts"] = [one for one in router["volumeMounts"] if one["name"] != "keys"]
    spec = pods(manifests)[0].spec
    spec["volumes"] = [one for one in spec["volumes"] if one["name"] != "keys"]


def other_socket(manifests: list[Manifest]) -> None:
    args = first(manifests, "worker")["args"]
    args[:] = [one.replace("worker.sock", "wroker.sock") for one in args]


def misspelt_metric(manifests: list[Manifest]) -> None:
    scaler = next(one for one in manifests if one["kind"] == "HorizontalPodAutoscaler")
    scaler["spec"]["metrics"][0]["external"]["metric"]["name"] = "spectrie_requests_wating"


def other_target(manifests: list[Manifest]) -> None:
    pool = next(one for one in manifests if one["kind"] == "InferencePool")
    pool["spec"]["targetPorts"][0]["number"] = 9090


def without_compat(manifests: list[Manifest]) -> None:
    first(manifests, "router")["args"].remove("--metrics-compat=vllm")


def pool() -> list[Manifest]:
    return documents(FOLDER / "pool.yaml")


def kserve() -> list[Manifest]:
    return documents(FOLDER / "kserve.yaml")


def standalone() -> list[Manifest]:
    return documents(FOLDER / "standalone.yaml")


@pytest.mark.parametrize(
    ("spoil", "sound", "check"),
    [
        (wrong_port, standalone, "ports"),
        (wrong_port, split, "ports"),
        (wrong_port, beside, "ports"),
        (wrong_target_port, standalone, "ports"),
        (hidden_router, split, "ports"),
        (missing_volume, standalone, "volumes"),
        (missing_volume, beside, "volumes"),
        (unmounted_keys, standalone, "volumes"),
        (read_only_cache, standalone, "volumes"),
        (shared_state, split, "volumes"),
        (privileged, standalone, "security"),
        (privileged, split, "security"),
        (privileged, beside, "security"),
        (root, beside, "security"),
        (reversed_sidecars, beside, "order"),
        (worker_as_app, standalone, "order"),
        (grace_below_drain, standalone, "grace"),
        (grace_below_drain, split, "grace"),
        (grace_below_drain, beside, "grace"),
        (no_pause, standalone, "grace"),
        (misspelt_variable, standalone, "options"),
        (open_by_accident, standalone, "options"),
        (other_socket, standalone, "link"),
        (other_socket, beside, "link"),
        (misspelt_metric, split, "metrics"),
        (other_target, pool, "ports"),
        (without_compat, pool, "metrics"),
        (wrong_port, kserve, "ports"),
        (missing_volume, kserve, "volumes"),
        (worker_as_app, kserve, "order"),
        (grace_below_drain, kserve, "grace"),
    ],
)
def test_broken_manifest_fails_the_check_meant_for_it_alone(
    spoil: Callable[[list[Manifest]], None], sound: Callable[[], list[Manifest]], check: str
) -> None:
    manifests = copy.deepcopy(sound())
    assert faults(manifests) == {}
    spoil(manifests)
    found = faults(manifests)
    assert set(found) == {check}, found


def test_misspelt_option_is_found() -> None:
    manifests = standalone()
    misspelt_option(manifests)
    assert "--drain-timeoutt" in "".join(CHECKS["options"](manifests))
