"""How a product is cut into programs: speed alone depends on it, no bit does."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from spectrie_kernels.sum_order import SumOrder
from spectrie_kernels.tables.tile_table import TileTable, current_table

__all__ = ["MAX_SPLIT_ROWS", "LinearTiles"]

MAX_SPLIT_ROWS = 64
"""Up to this many rows a product reads its weight once, with its segments in parallel."""

# Hopper takes another matrix instruction for a lower tile, which may add in another order.
_INSTRUCTION_FEATURES = 64
_PARTS = 65535  # of a grid's second axis


@dataclass(frozen=True, slots=True)
class LinearTiles:
    """The tile of one program. A tuning table may choose any of these.

    Attributes:
        split: Whether a program takes one segment and a second kernel adds the segment sums; else one
            program takes all segments.
        features: Weight rows in a tile, the taller operand of the matrix instruction.
        rows: Rows of the input in a tile.
        depth: Terms loaded at once; it divides a padded segment.
        warps: Warps in a program, a multiple of four, as groups of four share an instruction.
        stages: Loads in flight.
    """

    split: bool
    features: int
    rows: int
    depth: int
    warps: int = 4
    stages: int = 3

    def __post_init__(self) -> None:
        for name in ("features", "rows", "depth"):
            size = getattr(self, name)
            if size < 16 or size & (size - 1):
                raise ValueError(f"{name} is {size}, expected a power of two of at least 16")
        if self.warps not in (4, 8, 16) or self.stages < 1:
            raise ValueError(
                f"warps is {self.warps} and stages {self.stages}, expected 4, 8 or 16 and at least 1"
            )

    @classmethod
    def of(
        cls,
        rows: int,
        order: SumOrder,
        element_bytes: int,
        *,
        out_features: int | None = None,
        table: TileTable | None = None,
    ) -> LinearTiles:
        """Returns tiles for `rows` input rows of elements of `element_bytes` bytes.

        Args:
            rows: Rows of the input.
            order: Of the weight.
            element_bytes: Of the weight.
            out_features: Its outputs, by which its tuned tiles are found; None takes untuned ones, which
                follow from shapes alone.
            table: Of tuned tiles; None takes that of the device.
        """
        table = current_table() if table is None else table
        tiles = cls._untuned(rows, order, element_bytes)
        if out_features is not None:
            tuned = table.linear(rows, out_features, order.in_features, element_bytes)
            tiles = cls._fitting(tuned, order, out_features, element_bytes) or tiles
        return tiles._of_width(table.one_width, element_bytes)

    @classmethod
    def _fitting(
        cls,
        tuned: dict[str, Any] | None,
        order: SumOrder,
        out_features: int,
        element_bytes: int,
    ) -> LinearTiles | None:
        """Tuned tiles, if this weight can be cut so: it may be one rank's part of that which was tuned."""
        if tuned is None:
            return None
        try:
            tiles = cls(**tuned)
            tiles.check(order, out_features, element_bytes)
        except (TypeError, ValueError):
            return None
        # One segment has nothing to split.
        return dataclasses.replace(tiles, split=tiles.split and order.segments > 1)

    def _of_width(self, width: int | None, element_bytes: int) -> LinearTiles:
        """The same tiles with the one width of half precision, where a device needs one."""
        if width is None or element_bytes != 2:
            return self
        return dataclasses.replace(self, rows=width)

    @classmethod
    def _untuned(cls, rows: int, order: SumOrder, element_bytes: int) -> LinearTiles:
        few = rows <= MAX_SPLIT_ROWS
        split = few and order.segments > 1
        if element_bytes == 4:
            # float32 has no matrix instruction of full precision: small tiles, or they spill.
            if few:
                return cls(split, 32, 16, 16)
            return cls(False, 32, 32, 16)
        if few:
            return cls(split, 64, _tile(rows), min(128, _deepest(order)))
        # Pairwise sums of eight segments keep four accumulators.
        height = 64 if order.pairwise and order.segments > 1 else 128
        return cls(False, 128, height, min(64, _deepest(order)), warps=8)

    @classmethod
    def of_height(cls, height: int, order: SumOrder, element_bytes: int) -> LinearTiles:
        """Returns untuned tiles of the whole form with `height` rows, a power of two from 16 to 128 (in
        float32 to 32), for weights of elements of `element_bytes` bytes."""
        if element_bytes == 4:
            return cls(False, 32, height, 16)
        if height <= MAX_SPLIT_ROWS:
            return cls(False, 64, height, min(128, _deepest(order)))
        # Sums of several segments keep two accumulators.
        features = 64 if order.segments > 1 else 128
        return cls(False, features, height, min(64, _deepest(order)), warps=8)

    def check(self, order: SumOrder, out_features: int, element_bytes: int) -> None:
        """Raises ValueError if a weight of this order and element size cannot be cut so."""
        if element_bytes == 2 and self.features < _INSTRUCTION_FEATURES:
            raise ValueError(
                f"features is {self.features}, half precision needs {_INSTRUCTION_FEATURES} or more"
            )
        if order.padded_segment % self.depth:
            raise ValueError(
                f"depth is {self.depth}, which does not divide a padded segment of "
                f"{order.padded_segment} terms"
            )
        if -(-out_features // self.features) > _PARTS:
            raise ValueError(f"{out_features} features in tiles of {self.features} exceed a grid")


def _tile(rows: int) -> int:
    """The smallest tile of at least 16 rows that holds `rows`."""
    return max(16, 1 << (rows - 1).bit_length())


def _deepest(order: SumOrder) -> int:
    """The largest power of two that divides a padded segment."""
    return order.padded_segment & -order.padded_segment
