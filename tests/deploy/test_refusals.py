"""Values that could not start together: helm refuses them in a sentence that says what to set."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.test_chart import APP, HELM, KSERVE, NEEDS_HELM, POOL, SPLIT, merged
from tools.render_chart import render

COMPONENT = {"layout": "component", "state": {"kind": "none"}, "access": {"keysSecret": ""}}
TWO = {"worker": {"device": "cuda", "gpus": 2}}
FETCHED = {"model": {"name": "smollm2-135m", "fetch": True, "claim": ""}}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "neither keys nor open": (
        {"access": {"keysSecret": ""}},
        "set access.keysSecret to a Secret whose key keys.toml lists API keys",
    ),
    "keys and open": (
        {"access": {"open": True}},
        'set access.keysSecret to "" as well, or access.open to false',
    ),
    "split without a token": ({"layout": "split"}, "set access.workerTokenSecret to a Secret"),
    "app without containers": (merged(APP, {"app": {"containers": []}}), "set app.containers"),
    "app with a claim of its own": (
        merged(APP, {"state": {"kind": "claim"}}),
        "set state.kind to scratch or none",
    ),
    "app open": (merged(APP, {"access": {"open": True}}), "set access.open to false"),
    "app with certificates": (
        merged(APP, {"access": {"tlsSecret": "tls"}}),
        "set access.tlsSecret and access.workerTokenSecret to",
    ),
    "app scaled": (
        merged(APP, {"autoscaling": {"enabled": True}}),
        "set autoscaling.enabled to false",
    ),
    "component with keys": (
        merged(COMPONENT, {"access": {"keysSecret": "keys"}}),
        'set access.keysSecret to ""',
    ),
    "component with a cache that it may not write": (
        merged(COMPONENT, {"cache": {"claim": "cache"}}),
        'set cache.claim to ""',
    ),
    "fetching a folder": (
        {"model": {"fetch": True}},
        "set model.name to an alias such as smollm2-135m, or model.fetch to false",
    ),
    "a folder of no claim": (
        {"model": {"claim": ""}},
        "set model.claim to the claim that holds it, or model.fetch to true and model.name to an alias",
    ),
    "an option with a folder of no claim": (
        merged(FETCHED, {"worker": {"extraArgs": ["--drafter=/models/head"]}}),
        "set model.claim to the claim that holds it",
    ),
    "CUDA without a GPU": ({"worker": {"device": "cuda"}}, "set worker.gpus"),
    "a GPU without CUDA": ({"worker": {"gpus": 1}}, "set worker.device to cuda"),
    "two GPUs, one of which idles": (TWO, "add --tensor-parallel=2 to worker.extraArgs"),
    "two GPUs for three ranks": (
        merged(TWO, {"worker": {"extraArgs": ["--tensor-parallel=3"]}}),
        "add --tensor-parallel=2 to worker.extraArgs",
    ),
    "a least above the most": (
        {"autoscaling": {"enabled": True, "minReplicas": 5}},
        "autoscaling.minReplicas is 5 and autoscaling.maxReplicas is 4",
    ),
    "a pool without vLLM's metrics": (
        {"inferencePool": {"endpointPicker": "picker"}},
        "add --metrics-compat=vllm to router.extraArgs",
    ),
    "a pool of one router": (merged(SPLIT, POOL), "set layout to pod"),
    "KServe with claims": ({"layout": "kserve"}, "set state.kind to scratch or none"),
    "KServe scaled twice": (
        merged(KSERVE, {"autoscaling": {"enabled": True}}),
        "set autoscaling.enabled to false",
    ),
    "KServe open by accident": (
        merged(KSERVE, {"access": {"keysSecret": ""}}),
        "set access.keysSecret to a Secret",
    ),
}
NULLS = {
    "worker.resources": "at '/worker': missing property 'resources'",
    "router.resources": "at '/router': missing property 'resources'",
    "state.size": "at '/state': missing property 'size'",
    "networkPolicy.monitoring": "at '/networkPolicy': missing property 'monitoring'",
    "monitoring": "at '': missing property 'monitoring'",
    "autoscaling": "at '': missing property 'autoscaling'",
    "service": "at '': missing property 'service'",
    "networkPolicy": "at '': missing property 'networkPolicy'",
    "inferencePool": "at '': missing property 'inferencePool'",
}
ALLOWED: dict[str, dict[str, Any]] = {
    "defaults": {},
    "split": SPLIT,
    "app": APP,
    "component": COMPONENT,
    "KServe": KSERVE,
    "a pool": POOL,
    "open on purpose": {"access": {"open": True, "keysSecret": ""}},
    "GPU": {"worker": {"device": "cuda", "gpus": 1}},
    "GPUs": merged(TWO, {"worker": {"extraArgs": ["--tensor-parallel=2"]}}),
    "fetched": FETCHED,
    "fetched, with the default claim": {"model": {"name": "smollm2-135m", "fetch": True}},
    "a folder of the image": {"model": {"name": "/opt/model", "claim": ""}},
    "as many as the most": {"autoscaling": {"enabled": True, "minReplicas": 4}},
    "a least above the most, unused": {"autoscaling": {"minReplicas": 5}},
}


def refusal(folder: Path, over: dict[str, Any], *options: str, release: str = "spectrie") -> str:
    """What helm says of the chart's values with `over`."""
    assert HELM is not None
    values = folder / "values.yaml"
    values.write_text(json.dumps(over))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        render(HELM, values, *options, release=release)
    return str(refused.value.stderr)


@NEEDS_HELM
@pytest.mark.parametrize(("over", "says"), REFUSED.values(), ids=REFUSED)
def test_helm_refuses_in_a_sentence(over: dict[str, Any], says: str, tmp_path: Path) -> None:
    message = refusal(tmp_path, over)
    assert says in message
    assert "schema" not in message


@NEEDS_HELM
@pytest.mark.parametrize("over", ALLOWED.values(), ids=ALLOWED)
def test_helm_allows(over: dict[str, Any], tmp_path: Path) -> None:
    assert HELM is not None
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps(over))
    assert render(HELM, values)


@NEEDS_HELM
@pytest.mark.parametrize(("name", "says"), NULLS.items(), ids=NULLS)
def test_helm_names_the_value_that_is_null(name: str, says: str, tmp_path: Path) -> None:
    message = refusal(tmp_path, {}, "--set", f"{name}=null")
    assert says in message
    assert "nil pointer" not in message


@NEEDS_HELM
def test_helm_refuses_a_release_that_no_service_can_be_named_after(tmp_path: Path) -> None:
    assert "set name to one that begins with a letter" in refusal(tmp_path, {}, release="1.2")
