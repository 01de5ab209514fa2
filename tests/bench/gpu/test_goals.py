"""Floors and goals stand beside what was measured; none of them is a check."""

from __future__ import annotations

import pytest

from bench.gpu.goals import GOALS, beside, share_of_copy, share_of_matrix


@pytest.mark.parametrize(
    ("name", "value", "reached"),
    [
        ("rows 8 over 1", 1.04, True),
        ("rows 8 over 1", 1.06, False),
        ("prefill, share of matrix", 0.5, True),
        ("prefill, share of matrix", 0.4, False),
        ("prefill, share of matrix", None, None),
    ],
)
def test_a_floor_is_reached_from_its_side(
    name: str, value: float | None, reached: bool | None
) -> None:
    assert beside(name, value)["reached"] is reached
    assert beside(name, value)["floor"] == GOALS[name].floor


def test_shares_are_of_what_the_device_does() -> None:
    device = {"copy_bytes_per_second": 4e12, "matrix_flops_per_second": 8e14}
    assert share_of_copy(1e9, 500, device) == 0.5
    assert share_of_matrix(1e11, 500, device) == 0.25
    assert share_of_copy(1e9, 500, {}) is None
