"""A table of a device's fastest tiles: read by shape, never an order, and nothing without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from spectrie_kernels import AttentionTiles, LinearTiles, LinearWeight, SumOrder, linear
from spectrie_kernels.experts.work import ExpertWork
from spectrie_kernels.tables.tile_table import FOLDER, TileTable, current_table, table_name

ORDER = SumOrder.of(256, 1024)
LINEAR = {
    "out_features": 256,
    "in_features": 1024,
    "dtype": "bfloat16",
    "up_to_rows": 16,
    "split": True,
    "features": 128,
    "rows": 16,
    "depth": 64,
    "warps": 8,
    "stages": 4,
    "microseconds": 3.0,
}
ATTENTION = {"heads": 8, "kv_heads": 2, "head_dim": 64, "dtype": "bfloat16"}
HEIGHTS = {"part_rows": 64, "prompt_rows": 16}


def table_of(*linear: dict[str, Any], **content: Any) -> TileTable:
    return TileTable({"linear": list(linear), "attention": [ATTENTION | HEIGHTS], **content})


def tiles(rows: int, table: TileTable, out_features: int | None = 256) -> LinearTiles:
    return LinearTiles.of(rows, ORDER, 2, out_features=out_features, table=table)


def test_a_tuned_weight_takes_its_tiles_up_to_its_rows() -> None:
    table = table_of(LINEAR, LINEAR | {"up_to_rows": 64, "rows": 64})
    tuned = LinearTiles(True, 128, 16, 64, 8, 4)
    assert [tiles(rows, table) for rows in (1, 16)] == [tuned, tuned]
    assert tiles(17, table).rows == 64 and tiles(64, table).warps == 8


def test_what_was_not_tuned_takes_tiles_from_its_shape() -> None:
    table = table_of(LINEAR)
    for rows, out_features in ((17, 256), (1, 255), (1, None)):
        assert tiles(rows, table, out_features) == tiles(rows, TileTable(), out_features)
    in_float32 = [LinearTiles.of(1, ORDER, 4, out_features=256, table=t) for t in (table, None)]
    assert in_float32[0] == in_float32[1]


@pytest.mark.parametrize("change", [{"depth": 512}, {"features": 32}, {"warps": 3}, {"rows": 17}])
def test_tiles_that_do_not_fit_are_left_out(change: dict[str, int]) -> None:
    assert tiles(1, table_of(LINEAR | change)) == tiles(1, TileTable())


def test_a_table_sets_no_order() -> None:
    order = {"segment": 64, "pairwise": True, "segments": 1}
    assert tiles(1, table_of(LINEAR | order)) == tiles(1, table_of(LINEAR))
    whole = SumOrder(64, 64)
    one = LINEAR | {"in_features": 64}
    assert not LinearTiles.of(1, whole, 2, out_features=256, table=table_of(one)).split


def test_products_read_the_table_of_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes stay those of untuned tiles."""
    asked: list[tuple[Any, ...]] = []
    values = torch.randint(-3, 4, (96, 1024)).float()
    weight = LinearWeight(values, SumOrder.of(96, 1024), None)
    x = torch.randint(-3, 4, (3, 1024)).float()
    expected = linear(x, weight)
    tuned = LINEAR | {"out_features": 96, "dtype": "float32", "features": 32, "depth": 16}
    table = table_of(tuned)
    right = table.linear

    def looked(*shape: Any) -> Any:
        asked.append(shape)
        return right(*shape)

    monkeypatch.setattr(table, "linear", looked)
    monkeypatch.setattr("spectrie_kernels.linear_tiles.current_table", lambda: table)
    assert torch.equal(linear(x, weight).view(torch.int32), expected.view(torch.int32))
    assert asked == [(3, 96, 1024, 4)]


def test_attention_takes_the_heights_of_its_model() -> None:
    table = table_of()
    assert AttentionTiles.of(64, 2, heads=(8, 2), table=table) == AttentionTiles(64, 16)
    for heads in ((8, 4), None):
        untuned = AttentionTiles.of(64, 2, heads=heads, table=TileTable())
        assert AttentionTiles.of(64, 2, heads=heads, table=table) == untuned


def test_one_width_is_that_of_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(LINEAR, one_width=64)
    for order in (ORDER, SumOrder.of(4096, 4096), SumOrder.of(64, 1024, row_parallel=True)):
        for rows in (1, 16, 64, 65, 4096):
            found = LinearTiles.of(rows, order, 2, out_features=256, table=table)
            found.check(order, 256, 2)
            assert found.rows == 64
    heights = AttentionTiles.of(64, 2, heads=(8, 2), table=table)
    assert {heights.heights(group, widest) for group in (1, 4) for widest in (1, 64)} == {(64, 64)}
    monkeypatch.setattr("spectrie_kernels.experts.work.current_table", lambda: table)
    for rows in (1, 2048):
        words = ExpertWork.words(rows, 8, 2)
        memory = torch.empty(words, dtype=torch.int32)
        work = ExpertWork.within(memory, rows=rows, num_experts=8, num_chosen=2, element_bytes=2)
        assert work.product_tiles(SumOrder.of(1024, 64), 2).rows == 64
    # float32 has no instruction whose width could matter.
    assert LinearTiles.of(1, ORDER, 4, out_features=256, table=table).rows == 16


def test_a_file_is_read_by_the_name_of_its_device(tmp_path: Path) -> None:
    content = {"device": "NVIDIA H100 80GB", "linear": [LINEAR], "attention": []}
    path = tmp_path / "tiles-nvidia-h100-80gb.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert table_name("NVIDIA H100 80GB") == path.name
    assert tiles(1, TileTable.of_device("NVIDIA H100 80GB", tmp_path)).features == 128
    assert TileTable.of_device("NVIDIA H200", tmp_path).linear(1, 256, 1024, 2) is None


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"one_width": 17}', '{"linear": [{}]}', '{"attention": 3}']
)
def test_a_file_that_is_no_table_is_left_out_with_a_warning(tmp_path: Path, content: str) -> None:
    (tmp_path / table_name("one")).write_text(content, encoding="utf-8")
    with pytest.warns(UserWarning, match="tiles-one.json is not read"):
        table = TileTable.of_device("one", tmp_path)
    assert (table.one_width, table.row_limits) == (None, ())


def test_a_machine_without_a_gpu_has_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    current_table.cache_clear()
    assert current_table().row_limits == ()
    current_table.cache_clear()


def test_every_table_that_ships_is_one() -> None:
    for path in FOLDER.glob("*.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        assert path.name == table_name(content["device"])
        TileTable(content)
