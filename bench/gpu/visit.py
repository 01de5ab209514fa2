"""Runs one stage of measurements on a machine with a GPU: `python -m bench.gpu.visit STAGE [--dry]`.

Also runs as a file. Writes `gpu-<device>.json` after each result, and ends with a list of all faults.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATHS = [str(ROOT), str(ROOT / "python"), str(ROOT / "kernels")]
if __name__ == "__main__":
    # As a file, its own folder comes first, and nothing of ours is found.
    sys.path[:0] = [path for path in PATHS if path not in sys.path]

from bench.gpu.check import Check, Settings  # noqa: E402
from bench.gpu.running.record import Record  # noqa: E402
from bench.gpu.running.supervisor import Supervisor  # noqa: E402
from bench.gpu.stages import REQUIREMENTS, STAGES, Stage  # noqa: E402

__all__ = ["lacking", "main"]

_DRY_SLACK = 10
"""How much longer a dry run may take: its machine may be slow and busy."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a stage; returns 1 if there are faults."""
    args = _parser().parse_args(arguments)
    stage = STAGES[args.stage]
    out = args.out or ROOT / "bench" / "results" / ("local" if args.dry else "")
    device = "dry" if args.dry else _device_name()
    record = Record(out, device, args.stage, args.commit or _commit())
    with tempfile.TemporaryDirectory(prefix="spectrie-visit-") as scratch:
        model = args.model or _stored_model()
        settings = Settings(
            dry=args.dry,
            scratch=scratch,
            model=None if model is None else str(model),
            tests=tuple(str(path.resolve()) for path in args.tests),
            results=str(out.resolve()),
        )
        _run(stage, settings, record)
    _report(record)
    if args.dry:
        print("dry: no device, so nothing above is a measurement")
    return 1 if record.faults else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.visit", description=__doc__)
    about = "; ".join(f"{name}: {stage.about}" for name, stage in STAGES.items())
    parser.add_argument("stage", choices=STAGES, metavar="STAGE", help=about)
    parser.add_argument(
        "--dry", action="store_true", help="without a device: interpreter, tiny shapes, fake clock"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="folder of the result file [bench/results; with --dry bench/results/local]",
    )
    parser.add_argument(
        "--model", type=Path, metavar="PATH", help="the small real model [the stored SmolLM2-135M]"
    )
    parser.add_argument("--commit", help="what is measured, where git does not know")
    parser.add_argument(
        "--tests",
        type=Path,
        nargs="+",
        metavar="PATH",
        default=[ROOT / "kernels" / "tests", ROOT / "tests"],
        help="files and folders with tests marked gpu [kernels/tests, tests]",
    )
    return parser


def _run(stage: Stage, settings: Settings, record: Record) -> None:
    missing = lacking(REQUIREMENTS)
    for module in REQUIREMENTS:
        if module in missing:
            record.add("requirements", module, "fault", error=f"the machine has no {module}")
        else:
            record.add("requirements", module, "ok")
    slack = _DRY_SLACK if settings.dry else 1
    ends = time.monotonic() + slack * stage.limit_s
    with Supervisor(settings, record, PATHS, slack * stage.item_limit_s) as supervisor:
        for check in stage.checks:
            reason = _reason_to_skip(check, missing, ends)
            if reason is None:
                supervisor.run(check, ends)
            else:
                record.add(check.name, "all", "skipped", error=reason)


def _reason_to_skip(check: Check, missing: set[str], ends: float) -> str | None:
    needed = [module for module in check.needs if module in missing]
    if needed:
        return f"needs {', '.join(needed)}"
    if time.monotonic() > ends:
        return "the stage's time is over"
    return None


def lacking(modules: Sequence[str]) -> set[str]:
    """Those of `modules` that cannot be found; imports none of them, only packages around them."""
    found = set()
    for module in modules:
        try:
            if importlib.util.find_spec(module) is not None:
                found.add(module)
        except (ImportError, ValueError):
            continue
    return set(modules) - found


def _report(record: Record) -> None:
    counts = dict.fromkeys(("ok", "fault", "skipped"), 0)
    for row in record.rows:
        counts[row["state"]] += 1
    print(", ".join(f"{count} {state}" for state, count in counts.items()), f"in {record.path}")
    for row in record.rows:
        if row["state"] != "ok":
            print(f"\n{row['state']}: {row['check']}: {row['name']}\n{row['error']}")


def _device_name() -> str:
    """The first GPU's name, found without importing anything."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.partition("\n")[0].strip()


def _commit() -> str | None:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True
        )
    except OSError:
        return None
    return done.stdout.strip() or None


def _stored_model() -> Path | None:
    base = os.environ.get("SPECTRIE_CACHE") or Path.home() / ".cache" / "spectrie"
    folder = Path(base) / "models" / "smollm2-135m"
    return folder if (folder / "config.json").is_file() else None


if __name__ == "__main__":
    sys.exit(main())
