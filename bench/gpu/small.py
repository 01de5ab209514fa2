"""A model's start with few sizes of steps and few costs, for runs without a device: they compute slowly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING
from unittest import mock

if TYPE_CHECKING:
    from spectrie.model.plan import StepPlan
    from spectrie.model.runner.costs import CostTimer

__all__ = ["small_start"]


@contextlib.contextmanager
def small_start(buckets: tuple[int, ...] = (1, 8)) -> Iterator[None]:
    """Models loaded meanwhile record steps of these sizes, check their bits in the smallest steps of each
    kind, and compute each size that they would time once."""
    costs, check = "spectrie.model.runner.costs", "spectrie.model.runner.self_check"
    with (
        mock.patch("spectrie.model.launch.capacity.BUCKETS", buckets),
        mock.patch("spectrie_kernels.attention.arrays._PROGRAMS", 4),
        mock.patch(f"{costs}._GPU_COST_ROWS", (1, 4)),
        mock.patch(f"{costs}.CostTimer._times", _run_once),
        mock.patch(f"{check}._PROMPT", 6),
        mock.patch(f"{check}._PIECES", (5,)),
        mock.patch(f"{check}._COMPANY", (1,)),
    ):
        yield


def _run_once(timer: CostTimer, plans: list[StepPlan], seconds: float) -> list[float]:
    """In place of a measurement: one forward each, a millisecond."""
    for plan in plans:
        timer._time_of(plan)
    return [1.0] * len(plans)
