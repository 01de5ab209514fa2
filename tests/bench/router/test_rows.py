"""A figure says whether it reaches its floor and its goal."""

from __future__ import annotations

import pytest

from bench.router.rows import least, most


@pytest.mark.parametrize(
    ("value", "verdict"), [(50, "goal met"), (51, "floor met"), (150, "floor met"), (151, "missed")]
)
def test_a_figure_that_is_to_be_small_is_judged_from_above(value: float, verdict: str) -> None:
    assert most("time", value, 150, 50, "us").verdict == verdict


@pytest.mark.parametrize(
    ("value", "verdict"), [(90, "goal met"), (89, "floor met"), (80, "floor met"), (79, "missed")]
)
def test_a_figure_that_is_to_be_large_is_judged_from_below(value: float, verdict: str) -> None:
    assert least("share", value, 80, 90, "%").verdict == verdict


def test_a_row_shows_figure_and_limits_with_their_unit() -> None:
    cells = least("tokens", 43_210.9, 30_000, 60_000, "/s").cells()
    assert cells == ["tokens", "43,211 /s", ">= 30,000 /s", ">= 60,000 /s", "floor met"]
