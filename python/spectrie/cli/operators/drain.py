"""`spectrie drain`: takes workers of a running server out of service, one or all in turn."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spectrie.cli.flags import values
from spectrie.cli.flags.arguments import add_value, read_value
from spectrie.cli.operators.server import add_server, operate, rows
from spectrie.errors import ConfigError, SpectrieError

if TYPE_CHECKING:
    from spectrie.client import AdminClient, LoadReport

__all__ = ["configure", "run"]

GRACE_S = 10.0
SUCCESSOR_S = 600.0
POLL_S = 0.2

_EPILOG = """\
A worker that drains gets no new requests, finishes what it runs, and ends. What still runs after the
grace goes on at another worker, with the same tokens. `spectrie serve` starts a fresh worker in its
place; elsewhere whatever started it does. Without WORKER and --all the workers are listed.

examples:
  spectrie drain
  spectrie drain w1 --grace 30s
  spectrie drain --all
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "worker", metavar="WORKER", nargs="?", help="name or process id, as `spectrie drain` lists"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="drain all workers, each once the one before has a successor [off]",
    )
    add_value(parser, "grace", values.duration, "10s", "time for running requests to finish")
    add_value(
        parser, "successor_timeout", values.duration, "10m", "time for each successor to come"
    )
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    """Drains what is asked for, or lists the workers; returns the exit code."""
    if args.all and args.worker is not None:
        raise ConfigError("give WORKER or --all")
    grace_s = read_value(args, "grace", values.duration.parse, GRACE_S)
    if args.all:
        limit_s = read_value(args, "successor_timeout", values.duration.parse, SUCCESSOR_S)
        return operate(args, lambda client: _roll(client, grace_s, limit_s), lambda _: None)
    if args.worker is not None:
        return operate(args, lambda client: _drain(client, args.worker, grace_s), lambda _: None)
    return operate(args, lambda client: client.loads(), _show_loads)


def _roll(client: AdminClient, grace_s: float, limit_s: float) -> None:
    """Drains the workers that are there now, in turn.

    Raises:
        SpectrieError: A successor did not come in time; the others were left as they are.
    """
    for worker in client.loads():
        before = _num_ready(client, worker.model)
        _drain(client, worker.worker, grace_s)
        deadline_s = time.monotonic() + limit_s
        while _num_ready(client, worker.model) < before:
            if time.monotonic() > deadline_s:
                message = f"no worker came in the place of {worker.worker} within {limit_s:g} s"
                raise SpectrieError(f"{message}; the others were not drained")
            time.sleep(POLL_S)


def _num_ready(client: AdminClient, model: str) -> int:
    return sum(one.model == model and not one.is_draining for one in client.loads())


def _drain(client: AdminClient, worker: str, grace_s: float) -> None:
    report = client.drain(worker, grace_s=grace_s)
    handed_over = f", {report.handed_over} completions handed over" if report.handed_over else ""
    print(f"{report.worker} drained{handed_over}", file=sys.stderr)


def _show_loads(workers: Sequence[LoadReport]) -> None:
    table = [
        (
            one.worker,
            f"process {one.process_id}",
            one.model,
            f"{one.choices:,} of {one.max_running:,} running",
            f"{one.waiting:,} waiting",
            f"{one.pages_used:,} of {one.pages_total:,} pages",
            f"{one.steps:,} steps",
            "drains" if one.is_draining else "ready",
        )
        for one in workers
    ]
    rows(table, "no worker is ready")
