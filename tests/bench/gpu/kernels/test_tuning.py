"""The search for tiles: only tiles that can be launched, and a table that holds each weight once."""

from __future__ import annotations

import json
from pathlib import Path

from bench.gpu.kernels.tile_table import TileTable
from bench.gpu.kernels.tuning import candidates
from bench.gpu.models.shapes import MODELS
from spectrie_kernels import LinearTiles


def test_candidates_fit_every_weight_and_the_first_is_the_one_without_a_table() -> None:
    for model in MODELS:
        for product in model.products:
            for rows in (1, 16, 64, 512, 2048):
                found = candidates(product, rows, 2)
                assert found[0] == LinearTiles.of(rows, product.order, 2)
                assert len(found) == len(set(found)) > 8
                for tiles in found:
                    tiles.check(product.order, product.out_features, 2)


def test_tiles_of_few_rows_hold_them_all() -> None:
    for tiles in candidates(MODELS[-1].products[0], 33, 2):
        assert tiles.rows == 64


def entry(microseconds: float, **changed: object) -> dict[str, object]:
    return {
        "out_features": 8,
        "in_features": 4,
        "dtype": "bfloat16",
        "up_to_rows": 16,
        "microseconds": microseconds,
        **changed,
    }


def test_an_entry_takes_the_place_of_its_own_alone(tmp_path: Path) -> None:
    table = TileTable(tmp_path, "NVIDIA H100 80GB")
    table.add("linear", entry(3.0))
    table.add("linear", entry(4.0, up_to_rows=64))
    TileTable(tmp_path, "NVIDIA H100 80GB").add("linear", entry(2.0))
    assert table.path.name == "tiles-nvidia-h100-80gb.json"
    content = json.loads(table.path.read_text(encoding="utf-8"))
    assert content["device"] == "NVIDIA H100 80GB"
    assert [(one["up_to_rows"], one["microseconds"]) for one in content["linear"]] == [
        (64, 4.0),
        (16, 2.0),
    ]
    assert content["attention"] == []
