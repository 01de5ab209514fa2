"""Levels of a head with drawn weights: what is measured of both arithmetics without a device."""

from __future__ import annotations

from pathlib import Path

from bench.gpu.check import Settings
from bench.gpu.steps.draft_speed import items


def test_levels_and_upkeep_are_measured_in_both_arithmetics(tmp_path: Path) -> None:
    settings = Settings(dry=True, scratch=str(tmp_path), model=None, tests=())
    found = {item.name: item.run() for item in items(settings)}
    assert list(found) == ["tiny exact: levels", "tiny fast: levels"]
    for name, values in found.items():
        assert values["exact"] == name.startswith("tiny exact")
        assert values["weight_bytes"] > 0
        assert values["upkeep_microseconds"] > 0
        for level in ("first", "later"):
            assert list(values[f"{level}_level_microseconds"]) == [
                "1",
                "2",
                "4",
                "8",
                "16",
                "32",
                "64",
            ]
