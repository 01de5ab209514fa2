"""What each step asks of a chart and an example; the first that finds a fault ends the example."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.kube.api import Api, Refused
from tools.kube.applied import Applied, apply, dry_run, restricted
from tools.kube.charts import is_patch, lint, manifests_of
from tools.kube.node.acted import Acted, Stage, act, act_split
from tools.kube.node.kubelet import PodFailed
from tools.kube.node.pods import WORKLOADS, Manifest
from tools.kube.schemas import VERSIONS, conform
from tools.kube.surroundings import prepare_namespace

__all__ = ["Run", "StepFailed"]


class StepFailed(Exception):
    """A step found a fault.

    Attributes:
        step: Which one.
        faults: Each in a line or more.
    """

    def __init__(self, step: str, faults: list[str]) -> None:
        super().__init__(f"{step}: " + "\n".join(faults))
        self.step, self.faults = step, faults


@dataclass(slots=True)
class Run:
    """An example on its way through the steps.

    Attributes:
        name: Of the example; its namespace has the same.
        chart: The chart.
        values: The example.
        api: The API server.
        schemas: For kubeconform.
        say: Prints a line.
    """

    name: str
    chart: Path
    values: Path
    api: Api
    schemas: Path
    stage: Stage
    say: Callable[[str], None]

    def on_paper(self) -> list[Manifest]:
        """Lint, render, schemas; the objects."""
        if is_patch(self.values):
            self.say(
                "a patch: neither lint nor a schema takes it before the API server has merged it"
            )
            return manifests_of(self.chart, self.values)[1]
        complaint = lint(self.chart, self.values)
        self._check("lint", [complaint] if complaint else [])
        text, manifests = manifests_of(self.chart, self.values)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            self._check("schemas", conform(self.schemas, Path(file.name)))
        self.say(f"lint, template, schemas of {' and '.join(VERSIONS)}: {len(manifests)} objects")
        return manifests

    def applied(self, manifests: list[Manifest]) -> Applied:
        """Dry run, the level "restricted", real apply, everything Ready."""
        prepare_namespace(self.api, self.name, manifests, self.stage.secrets)
        self._check("dry run", dry_run(self.api, self.name, manifests))
        self._check("security", restricted(self.api, self.name, manifests))
        with self._failing("ready"):
            found = apply(self.api, self.name, manifests)
        if not found.pods:
            self.say(
                "dry run, restricted, applied; without KServe's controller nobody makes its pods"
            )
            return found
        self.say(
            f"dry run, restricted, applied: {found.pods} pods Ready (by kwok: wiring only), "
            f"{found.claims} claims bound, {found.endpoints} addresses, {found.guarded} pods guarded, {found.scaled} scaled"
        )
        return found

    def acted(self, manifests: list[Manifest]) -> Acted:
        """Start and stop by real processes."""
        workloads = [one for one in manifests if one["kind"] in WORKLOADS]
        with self._failing("start"):
            if len(workloads) == 1:
                found = act(workloads[0], self.stage)
            else:
                router, worker = sorted(
                    workloads, key=lambda one: "worker" in one["metadata"]["name"]
                )
                found = act_split(router, worker, self.stage)
        self._check("stop", found.faults())
        asked = ", ".join(f"{number} {kind}" for kind, number in found.questions.items())
        self.say(f"acted out: {' > '.join(found.story())}")
        self.say(
            f"Ready after {found.start_s:.0f} s, stopped in {found.stop_s:.0f} s with {found.running} streams running; "
            f"probes asked: {asked}; {found.outcome.finished} streams whole, 0 lost"
        )
        return found

    def _check(self, step: str, faults: list[str]) -> None:
        if faults:
            raise StepFailed(step, faults)

    @contextmanager
    def _failing(self, step: str) -> Iterator[None]:
        try:
            yield
        except (Refused, TimeoutError, PodFailed) as error:
            raise StepFailed(step, [str(error)]) from error
