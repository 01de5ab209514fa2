"""The chart's faults are where they were, what pods need is found, and schemas are closed as the server's are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.manifests import FOLDER, documents
from tools.kube.charts import BREAKS, EXAMPLES, Break
from tools.kube.schemas import closed
from tools.kube.surroundings import claims_of, secrets_of
from tools.render_chart import CHART


@pytest.mark.parametrize("fault", BREAKS, ids=lambda one: one.name)
def test_a_broken_chart_differs_in_its_one_file(fault: Break, tmp_path: Path) -> None:
    chart = fault.copy(tmp_path)
    files = [path.relative_to(CHART) for path in sorted(CHART.rglob("*")) if path.is_file()]
    changed = [one for one in files if (CHART / one).read_bytes() != (chart / one).read_bytes()]
    assert changed == [Path("templates", fault.file)]
    assert (EXAMPLES / f"{fault.values}.yaml").is_file()


def test_a_fault_whose_place_is_gone_is_refused(tmp_path: Path) -> None:
    gone = Break("gone", "_pod.tpl", "no such text", "", "standalone", "lint")
    with pytest.raises(ValueError, match="0 times"):
        gone.copy(tmp_path)


def test_secrets_and_claims_that_pods_need_are_found() -> None:
    split = documents(FOLDER / "split.yaml")
    assert secrets_of(split) == {"spectrie-keys", "spectrie-worker-token"}
    assert claims_of(split) == {"spectrie-cache"}
    router = documents(FOLDER / "standalone.yaml")[-1]["spec"]["template"]["spec"]["containers"][0]
    reference = {"name": "URL", "valueFrom": {"secretKeyRef": {"name": "redis", "key": "url"}}}
    assert secrets_of([pod_with(router | {"env": [reference]})]) == {"redis"}


def pod_with(container: dict[str, object]) -> dict[str, object]:
    """A Deployment of one container."""
    spec = {"template": {"spec": {"containers": [container]}}}
    return {"kind": "Deployment", "spec": spec}


def test_a_schema_takes_named_fields_alone_unless_it_says_otherwise() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    free = inner | {"x-kubernetes-preserve-unknown-fields": True}
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"properties": {"inner": inner, "free": free, "labels": labels, "any": {}}}
    result = closed(schema)
    assert result["additionalProperties"] is False
    assert result["properties"]["inner"] == inner | {"additionalProperties": False}
    assert result["properties"]["free"] == free
    assert result["properties"]["labels"] == labels
