"""What helm makes of single values: names, quotes, policies, claims, and what it refuses in a sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import Manifest, pods
from tests.deploy.test_chart import APP, HELM, KSERVE, NEEDS_HELM, SPLIT, merged
from tests.docs.markdown import ROOT
from tools.render_chart import CHART, render

pytestmark = NEEDS_HELM


def rendered(
    over: dict[str, Any], folder: Path, *options: str, release: str = "spectrie"
) -> list[Manifest]:
    """The manifests of the chart's values with `over`."""
    assert HELM is not None
    values = folder / "values.yaml"
    values.write_text(json.dumps(over))
    text = render(HELM, values, *options, release=release)
    return [one for one in yaml.safe_load_all(text) if one]


def ingress(manifests: list[Manifest]) -> dict[str, Any]:
    """Who may reach each port of the router, as the policy says."""
    policy = next(one for one in manifests if one["kind"] == "NetworkPolicy")
    return {
        port["port"]: rule["from"] for rule in policy["spec"]["ingress"] for port in rule["ports"]
    }


def test_metrics_are_closed_where_no_one_may_read_them(tmp_path: Path) -> None:
    """An empty `from` admits everyone: there must be no rule."""
    for over in ({}, SPLIT):
        assert "metrics" in ingress(rendered(over, tmp_path))
        closed = ingress(rendered(merged(over, {"networkPolicy": {"monitoring": []}}), tmp_path))
        assert "metrics" not in closed
        assert all(closed.values())


LONG = "a-release-with-a-name-of-forty-letters." + "x" * 10


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("my.release", "my-release"),
        ("a.b.c", "a-b-c"),
        (LONG, "a-release-with-a-name-of-forty-letters-x"),
        (f"a{LONG}", "aa-release-with-a-name-of-forty-letters"),
    ],
)
@pytest.mark.parametrize("over", [{}, SPLIT], ids=["pod", "split"])
def test_release_with_dots_names_what_a_service_may_be_named(
    release: str, name: str, over: dict[str, Any], tmp_path: Path
) -> None:
    manifests = rendered(over, tmp_path, release=release)
    names = {one["metadata"]["name"] for one in manifests}
    assert {one.removesuffix("-router").removesuffix("-workers") for one in names} >= {name}
    assert all(one.startswith(name) and "." not in one and one[-1] != "-" for one in names)


@pytest.mark.parametrize("text", ["a: b", "x #1", 'say "hi"', "back\\slash", "{a}", "true"])
def test_names_reach_the_worker_as_they_were_given(text: str, tmp_path: Path) -> None:
    over = {
        "model": {"name": text, "servedName": text, "fetch": True},
        "worker": {"extraArgs": [f"--numa={text}"]},
    }
    (pod,) = pods(rendered(over, tmp_path))
    (fetching,) = (one for one in pod.containers if one.command == "models")
    assert fetching.spec["args"] == ["models", "fetch", text]
    (worker,) = (one for one in pod.ours if one.command == "worker")
    args = worker.spec["args"]
    assert args[1] == text
    assert f"--served-model-name={text}" in args
    assert args[-1] == f"--numa={text}"


