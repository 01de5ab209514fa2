"""All figures of serving that need no model, and the one that does, as one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.router import crowds, load, pauses, probes
from bench.router.rows import HEADER
from bench.support import machine, report

__all__ = ["run"]

_NOTE = (
    "One router with one thread. Time added to a token: from the worker's call of gRPC to the client's, both hops, nothing"
    " subtracted, tokens one by one and evenly over time. Through one core: each token in a message of its own, 64 streams."
    " Pauses: 8 streams, a token every 5 ms. Overload: open loop; what comes within 2 s counts."
    " Floods: from a process of lowest priority."
)


def run(model: str) -> None:
    """Measures and writes `bench/results/serving/serving.*`."""
    from spectrie.model import resolve

    folder: Path = resolve(model).folder
    facts = machine.facts()
    data: dict[str, Any] = {}
    rows, data["load"] = load.measure(folder)
    more, data["pauses"], missing = pauses.measure(folder, model)
    rows += more
    more, data["crowds"] = crowds.measure(folder)
    rows += more
    more, data["probes"] = probes.measure(folder)
    rows += more
    cells = [row.cells() for row in rows]
    notes = [" ".join([_NOTE, *missing])]
    command = "python -m bench serving"
    report.write("serving/serving", "Serving", facts, HEADER, cells, data, notes, command=command)
