"""The fastest tiles of each weight and of attention, found within a few seconds a model.

Only what decides no bit is varied: `SumOrder` and `KeyOrder` stay as they are.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.gpu.check import Item, Settings
from bench.gpu.clock import clock_of
from bench.gpu.device import device_of
from bench.gpu.kernels.forest import Forest, tensors
from bench.gpu.kernels.operands import dtype_of, models_of, operands
from bench.gpu.kernels.tile_table import TileTable
from bench.gpu.models.shapes import ModelShape, ProductShape
from bench.gpu.smoke.forms import compiling, noted
from spectrie_kernels import AttentionTiles, LinearTiles, LinearWeight, linear, tree_attention

__all__ = ["candidates", "items"]

_SECONDS, _FIRST_SECONDS = 8.0, 25.0
_ROWS, _DRY_ROWS = (16, 64, 512, 32, 2048), (16,)
_CANDIDATES, _DRY_CANDIDATES = 24, 2
_SHARED_BYTES = 227 << 10
_BYTES_IN_FLIGHT = 16 << 10
"""Less of a weight on its way to a program cannot keep a device's memory busy."""


def items(settings: Settings) -> Iterator[Item]:
    """Two items a model."""
    for model in models_of(settings):
        yield Item(f"{model.name} products", partial(_tune_products, settings, model))
        yield Item(f"{model.name} attention", partial(_tune_attention, settings, model))


def candidates(product: ProductShape, rows: int, element_bytes: int) -> list[LinearTiles]:
    """Tiles worth trying for up to `rows` rows: those without a table first, then the likely ones."""
    order = product.order
    untuned = LinearTiles.of(rows, order, element_bytes)
    if element_bytes != 2:
        return [untuned, dataclasses.replace(untuned, stages=2)]
    height = max(16, 1 << (rows - 1).bit_length())
    few = rows <= 64
    found = [
        LinearTiles(split, features, tile, depth, warps, stages)
        for stages in (4, 3, 5, 2)
        for depth in (128, 64, 256)
        for split in ((True, False) if few and order.segments > 1 else (False,))
        for features in (64, 128)
        for tile in ((height,) if few else (128, 64, 256))
        for warps in (4, 8)
        if order.padded_segment % depth == 0
    ]
    return list(dict.fromkeys([untuned, *filter(_fits, found)]))


def _fits(tiles: LinearTiles) -> bool:
    shared = 2 * (tiles.features + tiles.rows) * tiles.depth * tiles.stages
    in_flight = 2 * tiles.features * tiles.depth * (tiles.stages - 1)
    # A thread's share of the sums; more spill.
    sums = tiles.features * tiles.rows / (32 * tiles.warps)
    return shared <= _SHARED_BYTES and in_flight >= _BYTES_IN_FLIGHT and sums <= 128


def _tune_products(settings: Settings, model: ModelShape) -> dict[str, Any]:
    table = _table(settings)
    seconds = _FIRST_SECONDS if model == models_of(settings)[0] else _SECONDS
    ends = time.monotonic() + seconds
    found: dict[str, Any] = {}
    for rows in _DRY_ROWS if settings.dry else _ROWS:
        products = model.products[:1] if settings.dry else model.products
        for product in products:
            if product.name == "head" and rows > 64:
                continue
            if time.monotonic() > ends:
                return found | {"stopped": f"after {seconds:.0f} seconds"}
            tuned = _tuned(settings, product, rows, ends)
            table.add("linear", tuned)
            found[f"{product.name} {rows}"] = tuned
    return found


def _tuned(settings: Settings, product: ProductShape, rows: int, ends: float) -> dict[str, Any]:
    x, weight = operands(product, rows, settings)
    tried = candidates(product, rows, x.element_size())
    tried = tried[: _DRY_CANDIDATES if settings.dry else _CANDIDATES]
    dtype = torch.float32 if product.row_parallel or product.name == "head" else x.dtype
    out = torch.empty(rows, weight.out_features, dtype=dtype, device=x.device)

    def action(tiles: LinearTiles) -> Callable[[], object]:
        return partial(linear, x, weight, out, tiles=tiles)

    times = _times(settings, product, tried, ends, weight, out, action)
    best = min(times, key=lambda tiles: times[tiles])
    return {
        "out_features": product.out_features,
        "in_features": product.in_features,
        "dtype": str(x.dtype).removeprefix("torch."),
        "up_to_rows": rows,
        **dataclasses.asdict(best),
        "microseconds": round(times[best], 2),
        "untuned_microseconds": round(times[tried[0]], 2),
        "tried": len(times),
    }


