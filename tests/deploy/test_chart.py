"""The chart: what its schema refuses, its version, and what helm itself makes of it where it is installed."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from spectrie.cli.flags.options import options_of
from spectrie.version import __version__
from tests.deploy.checks import faults
from tests.deploy.manifests import FOLDER, pods
from tests.deploy.test_renders import CUSTOM
from tools.kube.cluster import program
from tools.render_chart import CHART, RENDERS, body, render

HELM = shutil.which("helm") or shutil.which(program("helm"))
KUSTOMIZE = shutil.which("kustomize")
NEEDS_HELM = pytest.mark.skipif(HELM is None, reason="helm is not installed")
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
SPLIT = {"layout": "split", "access": {"workerTokenSecret": "token"}}
APP = {
    "layout": "app",
    "state": {"kind": "scratch"},
    "access": {"keysSecret": ""},
    "app": {"containers": [{"name": "app"}]},
}


def merged(values: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Values with others over them, as helm merges tables."""
    result = copy.deepcopy(values)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def is_allowed(over: dict[str, Any]) -> bool:
    """Whether the schema takes the chart's defaults with `over`; what values must not be together, helm checks."""
    return bool(jsonschema.Draft7Validator(SCHEMA).is_valid(merged(DEFAULTS, over)))


POOL = {
    "inferencePool": {"endpointPicker": "picker"},
    "router": {"extraArgs": ["--metrics-compat=vllm"]},
}
KSERVE = {"layout": "kserve", "state": {"kind": "none"}}

ALLOWED: dict[str, dict[str, Any]] = {
    "defaults": {},
    "split": SPLIT,
    "app": APP,
    "open on purpose": {"access": {"open": True, "keysSecret": ""}},
    "more options": {"router": {"extraArgs": ["--max-queue=200", "--open-introspection"]}},
    "GPU": {"worker": {"device": "cuda", "gpus": 1}},
    "a Redis": {"access": {"redisSecret": "redis"}},
    "no state": {"state": {"kind": "none"}},
    "a pool": POOL,
    "KServe": KSERVE,
}
REFUSED: dict[str, dict[str, Any]] = {
    "unknown value": {"replicaz": 2},
    "unknown layout": {"layout": "pods"},
    "a claim for all replicas' state": {"state": {"claim": "shared"}},
    "the same by an option": {"worker": {"extraArgs": ["--state-dir=/models/state"]}},
    "the same by an option of the router": {"router": {"extraArgs": ["--state-dir=/tmp/x"]}},
    "an option without dashes": {"worker": {"extraArgs": ["max-running=2"]}},
    "a second address": {"router": {"extraArgs": ["--http=0.0.0.0:80"]}},
    "a Redis on the command line": {"router": {"extraArgs": ["--redis=redis://u:p@host"]}},
    "no time to drain": {"router": {"drainSeconds": 0}},
    "no pause before the stop": {"router": {"preStopSeconds": 0}},
    "no time to spare": {"spareSeconds": 0},
    "a negative number of replicas": {"replicas": -1},
    "a label that is no string": {"nodeSelector": {"gpu": True}},
}


def test_schema_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("values", ALLOWED.values(), ids=ALLOWED)
def test_schema_allows(values: dict[str, Any]) -> None:
    assert is_allowed(values)


@pytest.mark.parametrize("values", REFUSED.values(), ids=REFUSED)
def test_schema_refuses(values: dict[str, Any]) -> None:
    assert not is_allowed(values)


@pytest.mark.parametrize("values", RENDERS, ids=lambda path: path.stem)
def test_schema_allows_the_examples(values: Path) -> None:
    assert is_allowed(yaml.safe_load(values.read_text(encoding="utf-8")))


def test_schema_names_each_value_that_is_missing() -> None:
    """A value set to null is missing for helm, and a template would meet a nil pointer."""

    def paths(values: dict[str, Any]) -> Iterator[tuple[str, ...]]:
        for key, value in values.items():
            yield (key,)
            if isinstance(value, dict):
                yield from ((key, *more) for more in paths(value))

    for path in paths(DEFAULTS):
        if "resources" in path[:-1]:
            continue
        values = copy.deepcopy(DEFAULTS)
        table = values
        for key in path[:-1]:
            table = table[key]
        del table[path[-1]]
        errors = list(jsonschema.Draft7Validator(SCHEMA).iter_errors(values))
        assert [tuple(one.absolute_path) for one in errors] == [path[:-1]]
        assert repr(path[-1]) in errors[0].message