def test_names_that_look_like_numbers_stay_names(tmp_path: Path) -> None:
    over = {
        "model": {"claim": "123"},
        "cache": {"claim": "1e3"},
        "state": {"storageClass": "true"},
        "access": {"keysSecret": "123", "tlsSecret": "0x1", "redisSecret": "1"},
        "runtimeClassName": "123",
        "spreadOver": "on",
    }
    manifests = rendered(over, tmp_path)
    (pod,) = pods(manifests)
    volumes = {one["name"]: one for one in pod.spec["volumes"]}
    assert volumes["models"]["persistentVolumeClaim"]["claimName"] == "123"
    assert volumes["cache"]["persistentVolumeClaim"]["claimName"] == "1e3"
    assert volumes["keys"]["secret"]["secretName"] == "123"
    assert volumes["tls"]["secret"]["secretName"] == "0x1"
    assert pod.spec["runtimeClassName"] == "123"
    assert pod.spec["topologySpreadConstraints"][0]["topologyKey"] == "on"
    (stateful,) = (one for one in manifests if one["kind"] == "StatefulSet")
    assert stateful["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "true"


def claims(manifests: list[Manifest]) -> set[str]:
    """The claims that the pods mount."""
    volumes = [one for pod in pods(manifests) for one in pod.spec["volumes"]]
    return {
        one["persistentVolumeClaim"]["claimName"]
        for one in volumes
        if "persistentVolumeClaim" in one
    }


def test_claim_of_models_is_mounted_where_something_is_on_it(tmp_path: Path) -> None:
    fetched = {"model": {"name": "smollm2-135m", "fetch": True}}
    assert claims(rendered({}, tmp_path)) == {"spectrie-models"}
    assert claims(rendered(fetched, tmp_path)) == set()
    drafter = {"worker": {"extraArgs": ["--drafter=/models/head"]}}
    assert claims(rendered(merged(fetched, drafter), tmp_path)) == {"spectrie-models"}


def notes(over: dict[str, Any], folder: Path) -> str:
    """What helm prints after an install; `helm template` leaves it out, so a copy of the chart makes an object of it."""
    assert HELM is not None
    templates = shutil.copytree(CHART, folder / "chart") / "templates"
    text = (templates / "NOTES.txt").read_text(encoding="utf-8")
    object_ = 'notes: {{ include "notes" . | toJson }}\n'
    (templates / "notes.yaml").write_text(f'{{{{- define "notes" }}}}{text}{{{{- end }}}}{object_}')
    values = folder / "values.yaml"
    values.write_text(json.dumps(over))
    made = render(HELM, values, "--namespace", "team", chart=templates.parent)
    return str(next(one["notes"] for one in yaml.safe_load_all(made) if one and "notes" in one))


BALANCER = {"service": {"type": "LoadBalancer"}}
CLIENTS = {"networkPolicy": {"clients": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}}
OURS = "The NetworkPolicy admits pods of the namespace team alone"
NAMED = "The NetworkPolicy admits clients of networkPolicy.clients alone"
REFUSED = "are refused until networkPolicy.clients has their"


@pytest.mark.parametrize(
    ("over", "says", "not_says"),
    [
        ({}, [OURS, "http://spectrie.team:8000/v1"], [REFUSED, NAMED]),
        (SPLIT, [OURS], [REFUSED, NAMED]),
        (BALANCER, [OURS, REFUSED, "service.type is LoadBalancer"], [NAMED]),
        (merged(BALANCER, CLIENTS), [NAMED], [OURS, REFUSED]),
        ({"networkPolicy": {"enabled": False}}, ["networkPolicy.enabled is false"], [OURS, NAMED]),
        (KSERVE, [OURS, "has to name its namespace"], [REFUSED, "http://"]),
        (APP, ["The app reaches the model"], [OURS, NAMED, "NetworkPolicy"]),
    ],
    ids=["pod", "split", "balancer", "clients", "no-policy", "kserve", "app"],
)
def test_notes_say_who_may_call(
    over: dict[str, Any], says: list[str], not_says: list[str], tmp_path: Path
) -> None:
    text = notes(over, tmp_path)
    assert [one for one in says if one not in text] == []
    assert [one for one in not_says if one in text] == []


THEIRS = merged(APP, {"app": {"containers": [{"name": "app", "image": "registry.example/app:1"}]}})


@pytest.mark.parametrize("over", [{}, SPLIT, THEIRS, KSERVE], ids=["pod", "split", "app", "kserve"])
def test_runbook_names_the_container_of_the_router(over: dict[str, Any], tmp_path: Path) -> None:
    page = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    found = [one for pod in pods(rendered(over, tmp_path)) for one in pod.ours]
    (router,) = (one for one in found if one.command == "router")
    named = " ".join(page.partition("## ")[0].split())
    assert f"`{router.name}` in" in named
