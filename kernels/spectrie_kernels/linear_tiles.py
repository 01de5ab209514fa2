"""How a product is cut into programs: speed alone depends on it, no bit does."""

from __future__ import annotations

from dataclasses import dataclass

from spectrie_kernels.sum_order import SumOrder

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
    def of(cls, rows: int, order: SumOrder, element_bytes: int) -> LinearTiles:
        """Returns untuned tiles for `rows` input rows of elements of `element_bytes` bytes.

        They follow from shapes alone: nothing asks the device.
        """
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
