"""Result files: JSON for machines, Markdown for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "where", "write"]

RESULTS = Path(__file__).resolve().parents[1] / "results"


def write(
    name: str,
    title: str,
    machine: dict[str, Any],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    data: Any,
    notes: Sequence[str] = (),
    *,
    command: str | None = None,
) -> None:
    """Prints the table and writes `bench/results/<name>.json` and `.md`.

    Args:
        name: Name of the bench and of its files.
        title: Heading of the table.
        machine: From `bench.support.machine.facts`.
        header: Column names.
        rows: Cells, as text.
        data: Everything measured, for the JSON file.
        notes: Sentences under the table.
        command: What took it; by default `python -m bench` with the name.
    """
    # Not above: older builds that are compared lack it.
    from spectrie.printing.markdown import render_table

    (RESULTS / name).parent.mkdir(parents=True, exist_ok=True)
    command = command or f"python -m bench {name.partition('/')[0]}"
    lines = [f"### {title}", "", render_table(header, rows), "", *notes]
    lines.append(f"{where(machine)}; `{command}`.")
    text = "\n".join(lines) + "\n"
    print(f"\n{text}")
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    content = {"command": command, "machine": machine, "results": data}
    (RESULTS / f"{name}.json").write_text(
        json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )


def where(machine: dict[str, Any]) -> str:
    """The machine and the commit, from `bench.support.machine.facts`, as a table's last line has them."""
    changed = " with uncommitted changes" if machine["uncommitted_changes"] else ""
    return (
        f"{machine['cpu']} ({machine['cpu_model']}), {machine['cores']} cores,"
        f" torch {machine['torch']}, commit {machine['commit']}{changed}, {machine['date']}"
    )