def _times(
    settings: Settings,
    product: ProductShape,
    tried: list[LinearTiles],
    ends: float,
    weight: LinearWeight,
    out: torch.Tensor,
    action: Callable[[LinearTiles], Callable[[], object]],
) -> dict[LinearTiles, float]:
    """Times of those that can be compiled, in their order, until the time is over."""
    clock = clock_of(settings.dry)
    if settings.dry:
        return {tiles: clock.microseconds(action(tiles)) for tiles in tried}

    def launch(tiles: LinearTiles) -> None:
        values = torch.empty(weight.values.shape, dtype=weight.values.dtype, device="cuda")
        x = values.new_empty(out.shape[0], product.in_features)
        linear(x, LinearWeight(values, product.order, None), x.new_empty(out.shape), tiles=tiles)

    # The bias is compiled with its tile, at its first launch: it takes no part in the choice.
    noted_forms = [noted(partial(launch, tiles))[0] for tiles in tried]
    times: dict[LinearTiles, float] = {}
    with compiling(noted_forms, device_of(settings.dry).capability) as compiled:
        for tiles, future in zip(tried, compiled, strict=True):
            if times and time.monotonic() > ends:
                break
            try:
                future.result()
                times[tiles] = clock.microseconds(action(tiles), cold=True)
            except RuntimeError:  # too much shared memory, or the compiler's own failure
                continue
    return times


def _tune_attention(settings: Settings, model: ModelShape) -> dict[str, Any]:
    trees = Forest(1, 40, 4) if settings.dry else Forest(1, 8192, 16)
    prompt = Forest(1, 20, 70, True) if settings.dry else Forest(1, 0, 2048, True)
    untuned = AttentionTiles.of(model.head_dim, dtype_of(settings).itemsize)
    heights = (untuned.part_rows,) if settings.dry else (16, 32, 64)
    took = {
        name: {rows: _attended(settings, model, forest, field, rows) for rows in heights}
        for name, forest, field in (
            ("trees", trees, "part_rows"),
            ("prompts", prompt, "prompt_rows"),
        )
    }
    best = {name: min(times, key=lambda rows: times[rows]) for name, times in took.items()}
    entry = {
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "dtype": str(dtype_of(settings)).removeprefix("torch."),
        "part_rows": best["trees"],
        "prompt_rows": best["prompts"],
        "microseconds": round(sum(took[name][best[name]] for name in took), 2),
        "untuned_microseconds": round(
            took["trees"][untuned.part_rows] + took["prompts"][untuned.prompt_rows], 2
        ),
    }
    _table(settings).add("attention", entry)
    return entry | {
        "times": {name: {str(n): us for n, us in of.items()} for name, of in took.items()}
    }


def _attended(
    settings: Settings, model: ModelShape, forest: Forest, field: str, rows: int
) -> float:
    tiles = AttentionTiles.of(model.head_dim, dtype_of(settings).itemsize)
    layout = forest.layout(model, settings, dataclasses.replace(tiles, **{field: rows}))
    given = tensors(forest, model, layout, settings)
    out = torch.empty_like(given.query)
    room = layout.work[None].workspace(model.heads, model.head_dim)
    action = partial(
        tree_attention,
        *(given.query, given.keys, given.values, layout),
        model.head_dim**-0.5,
        out=out,
        workspace=torch.empty(max(1, room), device=out.device),
    )
    return clock_of(settings.dry).microseconds(action, cold=True)


def _table(settings: Settings) -> TileTable:
    return TileTable(Path(settings.results), str(settings.device.get("name", "unknown")))
