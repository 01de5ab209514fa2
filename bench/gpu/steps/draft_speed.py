"""What heads beside a model take: their levels by rows, and their upkeep in every step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.gpu.check import Item, Settings
from bench.gpu.models.random_head import write_random_block, write_random_head
from bench.gpu.models.shapes import ModelShape
from bench.gpu.steps.levels_behind import levels_behind_steps
from bench.gpu.steps.loaded import (
    WriteHead,
    dry_options,
    folder_of,
    head_of,
    measured_models,
    on_device,
)
from spectrie.model import load_runner

__all__ = ["block_items", "items"]


def items(settings: Settings) -> Iterator[Item]:
    """One item for each arithmetic, of the largest model and an EAGLE-3 head; weights are drawn, so nothing is said of
    what is accepted."""
    yield from _of_head(settings, "levels", write_random_head)


def block_items(settings: Settings) -> Iterator[Item]:
    """The same of a DFLASH head, whose first level is a block of 16 rows that answers 15 levels."""
    yield from _of_head(settings, "blocks", write_random_block)


def _of_head(settings: Settings, what: str, write: WriteHead) -> Iterator[Item]:
    with on_device(settings):
        model = measured_models(settings)[0]
        for arithmetic in ("exact", "fast"):
            run = partial(_levels, settings, model, arithmetic, what, write)
            yield Item(f"{model.name} {arithmetic}: {what}", run)


def _levels(
    settings: Settings, model: ModelShape, arithmetic: str, what: str, write: WriteHead
) -> dict[str, Any]:
    runner = load_runner(
        folder_of(settings, model),
        device="cuda",
        # Falls to fast where the device is not exact, so that the rest can be measured all the same.
        gpu_arithmetic="auto" if arithmetic == "exact" else arithmetic,
        drafter=head_of(settings, model, what, write),
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
            **levels_behind_steps(runner),
        }
    finally:
        runner.close()


def _by_rows(rows: list[int], times_ms: list[float]) -> dict[str, float]:
    return {str(count): round(1e3 * ms, 2) for count, ms in zip(rows, times_ms, strict=True)}
