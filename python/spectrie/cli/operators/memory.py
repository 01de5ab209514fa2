"""`spectrie memory`: what a running server has learnt, and what drafting gains from it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spectrie.cli.flags.parser import add_command
from spectrie.cli.operators.server import add_server, operate, rows

if TYPE_CHECKING:
    from spectrie.client import NamespaceReport, SnapshotReport, WorkerReport

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the actions and their arguments to `parser`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_command(actions, "list", "list the namespaces that hold learned text")
    forgetting = add_command(actions, "forget", "drop a namespace's text from memory and disk")
    forgetting.add_argument("namespace", metavar="NAMESPACE", help="namespace as in `memory list`")
    add_command(actions, "save", "write learned text to the server's --state-dir now")
    add_command(
        actions, "stats", "show expected and actual acceptance, net gain, and memory in use"
    )
    for action in actions.choices.values():
        add_server(action)


def run(args: argparse.Namespace) -> int:
    """Runs the chosen action; results go to stdout."""
    if args.action == "list":
        return operate(args, lambda client: client.list_namespaces(), _show_namespaces)
    if args.action == "forget":
        return operate(
            args, lambda client: client.forget_namespace(args.namespace), _show_forgotten
        )
    if args.action == "save":
        return operate(args, lambda client: client.save_snapshot(), _show_snapshots)
    return operate(args, lambda client: client.stats(), _show_stats)


def _show_namespaces(namespaces: Sequence[NamespaceReport]) -> None:
    table = [
        (
            one.name,
            f"{one.num_tokens:,} tokens",
            f"{one.bytes / 1e6:,.1f} MB",
            f"{one.accepted_tokens:,} accepted",
            _workers(one.workers),
        )
        for one in namespaces
    ]
    rows(table, "nothing has been learned")


def _show_forgotten(workers: int) -> None:
    print(f"forgotten by {_workers(workers)}", file=sys.stderr)


def _show_snapshots(snapshots: Sequence[SnapshotReport]) -> None:
    table = [
        (
            one.folder,
            f"{one.num_namespaces:,} namespaces",
            f"{one.num_tokens:,} tokens",
            f"{one.bytes / 1e6:,.1f} MB",
            f"{one.written_bytes / 1e6:,.1f} MB written",
            f"worker {one.worker}",
        )
        for one in snapshots
    ]
    rows(table, "nothing was written")


def _show_stats(workers: Sequence[WorkerReport]) -> None:
    for worker in workers:
        print(f"worker {worker.worker} (process {worker.process_id})")
        for title, content in _stats(worker):
            print(f"  {title:<12} {content}")


def _stats(worker: WorkerReport) -> list[tuple[str, str]]:
    dropped = ", ".join(f"{name} {count:,}" for name, count in worker.dropped_by_reason.items())
    lost = f", {worker.lost_corpus_blocks:,} blocks lost" if worker.lost_corpus_blocks else ""
    by_source = ", ".join(f"{name} {count:,}" for name, count in worker.accepted_by_source.items())
    expected = sum(one.expected for one in worker.calibration)
    actual = sum(one.accepted for one in worker.calibration)
    kept = "not measured yet" if not expected else f"{actual / expected:.2f} of expected"
    return [
        ("steps", f"{worker.steps:,}, {worker.generated_tokens:,} tokens"),
        ("drafted", f"{worker.drafted_tokens:,} tokens, {worker.accepted_tokens:,} accepted"),
        ("by source", by_source or "none"),
        ("calibration", kept),
        ("net gain", _gain(worker)),
        (
            "overhead",
            f"drafting {worker.draft_seconds:,.1f} s, learning {worker.learn_seconds:,.1f} s",
        ),
        (
            "memory",
            f"{worker.memory_tokens:,} tokens in {worker.memory_bytes / 1e6:,.1f} MB, "
            f"{worker.evicted_tokens:,} evicted",
        ),
        ("dropped", dropped or "none"),
        ("corpora", f"{worker.corpus_bytes / 1e6:,.1f} MB of files{lost}"),
        ("recycling", "on" if worker.recycling else "off"),
    ]


def _gain(worker: WorkerReport) -> str:
    held_out = f"{worker.holdout_steps:,} steps held out"
    if worker.net_gain is None:
        return f"not enough held-out steps ({held_out})"
    interval = f"{worker.net_gain_low:.2f} to {worker.net_gain_high:.2f}"
    return f"{worker.net_gain:.2f}x (95 %: {interval}; {held_out})"


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"
