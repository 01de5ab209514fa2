"""Matrix products whose rows do not depend on their company.

oneDNN's products of prepacked weights give a row the same bits for any number of rows, if the weight
was packed with the right row hint; which one depends on the shape, the dtype and the CPU. So at load
each shape is tried: every row count from `LEAST_ROWS` to `BLOCK_ROWS`, every row against the same row
computed in a group of `LEAST_ROWS`. The caller splits larger batches into blocks of at most `BLOCK_ROWS`
and pads smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional

__all__ = ["BLOCK_ROWS", "HEAD_ROWS", "LEAST_ROWS", "Linear", "Packing", "choose_packing", "pack"]

BLOCK_ROWS = 128
"""Most rows of one product; every count up to it is checked."""

LEAST_ROWS = 4
"""Fewest rows of one product. A row alone takes another path in the library, and four rows stream the
weights quicker than two: 249 against 339 us for 576x1536 float32 on one Zen 4 core."""

HEAD_ROWS = 32
"""Most rows of one product with the head, which is so large that checking more would delay the start."""

# By speed with weights that exceed the caches: for 576x3072 float32 and 4, 8, 16 rows, hint 128 takes 529,
# 627, 809 us and hint 8 takes 824, 968, 2099 (one Zen 4 core); in bfloat16 hints make no difference.
_HINTS = (128, 64, 256, 32, 8)
_TILES = (16, 8)


class Linear(Protocol):
    """A product `x @ weight.T + bias`: [rows, in] to [rows, out], rows `LEAST_ROWS` to `BLOCK_ROWS`."""

    def __call__(self, x: torch.Tensor, /) -> torch.Tensor: ...


@dataclass(frozen=True, slots=True)
class Packing:
    """How the weights of one shape are laid out.

    Attributes:
        kind: `onednn` (prepacked, `rows` is the hint), `tiles` (plain products of always `rows` rows)
            or `plain` (nothing keeps rows independent).
        rows: See `kind`; 0 for `plain`.
    """

    kind: str
    rows: int = 0

    @property
    def exact(self) -> bool:
        """Whether a row's bits are independent of its company."""
        return self.kind != "plain"

    def __str__(self) -> str:
        return f"{self.kind}{self.rows or ''}"


class _Packed:
    """A oneDNN product of a prepacked weight."""

    __slots__ = ("_bias", "_product", "_weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, hint: int) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), hint)
        self._bias = bias
        self._product = torch.ops.mkldnn._linear_pointwise.default

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._product(x, self._weight, self._bias, "none", [], "")
        return result


class _Tiled:
    """Plain products of always the same number of rows, so that always the same code runs."""

    __slots__ = ("_bias", "_tile", "_weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, tile: int) -> None:
        self._weight = weight.contiguous()
        self._bias = bias
        self._tile = tile

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        missing = -rows % self._tile
        padded = functional.pad(x, (0, 0, 0, missing)) if missing else x
        parts = [
            functional.linear(part, self._weight, self._bias)
            for part in torch.split(padded, self._tile)
        ]
        return torch.cat(parts)[:rows]


class _Plain:
    __slots__ = ("_bias", "_weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight = weight.contiguous()
        self._bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self._weight, self._bias)


def pack(weight: torch.Tensor, bias: torch.Tensor | None, packing: Packing) -> Linear:
    """The product with `weight: [out, in]` and `bias: [out]`, laid out as `packing` says."""
    if packing.kind == "onednn":
        return _Packed(weight, bias, packing.rows)
    if packing.kind == "tiles":
        return _Tiled(weight, bias, packing.rows)
    return _Plain(weight, bias)


def choose_packing(
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    max_rows: int = BLOCK_ROWS,
    *,
    make: Callable[[torch.Tensor, torch.Tensor | None, Packing], Linear] = pack,
) -> Packing:
    """The first packing of a CPU weight under which rows are independent of their company.

    Neither may they depend on the number of threads. Takes the time of some 1.5 * `max_rows` products;
    the caller keeps the answer.

    Args:
        weight: [out, in], CPU, float32 or bfloat16.
        bias: [out] or None.
        max_rows: Row counts from `LEAST_ROWS` to this are checked; a multiple of `LEAST_ROWS`.
        make: What builds a product; tests pass broken ones.
    """
    candidates = [Packing("tiles", tile) for tile in _TILES]
    if torch._C._has_mkldnn:
        candidates = [Packing("onednn", hint) for hint in _HINTS] + candidates
    threads = torch.get_num_threads()
    for candidate in candidates:
        linear = make(weight, bias, candidate)
        x = _probe(max_rows, weight.shape[1], weight.dtype)
        # On one thread, because on busy cores each product of several waits for the slowest.
        torch.set_num_threads(1)
        try:
            independent = rows_are_independent(linear, x)
            alone = [linear(x[:rows]) for rows in _few_counts(max_rows)]
        finally:
            torch.set_num_threads(threads)
        shared = [linear(x[:rows]) for rows in _few_counts(max_rows)]
        if independent and all(map(torch.equal, alone, shared)):
            return candidate
    return Packing("plain")


def _probe(rows: int, in_features: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, in_features, generator=generator).to(dtype)


def _few_counts(max_rows: int) -> list[int]:
    return sorted({LEAST_ROWS, min(17, max_rows), max_rows})


def rows_are_independent(linear: Linear, x: torch.Tensor) -> bool:
    """Whether every row of `linear(x[:rows])`, for every count of rows from `LEAST_ROWS` on, equals, bit
    by bit, the same row computed in a group of `LEAST_ROWS`, of which `x` holds a whole number."""
    groups = torch.cat([linear(group) for group in torch.split(x, LEAST_ROWS)])
    # From the largest down: what fails usually fails there.
    counts = range(len(x), LEAST_ROWS - 1, -1)
    return all(torch.equal(linear(x[:rows]), groups[:rows]) for rows in counts)
