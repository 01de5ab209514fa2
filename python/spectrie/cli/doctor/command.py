"""`spectrie doctor`: checks this machine and reports what is missing."""

from __future__ import annotations

import argparse

from spectrie.cli.console.terminal import Painter
from spectrie.cli.doctor.checks import run_checks
from spectrie.cli.flags.arguments import Once

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        default="smollm2-135m",
        help="model to look for [smollm2-135m]",
    )
    parser.add_argument(
        "--drafter",
        action=Once,
        metavar="PATH",
        help="drafter to load beside the model and to measure, as of serve; auto: what it finds [none]",
    )


def run(args: argparse.Namespace) -> int:
    """Prints one line per check; 1 when something must be mended first."""
    painter = Painter()
    failed = False
    for check in run_checks(args.model, args.drafter):
        failed |= check.state == "fail"
        mark = {"ok": "ok  ", "note": "note", "fail": "FAIL"}[check.state]
        shown = painter.bold(mark) if check.state == "fail" else mark
        print(f"{shown}  {check.name:<11} {check.text}", flush=True)
    return 1 if failed else 0
