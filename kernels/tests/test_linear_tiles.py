"""Tiles of a product: every number of rows has ones that fit, from shapes alone."""

from __future__ import annotations

from typing import Any

import pytest

from spectrie_kernels import LinearTiles, SumOrder

ORDERS = [
    SumOrder.of(out_features, in_features, row_parallel=row_parallel)
    for out_features in (1, 576, 4096, 28672)
    for in_features in (16, 64, 72, 576, 896, 1536, 4096, 14336, 18944)
    for row_parallel in (False, True)
]


@pytest.mark.parametrize("element_bytes", [2, 4])
def test_every_number_of_rows_has_tiles_that_fit(element_bytes: int) -> None:
    for order in ORDERS:
        for rows in (1, 2, 16, 17, 32, 33, 64, 65, 128, 4096):
            tiles = LinearTiles.of(rows, order, element_bytes)
            tiles.check(order, 151936, element_bytes)
            assert tiles.split == (rows <= 64 and order.segments > 1)


def test_every_height_has_tiles_that_fit() -> None:
    for order in (one for one in ORDERS if not one.pairwise):
        for element_bytes, heights in ((2, (16, 32, 64, 128)), (4, (16, 32))):
            for height in heights:
                tiles = LinearTiles.of_height(height, order, element_bytes)
                tiles.check(order, 151936, element_bytes)
                assert (tiles.rows, tiles.split) == (height, False)


def test_up_to_64_rows_the_weight_is_read_once() -> None:
    for rows in range(1, 65):
        assert LinearTiles.of(rows, ORDERS[0], 2).rows >= rows


@pytest.mark.parametrize("features", [64, 128])
def test_half_precision_tiles_are_as_tall_as_the_matrix_instruction(features: int) -> None:
    """Below 64 features in a tile, or without four warps, Hopper takes another instruction."""
    seen = {LinearTiles.of(rows, order, 2).features for order in ORDERS for rows in (1, 64, 4096)}
    assert features in seen and seen <= {64, 128}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": 8}, "features is 8"),
        ({"rows": 48}, "rows is 48"),
        ({"depth": 0}, "depth is 0"),
        ({"warps": 2}, "warps is 2"),
        ({"stages": 0}, "stages 0"),
    ],
)
def test_impossible_tiles_are_named(change: dict[str, Any], message: str) -> None:
    fit = {"split": True, "features": 64, "rows": 16, "depth": 64}
    with pytest.raises(ValueError, match=message):
        LinearTiles(**(fit | change))


def test_a_load_that_does_not_divide_a_segment_is_refused() -> None:
    with pytest.raises(ValueError, match="depth is 128"):
        LinearTiles(False, 64, 16, 128).check(SumOrder(576, 192), 64, 2)


def test_half_precision_tiles_below_the_instruction_are_refused() -> None:
    tiles = LinearTiles(True, 32, 16, 64)
    tiles.check(SumOrder(576, 192), 64, 4)
    with pytest.raises(ValueError, match="features is 32, half precision needs 64 or more"):
        tiles.check(SumOrder(576, 192), 64, 2)


def test_too_many_features_for_a_grid_are_refused() -> None:
    with pytest.raises(ValueError, match="exceed a grid"):
        LinearTiles(False, 16, 16, 16).check(SumOrder(64, 64), 16 * 65535 + 1, 4)
