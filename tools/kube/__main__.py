"""Runs the chart on a real API server and acts out its pods: `make kube-e2e`, which builds what this needs first.

python -m tools.kube [--cache FOLDER] [--only NAME]
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from spectrie.model.files.store import cache_folder
from tools.kube.api import Api, has_condition
from tools.kube.charts import BREAKS, EXAMPLES
from tools.kube.cluster import Cluster, program
from tools.kube.node.acted import Stage, new_key
from tools.kube.node.box import Network, missing
from tools.kube.node.pods import Manifest
from tools.kube.schemas import definitions, write_schemas
from tools.kube.steps import Run, StepFailed
from tools.kube.surroundings import prepare_cluster
from tools.render_chart import CHART

MODEL = "smollm2-135m"
USER = 65532
ACTED = ("standalone", "sidecars", "split")
"""The examples whose pods are acted out: router beside worker, both beside an app, and each in pods of its own."""


def main(argv: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    cache = cache_folder()
    parser.add_argument("--cache", type=Path, default=cache, help=f"has {MODEL} [{cache}]")
    names = [*sorted(path.stem for path in EXAMPLES.glob("*.yaml")), *(one.name for one in BREAKS)]
    parser.add_argument(
        "--only",
        action="append",
        choices=names,
        default=[],
        metavar="NAME",
        help=f"of {', '.join(names)} [all]",
    )
    args = parser.parse_args(argv)
    lacks = missing()
    if lacks is None and not (args.cache / "models" / MODEL).is_dir():
        lacks = f"{MODEL} in {args.cache}: run make bigrams"
    if lacks is None and not program("kubeconform").exists():
        lacks = "programs: run tools/kube/build.sh"
    if lacks is not None:
        print(f"kube-e2e needs {lacks}", file=sys.stderr)
        return 1
    # Ended from outside, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with (
        tempfile.TemporaryDirectory(prefix="kube-e2e-") as scratch,
        Cluster(Path(scratch) / "cluster") as cluster,
        Network() as network,
    ):
        whole = _Whole(Path(scratch), cluster.api, network, args.cache, args.only)
        try:
            whole.examples()
            whole.breaks()
        except StepFailed as error:
            print(error, file=sys.stderr)
            return 1
        print(whole.summary())
        return 0


def _say(line: str) -> None:
    print(f"    {line}", flush=True)


class _Whole:
    """All examples and all broken charts, on one API server."""

    def __init__(
        self, scratch: Path, api: Api, network: Network, cache: Path, only: list[str]
    ) -> None:
        self._scratch, self._api, self._network, self._only = scratch, api, network, only
        self._began = time.monotonic()
        self._pods = self._questions = self._streams = self._breaks = 0
        write_schemas(scratch / "schemas")
        prepare_cluster(api)
        for kind in definitions():
            api.apply(kind, "")
            api.wait(kind["metadata"]["name"], partial(_is_established, api, kind))
        self._key, keys = new_key()
        self._secrets = {
            "spectrie-keys": {"keys.toml": keys},
            "spectrie-worker-token": {"token": os.urandom(32).hex().encode()},
            "spectrie-tls": {"tls.crt": b"-", "tls.key": b"-", "ca.crt": b"-"},
        }
        own = _own_cache(cache, scratch)
        self._claims = {"spectrie-models": cache / "models", "spectrie-cache": own}

    def _begin(self, title: str, name: str, chart: Path, values: str) -> Run:
        print(f"==> {title} ({time.monotonic() - self._began:.0f} s)", flush=True)
        stage = Stage(self._scratch / name, self._network, self._secrets, self._claims, self._key)
        example = EXAMPLES / f"{values}.yaml"
        return Run(name, chart, example, self._api, self._scratch / "schemas", stage, _say)

    def examples(self) -> None:
        """Each example passes each step.

        Raises:
            StepFailed: One does not.
        """
        for values in sorted(path.stem for path in EXAMPLES.glob("*.yaml")):
            if self._only and values not in self._only:
                continue
            run = self._begin(values, values, CHART, values)
            manifests = run.on_paper()
            self._pods += run.applied(manifests).pods
            if values in ACTED:
                acted = run.acted(manifests)
                self._questions += sum(acted.questions.values())
                self._streams += acted.outcome.finished

    def breaks(self) -> None:
        """Each broken chart fails at its step.

        Raises:
            StepFailed: One fails at another, or at none.
        """
        for number, fault in enumerate(BREAKS):
            if self._only and fault.name not in self._only:
                continue
            name, chart = f"broken-{number}", fault.copy(self._scratch / f"chart-{number}")
            run = self._begin(f"{fault.name}, in {fault.values}", name, chart, fault.values)
            step = _failing_step(dataclasses.replace(run, say=lambda _: None))
            if step != fault.step:
                raise StepFailed(fault.step, [f"it does not find {fault.name}, but {step} does"])
            self._breaks += 1

    def summary(self) -> str:
        """The figures, in a line."""
        return (
            f"==> kube-e2e: {self._pods} pods Ready, {self._questions} probes asked, "
            f"{self._streams} streams whole, 0 lost, {self._breaks} broken charts found, in "
            f"{time.monotonic() - self._began:.0f} s. kwok says Ready of every pod that is scheduled: "
            "that proves wiring only"
        )


def _own_cache(cache: Path, scratch: Path) -> Path:
    """A copy that pods may write to: what they fetch and compute is there already."""
    to = scratch / "cache"
    shutil.copytree(cache / "models" / MODEL, to / "models" / MODEL)
    shutil.copytree(cache / "bigrams", to / "bigrams")
    for path in (to, *to.rglob("*")):
        os.chown(path, USER, USER)
    return to


def _is_established(api: Api, definition: Manifest) -> bool:
    return has_condition(api.get(definition, ""), "Established")


def _failing_step(one: Run) -> str | None:
    """The step that finds a fault."""
    try:
        manifests = one.on_paper()
        one.applied(manifests)
        one.acted(manifests)
    except StepFailed as error:
        more = len(error.faults) - 1
        _say(str(error).splitlines()[0] + (f" (and {more} more)" if more else ""))
        return error.step
    return None


if __name__ == "__main__":
    sys.exit(main())
