"""A product whose bytes depend on its company or its tile is a fault, and the rows are named."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import spectrie_kernels
from bench.gpu.check import Settings, Wrong
from bench.gpu.kernels import product_bytes
from bench.gpu.kernels.product_bytes import items
from spectrie_kernels import LinearTiles

SETTINGS = Settings(dry=True, scratch="", model=None, tests=())


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


def test_equal_bytes_are_no_fault() -> None:
    (item,) = items(SETTINGS)
    products = item.run()["products"]
    assert set(products) == {"qkv", "output", "gate_up", "down", "head"}
    assert all(not one["rows_that_differ"] for one in products.values())


@pytest.mark.parametrize("broken", ["rows", "tile"])
def test_bytes_that_depend_on_something_are_a_fault(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = spectrie_kernels.linear

    def wrong(
        x: torch.Tensor, weight: Any, out: torch.Tensor, *, tiles: LinearTiles | None = None
    ) -> torch.Tensor:
        right(x, weight, out, tiles=tiles)
        if broken == "rows":
            return out.add_(1e-6 if len(x) == 2 else 0)
        return out.add_(1e-6 if tiles is not None and tiles.features == 128 else 0)

    monkeypatch.setattr(product_bytes, "linear", wrong)
    (item,) = items(SETTINGS)
    with pytest.raises(Wrong, match="depend on the") as caught:
        item.run()
    found = caught.value.values["products"]["qkv"]
    if broken == "rows":
        assert found["rows_that_differ"] == ["2"]
    else:
        assert found["tiles_that_differ"] == ["whole 128x16"]
