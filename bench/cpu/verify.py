"""What verifying several rows costs against one, at a context of 256 tokens."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bench.cpu.lines import Line, cost_line

__all__ = ["verify_lines"]

BOUNDS = {8: (1.6, 1.3), 16: (2.2, 1.6)}
"""Floor and goal by rows: times the cost of one row."""
CONTEXT = 256
ROUNDS = 40


def verify_lines(folder: Path, dtype: str, *, threads: int) -> list[Line]:
    """One line for each number of rows, from forwards taken in turn.

    Each round takes the quickest of three forwards of every size, one after the other, so that all
    sizes see the same machine.
    """
    from spectrie.model import load_runner
    from spectrie.model.plan import StepPlan

    runner = load_runner(folder, dtype=dtype, threads=threads, num_pages=64)
    pages = list(range(-(-(CONTEXT + max(BOUNDS)) // runner.page_size)))

    def plan(rows: int) -> StepPlan:
        return StepPlan.single(
            list(range(5, 5 + rows)),
            kv_len=CONTEXT,
            pages=pages,
            parents=list(range(-1, rows - 1)),
            top_rows=list(range(rows)),
            page_size=runner.page_size,
        )

    plans = {rows: plan(rows) for rows in (1, *BOUNDS)}
    times: dict[int, list[float]] = {rows: [] for rows in plans}
    for number in range(ROUNDS):
        for rows, one in plans.items():
            best = float("inf")
            for _ in range(3):
                began = time.perf_counter()
                runner.step(one)
                best = min(best, time.perf_counter() - began)
            times[rows].append(best * 1e3)
        if number % 10 == 9:
            print(f"  verify {dtype}: round {number + 1}/{ROUNDS}", file=sys.stderr, flush=True)
    return [
        cost_line(
            f"cost of {rows} rows against 1, {dtype}",
            times[1],
            times[rows],
            floor=floor,
            goal=goal,
        )
        for rows, (floor, goal) in BOUNDS.items()
    ]
