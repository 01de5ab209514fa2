"""Writes what was replayed: the held figures, every contender, the figure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.draft.conditions import CONDITIONS
from bench.draft.figure import draw
from bench.draft.numbers import numbers
from bench.draft.run import Results, run_all
from bench.support import machine, report
from spectrie.printing.markdown import render_table

__all__ = ["everything", "run"]

_ROOT = Path(__file__).resolve().parents[2]
_HEADER = ["", "floor", "goal", "value", "ours", "best rival", "verdict"]
_COLUMNS = (
    ("accepted/step", "accepted_per_step", 3),
    ("drafted/step", "drafted_per_step", 2),
    ("accepted/drafted", "accepted_per_drafted", 3),
    ("draft us p50", "draft_us_p50", 1),
    ("p99", "draft_us_p99", 1),
    ("empty call", "empty_call_us", 2),
    ("update us p50", "update_us_p50", 1),
    ("insert tok/s", "insert_tokens_per_second", 0),
    ("bytes/token", "bytes_per_token", 1),
)


def run(model: str) -> None:
    """Replays every contender and writes `bench/results/draft/`."""
    results = run_all(Path(model) / "tokenizer.json")
    memory = _memory()
    lines = numbers(results, memory)
    facts = machine.facts()
    notes = [
        "Accepted of drafted tokens per step at 16 draft nodes at most, teacher-forced on frozen traces"
        " (`bench/draft/traces`), with the options that ship: where the model answered, its top-8 is"
        " recycled after the tokens of the answer, and what it says after one token alone is known."
        " `text only` leaves out both, `at the best rival's drafted` reads our curve over the price"
        " where we draft as many tokens as the rival does. Times of rivals include the call from"
        " Python."
        " Every contender: [all.md](all.md).",
        "",
        "![accepted over drafted tokens](curve.svg)",
        "",
    ]
    report.write(
        "draft/draft",
        "Drafting beside other drafters",
        facts,
        _HEADER,
        [line.cells() for line in lines],
        {"replays": results, "memory": memory},
        notes,
    )
    draw(results, report.RESULTS / "draft/curve.svg")
    (report.RESULTS / "draft/all.md").write_text(everything(results, facts), encoding="utf-8")


def everything(results: Results, facts: dict[str, Any]) -> str:
    """Every contender in every condition, and who was absent, as Markdown."""
    parts = ["# Every drafter that was replayed", ""]
    parts += [
        f"{facts['cpu']} ({facts['cpu_model']}), {facts['cores']} cores,"
        f" commit {facts['commit']}, {facts['date']}; `python -m bench draft`. Times of rivals"
        " include the call from Python, whose empty form is shown; ours are taken inside.",
        "",
    ]
    absent: dict[str, str] = {}
    for condition in CONDITIONS:
        for trace in condition.traces:
            reports = results[condition.name][trace]
            rows = []
            for name, one in reports.items():
                if "absent" in one:
                    absent[name] = one["absent"]
                else:
                    rows.append(
                        [name, *(_cell(one.get(key), digits) for _, key, digits in _COLUMNS)]
                    )
            header = ["drafter", *(title for title, _, _ in _COLUMNS)]
            parts += [f"## {trace}: {condition.title}", "", render_table(header, rows), ""]
    parts += [f"Absent somewhere: {name} ({why})." for name, why in sorted(absent.items())]
    return "\n".join(parts).rstrip() + "\n"


def _cell(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _memory() -> dict[str, float]:
    """Figures of the shared memory, from the bench of spectrie-trie; empty if cargo is absent."""
    print("memory: teaching, snapshots, readers beside writers", file=sys.stderr, flush=True)
    command = ["cargo", "bench", "--locked", "--quiet", "-p", "spectrie-trie"]
    command += ["--bench", "memory", "--", "--json"]
    try:
        done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"  not measured: {error}", file=sys.stderr)
        return {}
    figures: dict[str, float] = json.loads(done.stdout)
    return figures
