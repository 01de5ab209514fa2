"""What a device is expected to reach, beside what it reached: data, never a check.

Shares are of what the device copies or multiplies a second, which each visit measures first, so that
they hold for every device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["GOALS", "Goal", "beside", "share_of_copy", "share_of_matrix"]


@dataclass(frozen=True, slots=True)
class Goal:
    """The least that is wanted of a number, and what is aimed at; where `floor` is above `goal`, less
    is better."""

    floor: float
    goal: float


GOALS = {
    "decode weight bytes, share of copy": Goal(0.70, 0.82),
    "rows 8 over 1": Goal(1.05, 1.02),
    "rows 16 over 1": Goal(1.08, 1.04),
    "rows 32 over 1": Goal(1.15, 1.08),
    "rows 64 over 1": Goal(1.3, 1.15),
    "exact over fast, to 64 rows": Goal(1.08, 1.03),
    "exact over fast, more rows": Goal(1.3, 1.12),
    "attention 1 x 8k, microseconds": Goal(26.0, 19.0),
    "attention 1 x 32k, share of copy": Goal(0.60, 0.75),
    "attention 32 x 4k, share of copy": Goal(0.75, 0.88),
    "attention 16 nodes over 1": Goal(1.25, 1.1),
    "torch's best over attention": Goal(1.0, 1.3),
    "prefill, share of matrix": Goal(0.45, 0.60),
    "host gap of 1 request, microseconds": Goal(100.0, 40.0),
    "host gap of 64 requests, microseconds": Goal(300.0, 150.0),
    "start, seconds": Goal(40.0, 15.0),
    "start with nothing compiled, seconds": Goal(120.0, 120.0),
    "graph memory, bytes": Goal(2e9, 1e9),
    "bytes to the host a row": Goal(128.0, 72.0),
    "routing, 1 at a time": Goal(2.61, 4.0),
    "routing, 2 at a time": Goal(2.21, 3.5),
    "routing, 3 at a time": Goal(1.92, 3.0),
    "routing, 4 at a time": Goal(1.81, 2.7),
    "HumanEval, 1 at a time": Goal(1.62, 2.1),
    "HumanEval, 2 at a time": Goal(1.54, 1.9),
    "HumanEval, 3 at a time": Goal(1.32, 1.7),
    "HumanEval, 4 at a time": Goal(1.16, 1.5),
    "many at a time, on over off": Goal(0.98, 1.0),
}


def beside(name: str, value: float | None) -> dict[str, Any]:
    """A number with its floor and goal, and whether it reaches the floor; None where unknown."""
    goal = GOALS[name]
    less = goal.floor > goal.goal
    reached = None if value is None else value <= goal.floor if less else value >= goal.floor
    return {
        "of": name,
        "value": None if value is None else round(value, 4),
        "floor": goal.floor,
        "goal": goal.goal,
        "reached": reached,
    }


def share_of_copy(num_bytes: float, microseconds: float, device: Any) -> float | None:
    """Bytes moved in a time, as a share of what the device copies; None where that is not known."""
    return _share(num_bytes, microseconds, device.get("copy_bytes_per_second"))


def share_of_matrix(operations: float, microseconds: float, device: Any) -> float | None:
    """Multiplications and additions in a time, as a share of the device's matrix rate."""
    return _share(operations, microseconds, device.get("matrix_flops_per_second"))


def _share(amount: float, microseconds: float, per_second: float | None) -> float | None:
    if not per_second or not microseconds:
        return None
    return round(amount / (microseconds * 1e-6) / per_second, 4)
