"""What verifying several rows costs against one, at a context of 256 tokens."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bench.cpu.lines import Line, cost_line

__all__ = ["Rows", "verify_lines"]

BOUNDS = {8: (1.6, 1.3), 16: (2.2, 1.6)}
"""Floor and goal by rows: times the cost of one row."""
CONTEXT = 256
ROUNDS = 40


def verify_lines(folder: Path, dtype: str, *, threads: int) -> list[Line]:
    """One line for each number of rows, from forwards taken in turn.

    Each round takes the quickest of three forwards of every size, one after the other, so that all
    sizes see the same machine.
    """
    measured = Rows(folder, dtype, threads)
    times: dict[int, list[float]] = {rows: [] for rows in measured.plans}
    for number in range(ROUNDS):
        for rows, best in measured.round().items():
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


class Rows:
    """Forwards of a model over 1, 8 and 16 rows of one request.

    Args:
        folder: The model.
        dtype: `float32` or `bfloat16`.
        threads: Threads of a forward.
    """

    def __init__(self, folder: Path, dtype: str, threads: int) -> None:
        from spectrie.model import load_runner
        from spectrie.model.plan import StepPlan

        self._runner = load_runner(folder, dtype=dtype, threads=threads, num_pages=64)
        page_size = self._runner.page_size
        pages = list(range(-(-(CONTEXT + max(BOUNDS)) // page_size)))
        self.plans = {
            rows: StepPlan.single(
                list(range(5, 5 + rows)),
                kv_len=CONTEXT,
                pages=pages,
                parents=list(range(-1, rows - 1)),
                top_rows=list(range(rows)),
                page_size=page_size,
            )
            for rows in (1, *BOUNDS)
        }

    def round(self) -> dict[int, float]:
        """Seconds of the quickest of three forwards, by rows."""
        best = {}
        for rows, plan in self.plans.items():
            seconds = []
            for _ in range(3):
                began = time.perf_counter()
                self._runner.step(plan)
                seconds.append(time.perf_counter() - began)
            best[rows] = min(seconds)
        return best
