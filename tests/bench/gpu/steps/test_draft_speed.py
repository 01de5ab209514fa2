"""Levels of heads with drawn weights: what is measured of either arithmetic without a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.gpu.check import Item, Settings
from bench.gpu.steps.draft_speed import block_items, items


@pytest.mark.parametrize(
    ("made", "what", "arithmetic"),
    [
        (items, "levels", "exact"),
        (items, "levels", "fast"),
        # More than a minute each.
        pytest.param(block_items, "blocks", "exact", marks=pytest.mark.deep),
        pytest.param(block_items, "blocks", "fast", marks=pytest.mark.deep),
    ],
)
def test_levels_and_upkeep_are_measured(
    made: Callable[[Settings], Iterator[Item]], what: str, arithmetic: str, tmp_path: Path
) -> None:
    settings = Settings(dry=True, scratch=str(tmp_path), model=None, tests=())
    names, measured = [], []
    # What stands in for a device is there while items are gone through.
    for item in made(settings):
        names.append(item.name)
        if item.name == f"tiny {arithmetic}: {what}":
            measured.append(item.run())
    assert names == [f"tiny exact: {what}", f"tiny fast: {what}"]
    (values,) = measured
    assert values["exact"] == (arithmetic == "exact")
    assert values["weight_bytes"] > 0
    assert values["upkeep_microseconds"] > 0
    counts = ["1", "2", "4", "8", "16", "32", "64"]
    for level in ("first", "later"):
        assert list(values[f"{level}_level_microseconds"]) == counts
    # Blocks are always asked.
    behind = [key for key in values if key.endswith("behind_step_microseconds")]
    assert len(behind) == (0 if what == "blocks" else 5)
    for key in behind:
        # More are together than steps are recorded for, here.
        assert list(values[key]) == ["1", "8"]
        assert min(values[key].values()) > 0
