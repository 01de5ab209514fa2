"""Few combinations that hold every pair of values of every two dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

__all__ = ["Row", "cover", "pairs_of"]

Row = dict[str, Any]
_Pair = tuple[tuple[str, Any], tuple[str, Any]]


def pairs_of(row: Mapping[str, Any]) -> set[_Pair]:
    """Every two (dimension, value) of a row, in the order of its dimensions."""
    return set(combinations(row.items(), 2))


def cover(
    dimensions: Mapping[str, Sequence[Any]],
    given: Iterable[Row] = (),
) -> list[Row]:
    """Rows, one value of each dimension, among which and `given` every pair of values occurs.

    Greedy: each row is the one of the whole product that holds most pairs not yet held, the first
    among equals, so the answer is always the same.

    Args:
        dimensions: Values of each.
        given: Rows that are there already.
    """
    product_rows = product(*dimensions.values())
    rows = [dict(zip(dimensions, values, strict=True)) for values in product_rows]
    held = {id(row): pairs_of(row) for row in rows}
    missing = set().union(*held.values()).difference(*map(pairs_of, given))
    found = []
    while missing:
        best = max(rows, key=lambda row: len(held[id(row)] & missing))
        missing -= held[id(best)]
        found.append(best)
    return found
