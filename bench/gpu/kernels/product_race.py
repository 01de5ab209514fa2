"""The products by one pinned algorithm of cuBLASLt for each weight: their bytes and times, beside ours.

An algorithm that gives a row the same bytes for every number of rows, in less time than ours, would
take its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import torch

from bench.gpu.check import Item, Settings
from bench.gpu.clock import clock_of
from bench.gpu.goals import share_of_copy
from bench.gpu.kernels.cublaslt import Algorithm, AlgorithmData, CublasLt, library
from bench.gpu.kernels.operands import models_of, operands, same_bytes
from bench.gpu.models.shapes import ModelShape, ProductShape
from spectrie_kernels import LinearWeight, linear

__all__ = ["items"]

_ROWS = (1, 2, 3, 8, 15, 16, 17, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 200, 256, 257, 384, 512)
_TIMED_ROWS = (1, 16, 64, 512)
_DRY_ROWS = (1, 3)
_ALGORITHMS = 6
"""Of each of the numbers of rows that the library is asked for."""


class _Library(Protocol):
    def algorithms(
        self, weight: torch.Tensor, rows: int, out: torch.dtype, count: int
    ) -> list[Algorithm]: ...

    def action(
        self, algorithm: Algorithm, x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor
    ) -> Callable[[], object] | None: ...


class _Plain:
    """Torch's product in its place, where there is no device."""

    def algorithms(
        self, weight: torch.Tensor, rows: int, out: torch.dtype, count: int
    ) -> list[Algorithm]:
        return [Algorithm(AlgorithmData(), {"id": 0})]

    def action(
        self, algorithm: Algorithm, x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor
    ) -> Callable[[], object]:
        return lambda: torch.mm(x, weight.T, out=out)


def items(settings: Settings) -> Iterator[Item]:
    """One item a model."""
    for model in models_of(settings):
        yield Item(model.name, partial(_race, settings, model))


def _race(settings: Settings, model: ModelShape) -> dict[str, Any]:
    calls: _Library = _Plain() if settings.dry else CublasLt(library())
    raced = {product.name: _raced(settings, calls, product) for product in model.products}
    return {
        "products": raced,
        "pinned_possible": all(
            any(one["rows_that_differ"] == [] for one in of["algorithms"]) for of in raced.values()
        ),
    }


def _raced(settings: Settings, calls: _Library, product: ProductShape) -> dict[str, Any]:
    rows, timed = (_DRY_ROWS, _DRY_ROWS) if settings.dry else (_ROWS, _TIMED_ROWS)
    x, weight = operands(product, rows[-1], settings)
    clock = clock_of(settings.dry)

    def of_rows(count: int, action: Callable[..., object] | None) -> float | None:
        return None if action is None else round(clock.microseconds(action, cold=True), 2)

    ours = {}
    for count in timed:
        out = torch.empty(count, weight.out_features, device=x.device)
        ours[str(count)] = of_rows(count, partial(linear, x[:count], weight, out))
    algorithms = []
    for algorithm in _candidates(calls, weight, (timed[0], 64, timed[-1])):
        entry: dict[str, Any] = {"settings": algorithm.settings}
        entry["rows_that_differ"] = _differing(calls, algorithm, x, weight, rows)
        if not entry["rows_that_differ"]:
            entry["microseconds"] = {
                str(count): of_rows(count, _action(calls, algorithm, x[:count], weight)[0])
                for count in timed
            }
        algorithms.append(entry)
    least = ours[str(timed[0])]
    weight_bytes = weight.values.numel() * weight.values.element_size()
    return {
        "ours": ours,
        "share_of_copy": least and share_of_copy(weight_bytes, least, settings.device),
        "algorithms": algorithms,
    }


def _candidates(calls: _Library, weight: LinearWeight, rows: tuple[int, ...]) -> list[Algorithm]:
    """Those that the library likes best for any of these numbers of rows, each once."""
    found: dict[str, Algorithm] = {}
    for count in rows:
        for one in calls.algorithms(weight.values, count, torch.float32, _ALGORITHMS):
            found.setdefault(str(sorted(one.settings.items())), one)
    return list(found.values())


def _action(
    calls: _Library, algorithm: Algorithm, x: torch.Tensor, weight: LinearWeight
) -> tuple[Callable[[], object] | None, torch.Tensor]:
    x = x.contiguous()
    out = torch.empty(x.shape[0], weight.out_features, device=x.device)
    return calls.action(algorithm, x, weight.values, out), out


def _differing(
    calls: _Library,
    algorithm: Algorithm,
    x: torch.Tensor,
    weight: LinearWeight,
    rows: tuple[int, ...],
) -> list[int]:
    """Numbers of rows whose rows have other bytes than in the largest step, or that it cannot do."""
    action, whole = _action(calls, algorithm, x, weight)
    if action is None:
        return list(rows)
    action()
    wrong = []
    for count in rows[:-1]:
        action, out = _action(calls, algorithm, x[-count:], weight)
        if action is None:
            wrong.append(count)
            continue
        action()
        if not same_bytes(out, whole[-count:]):
            wrong.append(count)
    return wrong
