"""What the products of a step take, exact and by torch, from one row to a prompt's chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from bench.gpu.check import Item, Settings
from bench.gpu.clock import clock_of
from bench.gpu.goals import beside, share_of_copy, share_of_matrix
from bench.gpu.kernels.operands import models_of, operands
from bench.gpu.models.shapes import ModelShape, ProductShape
from spectrie_kernels import LinearWeight, linear, linear_sums, linear_sums_shape, linear_workspace

__all__ = ["items"]

_ROWS = (1, 8, 16, 32, 64, 256, 2048)
_DRY_ROWS = (1, 8)
_MOST_SAMPLED = 256
"""The head computes sampled rows alone: a prompt's chunk has one."""


def items(settings: Settings) -> Iterator[Item]:
    """One item a model."""
    for model in models_of(settings):
        yield Item(model.name, partial(_measure, settings, model))


def _measure(settings: Settings, model: ModelShape) -> dict[str, Any]:
    rows = _DRY_ROWS if settings.dry else _ROWS
    times: dict[str, dict[str, dict[str, float]]] = {}
    for product in model.products:
        x, weight = operands(product, rows[-1], settings)
        times[product.name] = {
            str(n): _times(settings, product, weight, x[: _most(product, n)]) for n in rows
        }
    return _summary(settings, model, rows, times) | {"microseconds": times}


def _most(product: ProductShape, rows: int) -> int:
    return rows if product.name != "head" or rows <= _MOST_SAMPLED else 1


def _times(
    settings: Settings, product: ProductShape, weight: LinearWeight, x: torch.Tensor
) -> dict[str, float]:
    clock = clock_of(settings.dry)
    actions = {
        "exact": _exact(product, weight, x),
        "torch": lambda: functional.linear(x, weight.values, weight.bias),
    }
    # A step reads each weight once, so none is in the caches.
    return {name: round(clock.microseconds(one, cold=True), 2) for name, one in actions.items()}


def _exact(product: ProductShape, weight: LinearWeight, x: torch.Tensor) -> Callable[[], object]:
    rows = x.shape[0]
    if product.row_parallel:
        sums = torch.empty(linear_sums_shape(rows, weight), device=x.device)
        return lambda: linear_sums(x, weight, sums)
    dtype = torch.float32 if product.name == "head" else x.dtype
    out = torch.empty(rows, weight.out_features, dtype=dtype, device=x.device)
    workspace = torch.empty(max(1, linear_workspace(rows, weight)), device=x.device)
    return lambda: linear(x, weight, out, workspace=workspace)


def _summary(
    settings: Settings,
    model: ModelShape,
    rows: tuple[int, ...],
    times: dict[str, dict[str, dict[str, float]]],
) -> dict[str, Any]:
    """What all products of a step take, and their shares."""

    def step(kind: str, count: int) -> float:
        return sum(
            of[str(count)][kind] * (1 if name == "head" else model.layers)
            for name, of in times.items()
        )

    steps = {kind: {n: step(kind, n) for n in rows} for kind in ("exact", "torch")}
    exact, plain = steps["exact"], steps["torch"]
    few = [n for n in rows if n <= 64]
    layers = (
        2
        * model.layers
        * sum(one.out_features * one.in_features for one in model.products if one.name != "head")
    )
    last = rows[-1]
    goals = [
        beside(f"rows {n} over 1", exact[n] / exact[1])
        for n in few
        if f"{n}" in ("8", "16", "32", "64")
    ]
    goals.append(beside("exact over fast, to 64 rows", max(exact[n] / plain[n] for n in few)))
    if last > few[-1]:
        goals.append(beside("exact over fast, more rows", exact[last] / plain[last]))
    return {
        "step_microseconds": {
            kind: {str(n): round(us, 1) for n, us in of.items()} for kind, of in steps.items()
        },
        "share_of_copy": {
            str(n): share_of_copy(2 * model.weights, exact[n], settings.device) for n in few
        },
        "share_of_matrix": share_of_matrix(layers * last, exact[last], settings.device),
        "goals": goals,
    }
