"""The six rows that README shows, taken from the result files."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from bench.support.pairs import shown_interval

__all__ = ["HEADER", "rows"]

HEADER = ("what", "rival", "ours", "ratio (95 %)")
_CPU = (
    ("plain decode, one request, bfloat16", "plain decode, batch 1, bfloat16", "transformers"),
    (
        "edits against llama.cpp (Q4_1, plain)",
        "edits against llama.cpp plain, ours bfloat16",
        "llama.cpp",
    ),
)
_SPECULATION = (
    ("edits with a prediction, speculation on", "edit"),
    ("code with a corpus, speculation on", "code"),
    ("chat, speculation on", "chat"),
)
_ROUTER = "time between tokens, through the router (p50)"


def rows(results: Path) -> list[list[str]]:
    """The rows whose figures were measured, in the order of the page.

    Args:
        results: Folder of the result files.
    """
    cpu, speculation = _read(results, "cpu"), _read(results, "speculation")
    (decode, llama) = (_rates(what, cpu.get(key), rival) for what, key, rival in _CPU)
    drafted = [
        _rates(what, speculation.get(kind, {}).get("spectrie"), "off")
        for what, kind in _SPECULATION
    ]
    router = _router(_read(results, "router"))
    return [row for row in (decode, *drafted, llama, router) if row is not None]


def _read(results: Path, name: str) -> dict[str, Any]:
    file = results / f"{name}.json"
    if not file.exists():
        return {}
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["results"]
    return content


def _rates(what: str, measured: dict[str, Any] | None, rival: str) -> list[str] | None:
    if measured is None:
        return None
    low, high = measured["ratio_low"], measured["ratio_high"]
    return [
        what,
        f"{measured['base_median']:.1f} tok/s {rival}",
        f"{measured['ours_median']:.1f} tok/s",
        f"{measured['ratio']:.2f}x ({shown_interval(low, high, measured['ratio'])})",
    ]


def _router(measured: dict[str, Any]) -> list[str] | None:
    if not measured:
        return None
    direct, routed = (
        statistics.median(value for stream in measured["latencies_us"][way] for value in stream)
        for way in ("direct", "routed")
    )
    low, high = measured["low_us"], measured["high_us"]
    return [
        _ROUTER,
        f"{direct:.0f} us direct",
        f"{routed:.0f} us",
        f"+{measured['added_us']:.0f} us ({shown_interval(low, high, measured['added_us'], 0)})",
    ]
