"""The chart as helm sees it, and copies of it that are broken on purpose."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.kube.cluster import program
from tools.kube.node.pods import Manifest
from tools.render_chart import CHART, DEPLOY, render

__all__ = ["BREAKS", "EXAMPLES", "Break", "is_patch", "lint", "manifests_of"]

EXAMPLES = DEPLOY / "helm" / "examples"


@dataclass(frozen=True, slots=True)
class Break:
    """A fault of the chart.

    Attributes:
        name: What is wrong.
        file: Of the chart's templates.
        old: Text there, which occurs once.
        new: What stands there instead.
        values: The example that is rendered.
        step: The step that must find it.
    """

    name: str
    file: str
    old: str
    new: str
    values: str
    step: str

    def copy(self, folder: Path) -> Path:
        """The chart with this fault, in a folder."""
        chart = shutil.copytree(CHART, folder / "spectrie")
        path = chart / "templates" / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: {self.file} has {self.old!r} {text.count(self.old)} times"
            )
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        return chart


_WORKER = '{{- include "spectrie.worker" (dict "root" . "sidecar" true) | nindent 8 }}'
_ROUTER = '{{- include "spectrie.router" (dict "root" . "sidecar" true) | nindent 8 }}'
BREAKS = (
    Break(
        "a wrong port",
        "_worker.tpl",
        "startupProbe:\n    grpc: {port: 50052}\n    periodSeconds: 10\n"
        "    failureThreshold: {{ div $values.worker.startupSeconds 10 }}",
        "startupProbe:\n    grpc: {port: 50053}\n    periodSeconds: 2\n    failureThreshold: 10",
        "standalone",
        "start",
    ),
    Break(
        "a missing volume",
        "_pod.tpl",
        "- name: {{ $prefix }}run\n",
        "- name: {{ $prefix }}runs\n",
        "standalone",
        "dry run",
    ),
    Break(
        "a privileged container",
        "_pod.tpl",
        "allowPrivilegeEscalation: false",
        "privileged: true",
        "standalone",
        "security",
    ),
    Break(
        "sidecars in reversed order",
        "beside.yaml",
        f"{_WORKER}\n        {_ROUTER}",
        f"{_ROUTER}\n        {_WORKER}",
        "sidecars",
        "start",
    ),
    Break(
        "a grace period below the drain",
        "_names.tpl",
        "{{ $own }}",
        "{{ add .Values.router.preStopSeconds 1 }}",
        "standalone",
        "stop",
    ),
)
"""Five faults, each of which one step finds and those before it let pass."""


def lint(chart: Path, values: Path) -> str | None:
    """What `helm lint` complains of; None if nothing."""
    helm = str(program("helm"))
    done = subprocess.run(
        [helm, "lint", "--strict", str(chart), "--values", str(values)],
        capture_output=True,
        text=True,
    )
    return None if done.returncode == 0 else f"{done.stdout}{done.stderr}".strip()


def is_patch(values: Path) -> bool:
    """Whether an example renders a part of a Deployment, which is whole only once it is merged into another."""
    return bool(yaml.safe_load(values.read_text(encoding="utf-8"))["layout"] == "component")


def manifests_of(chart: Path, values: Path) -> tuple[str, list[Manifest]]:
    """What helm makes of a chart: the text, and its objects."""
    text = render(str(program("helm")), values, chart=chart)
    return text, [one for one in yaml.safe_load_all(text) if one]
