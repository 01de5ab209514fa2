"""Floods are made of whole frames."""

from __future__ import annotations

import pytest

from bench.router.floods import FLOODS


@pytest.mark.parametrize("name", FLOODS)
def test_every_round_of_a_flood_is_made_of_whole_frames(name: str) -> None:
    for number in (0, 1, 70):
        left = FLOODS[name](number)
        assert left
        while left:
            length = int.from_bytes(left[:3], "big")
            assert len(left) >= 9 + length
            left = left[9 + length :]