def test_schema_describes_every_value() -> None:
    def unlike(values: dict[str, Any], schema: dict[str, Any]) -> set[str]:
        known = schema.get("properties")
        if known is None:
            return set()
        found = set(values) ^ (set(known) - {"global"})
        for key in set(values) & set(known):
            if isinstance(values[key], dict):
                found |= unlike(values[key], known[key])
        return found

    assert unlike(DEFAULTS, SCHEMA) == set()


@pytest.mark.parametrize("command", ["router", "worker"])
def test_options_of_the_chart_itself_cannot_be_given_twice(command: str) -> None:
    """Each option that a template sets is one that extraArgs may not hold, and all of them exist."""
    template = (CHART / "templates" / f"_{command}.tpl").read_text(encoding="utf-8")
    held = set(re.findall(r'^ *- (?:\{\{ printf ")?--([a-z-]+)', template, re.MULTILINE))
    items = SCHEMA["properties"][command]["properties"]["extraArgs"]["items"]
    reserved = set(re.findall(r"[a-z][a-z-]+", items["not"]["pattern"]))
    flags = {option.flag.removeprefix("--") for option in options_of(command)}
    assert held <= reserved <= flags


def test_version_is_that_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == __version__


@NEEDS_HELM
@pytest.mark.parametrize("values", RENDERS, ids=lambda path: path.stem)
def test_helm_renders_what_is_checked_in(values: Path) -> None:
    assert HELM is not None
    assert render(HELM, values) == body(RENDERS[values])


@NEEDS_HELM
def test_helm_lint_finds_nothing() -> None:
    assert HELM is not None
    done = subprocess.run([HELM, "lint", "--strict", CHART], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@NEEDS_HELM
@pytest.mark.parametrize("over", REFUSED.values(), ids=REFUSED)
def test_helm_refuses_by_the_schema(over: dict[str, Any], tmp_path: Path) -> None:
    assert HELM is not None
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(over))
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        render(HELM, values)
    assert "values don't meet the specifications of the schema" in refusal.value.stderr


@NEEDS_HELM
@pytest.mark.parametrize(
    "over",
    [
        {
            "autoscaling": {"enabled": True},
            "monitoring": {"podMonitor": True, "rules": True, "dashboard": True},
        },
        {
            "model": {"name": "smollm2-135m", "claim": "", "fetch": True, "bigrams": True},
            "replicas": 3,
        },
        {"access": {"open": True, "keysSecret": ""}, "state": {"kind": "none"}, "spreadOver": ""},
        merged(
            SPLIT, {"worker": {"device": "cuda", "gpus": 4, "extraArgs": ["--tensor-parallel=4"]}}
        ),
        merged(
            SPLIT,
            {
                "access": {"tlsSecret": "tls"},
                "state": {"kind": "scratch"},
                "imagePullSecrets": [{"name": "x"}],
            },
        ),
        {
            "router": {"drainSeconds": 600, "preStopSeconds": 30},
            "nodeSelector": {"a": "b"},
            "access": {"redisSecret": "r"},
        },
    ],
    ids=["monitored", "fetched", "open", "ranks", "tls", "long-drain"],
)
def test_other_values_render_without_fault(over: dict[str, Any], tmp_path: Path) -> None:
    assert HELM is not None
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(over))
    manifests = [one for one in yaml.safe_load_all(render(HELM, values)) if one]
    assert faults(manifests) == {}
    for one in manifests:
        if one["kind"] not in CUSTOM:
            kubernetes_validate.validate(one, "1.36", strict=True)


@pytest.mark.skipif(KUSTOMIZE is None, reason="kustomize is not installed")
def test_component_adds_sidecars_to_labelled_deployments_alone(tmp_path: Path) -> None:
    assert KUSTOMIZE is not None
    shutil.copytree(FOLDER / "component", tmp_path / "component")
    app = {"name": "app", "image": "registry.example/theirs:1"}
    migration = app | {"name": "migrate"}
    theirs = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"initContainers": [migration], "containers": [app]},
                },
            },
        }
        for name, labels in (("mine", {"spectrie.dev/sidecars": "true"}), ("other", {}))
    ]
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    (overlay / "theirs.yaml").write_text(yaml.safe_dump_all(theirs))
    page = {"resources": ["theirs.yaml"], "components": ["../component"]}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(page))
    command = [KUSTOMIZE, "build", str(overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    mine, other = pods(list(yaml.safe_load_all(done.stdout)))
    names = [one.name for one in mine.containers]
    assert names == ["spectrie-worker", "spectrie-router", "migrate", "app"]
    assert [one.name for one in other.containers] == ["migrate", "app"]
