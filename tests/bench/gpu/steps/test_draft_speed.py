"""Levels of heads with drawn weights: what is measured of both arithmetics without a device."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from bench.gpu.check import Settings
from bench.gpu.steps.draft_speed import block_items, items


def test_levels_and_upkeep_are_measured_in_both_arithmetics(tmp_path: Path) -> None:
    settings = Settings(dry=True, scratch=str(tmp_path), model=None, tests=())
    found = {item.name: item.run() for item in chain(items(settings), block_items(settings))}
    assert list(found) == [
        f"tiny {arithmetic}: {what}"
        for what in ("levels", "blocks")
        for arithmetic in ("exact", "fast")
    ]
    for name, values in found.items():
        assert values["exact"] == name.startswith("tiny exact")
        assert values["weight_bytes"] > 0
        assert values["upkeep_microseconds"] > 0
        counts = ["1", "2", "4", "8", "16", "32", "64"]
        for level in ("first", "later"):
            assert list(values[f"{level}_level_microseconds"]) == counts
        # Blocks are always asked.
        behind = [key for key in values if key.endswith("behind_step_microseconds")]
        assert len(behind) == (0 if "blocks" in name else 5)
        for key in behind:
            # More are together than steps are recorded for, here.
            assert list(values[key]) == ["1", "8"]
            assert min(values[key].values()) > 0
