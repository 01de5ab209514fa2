"""The report of a replay as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectrie.printing.markdown import render_table

__all__ = ["render_report"]

# Fewer trials say little about a probability.
_FEW_TRIALS = 100


def render_report(report: Mapping[str, Any]) -> str:
    """Tables of counts, sources, calibration and projected speed-ups, and how to read them."""
    parts = [_summary(report), _sources(report), _calibration(report), _speedups(report)]
    return "\n\n".join(part for part in parts if part)


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:,.1f} MiB"


def _summary(report: Mapping[str, Any]) -> str:
    rate = report["insert_tokens_per_second"]
    drafted = report["accepted_per_drafted"]
    rows = [
        ["requests", f"{report['requests']:,}"],
        ["output tokens", f"{report['output_tokens']:,}"],
        ["forwards of the model (steps)", f"{report['steps']:,}"],
        ["tokens per step (1 = no speculation)", _number(report["tokens_per_step"])],
        ["draft tokens accepted per step", _number(report["accepted_per_step"])],
        ["draft tokens verified per step", _number(report["drafted_per_step"])],
        ["share of drafted tokens accepted", "-" if drafted is None else f"{drafted:.0%}"],
        ["time to draft, median, us", _number(report["draft_us_p50"], 1)],
        ["time to draft, 99 %, us", _number(report["draft_us_p99"], 1)],
        ["time to learn from a step, median, us", _number(report["update_us_p50"], 1)],
        ["memory at the end", _size(report["memory_bytes"])],
        ["tokens in it", f"{report['memory_tokens']:,}"],
        ["tokens evicted from memory", f"{report['evicted_tokens']:,}"],
        ["bytes per token", _number(report["bytes_per_token"], 1)],
        ["tokens inserted per second", "-" if rate is None else f"{rate:,.0f}"],
    ]
    if report["head_levels"]:
        levels = report["head_levels"] / report["steps"]
        rows.append(["levels asked of the head per step", _number(levels)])
        rows.append(["nodes asked about per step", _number(report["head_rows"] / report["steps"])])
    if report["skipped_lines"]:
        rows.append(["invalid lines skipped", f"{report['skipped_lines']:,}"])
    return render_table(["replay", ""], rows)


def _sources(report: Mapping[str, Any]) -> str:
    accepted = report["accepted_tokens"]
    if not accepted:
        return "No draft token was accepted: this text repeats nothing that drafts can know."
    rows = [
        [source, f"{count:,}", f"{count / accepted:.0%}"]
        for source, count in report["accepted_by_source"].items()
        if count
    ]
    return render_table(["accepted from", "tokens", "share"], rows)


def _calibration(report: Mapping[str, Any]) -> str:
    bins = [
        (f"{int(bin['from'] * 100)}-{int(bin['to'] * 100)} %", bin)
        for bin in report["calibration"]
        if bin["trials"]
    ]
    if not bins:
        return ""
    bins.append(("all", report["calibration_overall"]))
    rows = []
    for label, bin in bins:
        trials, expected, actual = bin["trials"], bin["expected"], bin["actual"]
        ratio = f"{actual / expected:.2f}" if expected and trials >= _FEW_TRIALS else "-"
        shares = [f"{expected / trials:.1%}", f"{actual / trials:.1%}"]
        rows.append([label, f"{trials:,}", *shares, ratio])
    header = ["expected acceptance", "draft tokens", "expected", "actual", "actual / expected"]
    return render_table(header, rows)


def _speedups(report: Mapping[str, Any]) -> str:
    rows = []
    for projected in report["projected_speedup"]:
        budgeted = projected["budgeted"] or {"speedup": None, "drafted_per_step": None}
        speedups = [projected["speedup"], budgeted["speedup"]]
        shown = ["-" if speedup is None else f"{speedup:.2f}x" for speedup in speedups]
        rows.append([projected["curve"], *shown, _number(budgeted["drafted_per_step"], 1)])
    header = ["cost of a forward by its rows", "speed, as above"]
    return render_table([*header, "drafting what pays", "drafted per step"], rows)
