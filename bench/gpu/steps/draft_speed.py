"""What a head beside a model takes: its levels by rows, and its upkeep in every step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.gpu.check import Item, Settings
from bench.gpu.models.random_head import write_random_head
from bench.gpu.models.shapes import ModelShape
from bench.gpu.steps.loaded import dry_options, folder_of, measured_models, on_device
from spectrie.model import load_runner

__all__ = ["items"]


def items(settings: Settings) -> Iterator[Item]:
    """One item for each arithmetic, of the largest model; weights are drawn, so nothing is said of what is
    accepted."""
    with on_device(settings):
        model = measured_models(settings)[0]
        for arithmetic in ("exact", "fast"):
            run = partial(_levels, settings, model, arithmetic)
            yield Item(f"{model.name} {arithmetic}: levels", run)


def _levels(settings: Settings, model: ModelShape, arithmetic: str) -> dict[str, Any]:
    head = Path(settings.scratch) / f"{model.name}-head"
    if not head.exists():
        write_random_head(head, model, dtype=torch.float32 if settings.dry else torch.bfloat16)
    runner = load_runner(
        folder_of(settings, model),
        device="cuda",
        # Falls to fast where the device is not exact, so that the rest can be measured all the same.
        gpu_arithmetic="auto" if arithmetic == "exact" else arithmetic,
        drafter=head,
        **dry_options(settings),
    )
    try:
        runner.warm_up()
        info = runner.drafter
        assert info is not None
        rows, times = runner.measure_costs()
        costs = info.costs
        return {
            "exact": runner.exact,
            "weight_bytes": info.num_bytes,
            "step_microseconds": round(1e3 * times[rows.index(1)], 2),
            "first_level_microseconds": _by_rows(costs.rows, costs.first_ms),
            "later_level_microseconds": _by_rows(costs.rows, costs.later_ms),
            "upkeep_microseconds": round(1e3 * costs.upkeep_ms, 2),
        }
    finally:
        runner.close()


def _by_rows(rows: list[int], times_ms: list[float]) -> dict[str, float]:
    return {str(count): round(1e3 * ms, 2) for count, ms in zip(rows, times_ms, strict=True)}
