"""Whether a row of a product has the same bytes whatever the rows beside it and the tile.

What no interpreter shows: that matrix instructions of 16, 64 and 128 rows add alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from bench.gpu.check import Item, Settings, Wrong
from bench.gpu.kernels.operands import models_of, operands, same_bytes
from bench.gpu.models.shapes import ModelShape
from spectrie_kernels import LinearTiles, LinearWeight, linear

__all__ = ["items"]

_MOST_ROWS = 512
_DRY_ROWS = (1, 2, 17)
_TILED_ROWS = 64
_DRY_TILES = 2
# Features, rows and warps of a tile: every width of the instruction, at both heights.
_TILES = ((64, 16, 4), (128, 16, 8), (64, 32, 4), (64, 64, 4), (128, 64, 8), (64, 128, 8))


def items(settings: Settings) -> Iterator[Item]:
    """One item a model."""
    for model in models_of(settings):
        yield Item(model.name, partial(_compare, settings, model))


def _compare(settings: Settings, model: ModelShape) -> dict[str, Any]:
    rows = _DRY_ROWS if settings.dry else range(1, _MOST_ROWS + 1)
    tiles = _TILES[:_DRY_TILES] if settings.dry else _TILES
    found: dict[str, Any] = {}
    for product in model.products:
        x, weight = operands(product, rows[-1], settings)
        whole = _summed(x, weight)
        found[product.name] = {
            "segments": weight.order.segments,
            "rows_that_differ": _ranges([n for n in rows if _differs(x, weight, whole, n)]),
            "tiles_that_differ": _other_tiles(x[:_TILED_ROWS], weight, whole[:_TILED_ROWS], tiles),
        }
    values = {"rows": len(rows), "tiles": len(tiles), "products": found}
    wrong = [name for name, one in found.items() if one["rows_that_differ"]]
    if wrong:
        raise Wrong(f"bytes of {', '.join(wrong)} depend on the number of rows", values)
    tiled = [name for name, one in found.items() if one["tiles_that_differ"]]
    if tiled:
        raise Wrong(f"bytes of {', '.join(tiled)} depend on the tile", values)
    return values


def _summed(
    x: torch.Tensor, weight: LinearWeight, tiles: LinearTiles | None = None
) -> torch.Tensor:
    out = torch.empty(x.shape[0], weight.out_features, device=x.device)
    return linear(x.contiguous(), weight, out, tiles=tiles)


def _differs(x: torch.Tensor, weight: LinearWeight, whole: torch.Tensor, rows: int) -> bool:
    """Whether the first or the last `rows` rows alone have other bytes."""
    first, last = _summed(x[:rows], weight), _summed(x[-rows:], weight)
    return not (same_bytes(first, whole[:rows]) and same_bytes(last, whole[-rows:]))


def _other_tiles(
    x: torch.Tensor,
    weight: LinearWeight,
    whole: torch.Tensor,
    tiles: tuple[tuple[int, int, int], ...],
) -> list[str]:
    """Names of tiles with other bytes."""
    forms = (False, True) if weight.order.segments > 1 else (False,)
    return [
        f"{'split' if split else 'whole'} {features}x{rows}"
        for split in forms
        for features, rows, warps in tiles
        if not same_bytes(_summed(x, weight, LinearTiles(split, features, rows, 64, warps)), whole)
    ]


def _ranges(numbers: list[int]) -> list[str]:
    """Numbers in ascending order as `5` or `5-9`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [str(a) if a == b else f"{a}-{b}" for a, b in runs]
