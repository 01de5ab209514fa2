"""Writes what was replayed: the held figures, every contender, the figure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.draft.conditions import CONDITIONS
from bench.draft.figure import draw
from bench.draft.numbers import accepted_of_drafted, numbers
from bench.draft.run import OURS, OURS_PLAIN, Results, run_all
from bench.support import machine, report
from spectrie.printing.markdown import render_table

__all__ = ["beside", "everything", "run"]

_ROOT = Path(__file__).resolve().parents[2]
_HEADER = [
    *("", "floor", "goal", "value", "ours", "best rival"),
    *("text alone, at the rival's drafted", "verdict"),
]
_RENAMED = {"spectrie, nothing of the model's": OURS_PLAIN}
"""Names of drafters in earlier results."""
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
        " `text only` and `text alone` leave out both. `at the rival's drafted` reads our curve over"
        " the price where we draft as many tokens as the best rival does that drafts from text, and"
        " says ours to the rival's. Times of rivals include the call from"
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


def beside(before: Path) -> None:
    """Writes `bench/results/draft/before.md`: every replay of an earlier `draft.json` beside the last one's."""
    files = (before, report.RESULTS / "draft/draft.json")
    earlier, later = (json.loads(path.read_text(encoding="utf-8")) for path in files)
    rows = []
    for condition in CONDITIONS:
        for trace in condition.traces:
            now = later["results"]["replays"][condition.name][trace]
            then = earlier["results"]["replays"].get(condition.name, {}).get(trace, {})
            then = {_RENAMED.get(name, name): one for name, one in then.items()}
            rows += [
                [f"{trace}: {condition.title}", name, _counts(then.get(name)), _counts(one)]
                for name, one in now.items()
                if "absent" not in one and name in then | {OURS: one, OURS_PLAIN: one}
            ]
    text = [
        "# Drafts before and after",
        "",
        f"Accepted of drafted tokens per step. Before: commit {earlier['machine']['commit']}, whose"
        f" `{OURS}` recycled what the model answered inside of prompts, which never shipped. After:"
        f" commit {later['machine']['commit']}. Nothing stands where a replay is new.",
        "",
        render_table(["trace", "drafter", "before", "after"], rows),
        "",
    ]
    (report.RESULTS / "draft/before.md").write_text("\n".join(text), encoding="utf-8")


def _counts(one: dict[str, Any] | None) -> str:
    return "" if one is None or "absent" in one else accepted_of_drafted(one)


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
