"""`spectrie doctor`: checks this machine and reports what is missing."""

from __future__ import annotations

import argparse
import dataclasses
import json

from spectrie.cli.console.terminal import Painter
from spectrie.cli.doctor.check import Asked, Check
from spectrie.cli.doctor.checks import run_checks
from spectrie.cli.flags.options import add_config, add_option, option
from spectrie.cli.flags.settings import resolve

__all__ = ["configure", "run"]

_OF_SERVERS = ("device", "http", "grpc", "state_dir")
"""Options of a server for which the machine is checked; variables set them here, too."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        default="smollm2-135m",
        help="model to look for [smollm2-135m]",
    )
    for key in _OF_SERVERS:
        add_option(parser, option(key))
    parser.add_argument(
        "--drafter",
        action="append",
        metavar="PATH",
        help="drafter to load beside the model and to measure, as of serve; auto: what it finds; repeat for several [none]",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Prints one line per check, or one JSON object; 1 when something must be mended first."""
    settings = resolve("serve", args)
    chosen = {key: settings[key] for key in _OF_SERVERS}
    checks = []
    for check in run_checks(Asked(model=args.model, drafters=args.drafter, **chosen)):
        checks.append(check)
        if not args.json:
            _show(check)
    failed = any(check.state == "fail" for check in checks)
    if args.json:
        found = [dataclasses.asdict(check) for check in checks]
        print(json.dumps({"ok": not failed, "checks": found}))
    return 1 if failed else 0


def _show(check: Check) -> None:
    painter = Painter()
    mark = {"ok": "ok  ", "note": "note", "fail": "FAIL"}[check.state]
    shown = painter.bold(mark) if check.state == "fail" else mark
    print(f"{shown}  {check.name:<11} {check.text}", flush=True)
