"""Both runs, each in a process of its own, and the table."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import asdict, replace
from typing import Any

from bench.hostile.child import HOSTILE, Options
from bench.hostile.tenants import ANSWER_TOKENS, AT_ONCE, UNREAD_TOKENS
from bench.support import machine, report

__all__ = ["both", "percentile", "run", "table"]

TENANTS, ROUNDS, SECONDS = 200, 2, 120.0
RATIO, MEMORY, GROWTH = 1.2, 1.05, 1.1
"""What the 99th percentiles, draft memory over its budget and the process may grow to."""
_HEADER = ("what", "all behave", "three hostile", "ratio", "limit", "verdict")


def run(model: str, *, threads: int, tenants: int = TENANTS, seconds: float = SECONDS) -> None:
    """Measures both runs and writes `bench/results/hostile/`."""
    calm, hostile = both(
        Options(
            model=model,
            threads=threads,
            tenants=tenants,
            rounds=ROUNDS,
            seconds=seconds,
        )
    )
    facts = machine.facts(threads=threads, dtype=calm["dtype"])
    notes = [
        f"{tenants} tenants through `spectrie.LLM`, each asks {ROUNDS} times for {ANSWER_TOKENS} tokens, evenly over"
        f" {seconds:g} s. Three of them keep up {AT_ONCE} requests each instead: one fills the context at priority"
        " 100, one sends grammars of thousands of states, one never reads answers of"
        f" {UNREAD_TOKENS} tokens; in the run beside it they do as the others. Figures are of the other"
        f" {tenants - HOSTILE}. Times are taken where tokens arrive in the process: {len(calm['first_ms'])}"
        f" first tokens. Key/value cache {calm['kv_bytes'] >> 20} MiB, touched before; draft memory"
        f" {calm['draft_budget'] >> 20} MiB. {sum(hostile['answered'])} requests of the three were answered."
    ]
    data = {"calm": _without_tokens(calm), "hostile": _without_tokens(hostile)}
    rows = [list(row) for row in table(calm, hostile)]
    report.write("hostile/hostile", "Hostile tenants", facts, list(_HEADER), rows, data, notes)


def both(options: Options) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a run says in which all behave, and one in which three do not, each in a process of its own."""
    calm, hostile = (_child(replace(options, hostile=hostile)) for hostile in (False, True))
    return calm, hostile


def table(calm: dict[str, Any], hostile: dict[str, Any]) -> list[tuple[str, ...]]:
    """The rows: tokens, times, memory."""
    pairs = list(zip(calm["tokens"], hostile["tokens"], strict=True))
    differing = sum(one != other for one, other in pairs)
    rows: list[tuple[str, ...]] = [
        ("answers that differ", "", f"{differing} of {len(pairs)}", "", "0", _verdict(differing, 0))
    ]
    for what, key in (("first token", "first_ms"), ("between tokens", "between_ms")):
        for name, part in (("p50", 50), ("p99", 99)):
            before, after = (percentile(one[key], part) for one in (calm, hostile))
            ratio, limit = after / before, f"<= {RATIO:g}" if part == 99 else ""
            verdict = _verdict(ratio, RATIO) if limit else ""
            rows.append(
                (
                    f"{what}, {name}, ms",
                    f"{before:.1f}",
                    f"{after:.1f}",
                    f"{ratio:.2f}",
                    limit,
                    verdict,
                )
            )
    drafts = [one["draft_bytes"] for one in (calm, hostile)]
    over = drafts[1] / hostile["draft_budget"]
    rows.append(
        (
            "draft memory at most, MB; ratio to its budget",
            *(f"{value / 1e6:.1f}" for value in drafts),
            f"{over:.2f}",
            f"<= {MEMORY:g}",
            _verdict(over, MEMORY),
        )
    )
    grown = [one["rest_bytes"] / one["rest_bytes_before"] for one in (calm, hostile)]
    rows.append(
        (
            "resident memory without it, most over start",
            *(f"{value:.3f}" for value in grown),
            "",
            f"<= {GROWTH:g}",
            _verdict(grown[1], GROWTH),
        )
    )
    return rows


def percentile(values: list[float], part: int) -> float:
    """The value that `part` percent of the others do not exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[part - 1]


def _verdict(value: float, limit: float) -> str:
    return "met" if value <= limit else "missed"


def _without_tokens(outcome: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in outcome.items() if name != "tokens"}


def _child(options: Options) -> dict[str, Any]:
    print(f"hostile: {'three hostile' if options.hostile else 'all behave'}", file=sys.stderr)
    command = [sys.executable, "-m", "bench.hostile.child", json.dumps(asdict(options))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcome
