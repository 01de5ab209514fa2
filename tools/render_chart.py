"""Renders the manifests of deploy/kubernetes from the chart, or checks that they are current.

    tools/render_chart.py            # renders; needs helm 3
    tools/render_chart.py --check    # fails where a render is not the chart's; without helm, by digest

The first line of each render is a digest of the chart and of its values, so that a change of either that was
not rendered shows on machines without helm, too.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["RENDERS", "body", "digest", "is_current", "render"]

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "spectrie"
RENDERS = {
    DEPLOY / "helm" / "examples" / f"{values}.yaml": DEPLOY / "kubernetes" / render
    for values, render in {
        "standalone": "standalone.yaml",
        "split": "split.yaml",
        "gpu": "gpu.yaml",
        "sidecars": "sidecars.yaml",
        "component": "component/sidecars.yaml",
        "pool": "pool.yaml",
        "kserve": "kserve.yaml",
    }.items()
}
"""Each file of values, and what is rendered from it."""

KUBERNETES = "1.30"
"""The oldest version that the chart supports."""
_HEADER = "# Rendered from deploy/helm by tools/render_chart.py: do not edit. Sources: "


def digest(values: Path) -> str:
    """SHA-256 of the chart and of a file of values, with their names."""
    total = hashlib.sha256()
    for path in [*sorted(path for path in CHART.rglob("*") if path.is_file()), values]:
        content = path.read_bytes()
        total.update(f"{path.relative_to(DEPLOY).as_posix()} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()


def is_current(values: Path, rendered: Path) -> bool:
    """Whether `rendered` names the chart and values as they are now."""
    text = rendered.read_text(encoding="utf-8") if rendered.is_file() else ""
    return text.startswith(f"{_HEADER}{digest(values)}\n")


def body(rendered: Path) -> str:
    """A render without its first line."""
    return rendered.read_text(encoding="utf-8").partition("\n")[2]


def render(
    helm: str, values: Path, *options: str, chart: Path = CHART, release: str = "spectrie"
) -> str:
    """What helm makes of a chart and a file of values, without blank lines and trailing blanks.

    Args:
        helm: The program.
        values: The file of values.
        options: More of `helm template`, such as `--set=replicas=2`.
        chart: The chart; ours if not given.
        release: The release's name.

    Raises:
        subprocess.CalledProcessError: The values are refused; `stderr` says why.
    """
    command = [helm, "template", release, str(chart), "--kube-version", KUBERNETES]
    command += ["--values", str(values), *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = (line.rstrip() for line in done.stdout.splitlines())
    kept = [line for line in lines if line and not line.startswith("# Source: ")]
    return "\n".join(kept[kept[0] == "---" :]) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--helm", default=shutil.which("helm"), help="the program [from PATH]")
    args = parser.parse_args(argv)
    if args.check:
        stale = [to for values, to in RENDERS.items() if not is_current(values, to)]
        if args.helm and not stale:
            stale = [to for values, to in RENDERS.items() if render(args.helm, values) != body(to)]
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not current: run tools/render_chart.py")
        return 1 if stale else 0
    if not args.helm:
        print("helm is needed to render: https://helm.sh/docs/intro/install", file=sys.stderr)
        return 1
    for values, to in RENDERS.items():
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(f"{_HEADER}{digest(values)}\n{render(args.helm, values)}", encoding="utf-8")
        print(to.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
