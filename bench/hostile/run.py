"""Both runs, each in a process of its own, and the table."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from bench.hostile.child import HOSTILE, Options
from bench.hostile.tenants import ANSWER_TOKENS, AT_ONCE, NAMES, UNREAD_TOKENS
from bench.support import machine, report

__all__ = ["both", "note", "percentile", "run", "table"]

TENANTS, ROUNDS, SECONDS = 200, 2, 120.0
LEAST_ANSWERED, LONGEST_WAIT_S = 1, 600.0
"""A prompt of 8k beside the other hostile tenants takes minutes on two cores that others share."""
RATIO, MEMORY, GROWTH = 1.2, 1.05, 1.1
"""What the 99th percentiles, draft memory over its budget and the process may grow to."""
_HEADER = ("what", "all behave", "three hostile", "ratio", "limit", "verdict")


def run(model: str, *, threads: int, tenants: int = TENANTS, seconds: float = SECONDS) -> None:
    """Measures both runs and writes `bench/results/hostile/`."""
    options = Options(
        model=model,
        threads=threads,
        tenants=tenants,
        rounds=ROUNDS,
        seconds=seconds,
        least_answered=LEAST_ANSWERED,
        longest_wait_s=LONGEST_WAIT_S,
    )
    calm, hostile = both(options)
    facts = machine.facts(threads=threads, dtype=calm["dtype"])
    data = {"calm": _without_tokens(calm), "hostile": _without_tokens(hostile)}
    rows = [list(row) for row in table(calm, hostile)]
    notes = [note(options, calm, hostile)]
    report.write("hostile/hostile", "Hostile tenants", facts, list(_HEADER), rows, data, notes)


def note(options: Options, calm: dict[str, Any], hostile: dict[str, Any]) -> str:
    """The sentences under the table: what was asked, and which hostile requests were answered."""
    first, second, third = NAMES
    return (
        f"{options.tenants} tenants through `spectrie.LLM`, each asks {options.rounds} times for {ANSWER_TOKENS}"
        f" tokens, evenly over {options.seconds:g} s. Three of them keep up {AT_ONCE} requests each instead:"
        f" `{first}` fills the context at priority 100, `{second}` sends grammars of thousands of states,"
        f" `{third}` never reads answers of {UNREAD_TOKENS} tokens; in the run beside it they do as the others."
        f" Figures are of the other {options.tenants - HOSTILE}. Times are taken where tokens arrive in the"
        f" process: {len(calm['first_ms'])} first tokens. Key/value cache {calm['kv_bytes'] >> 20} MiB, touched"
        f" before; draft memory {calm['draft_budget'] >> 20} MiB. {_answered(options, hostile)}"
    )


def _answered(options: Options, hostile: dict[str, Any]) -> str:
    """Which hostile requests were answered, and what the run waited for."""
    meanwhile, answered, errors = (
        hostile[key] for key in ("answered_meanwhile", "answered", "errors")
    )
    least = options.least_answered
    text = (
        "Hostile requests answered until the last answer of the others:"
        f" {_counts(meanwhile, meanwhile)}."
    )
    if _short(meanwhile, least):
        text += (
            f" The hostile run, and its look at memory, went on for {hostile['waited_s']:.0f} s, until each"
            f" should have {least}: {_counts(answered, answered)}."
        )
    if short := _short(answered, least):
        end = "when requests failed" if errors else f"at its bound of {options.longest_wait_s:g} s"
        text += f" It ended {end}, without enough answers: {_counts(answered, short)}."
    if errors:
        text += f" Hostile requests that failed: {len(errors)}, the first with: {errors[0]}."
    return text


def _short(answered: dict[str, int], least: int) -> list[str]:
    """The hostile tenants with fewer answers."""
    return [name for name, count in answered.items() if count < least]


def _counts(answered: dict[str, int], names: Iterable[str]) -> str:
    return ", ".join(f"{answered[name]} of `{name}`" for name in names)


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
