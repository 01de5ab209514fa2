"""The order in which attention adds a row's keys: of the row's position and the model, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNIT", "KeyOrder", "KeySpans"]

UNIT = 64
"""Keys of a unit: neighbouring positions that begin at a multiple of this."""

# Splits times key-value heads make about one wave of programs for one row on the largest devices.
# It is a constant, not the device's size, so that a model has one order everywhere.
_PROGRAMS = 132
_MAX_SPLITS = 32


@dataclass(frozen=True, slots=True)
class KeySpans:
    """Where rows' keys are cut; arrays of one entry a row, in keys, multiples of `UNIT`.

    Attributes:
        begin: First key of the prefix.
        end: End of the prefix and first key of the tail, which ends with the row itself.
        split: Keys of a split; splits begin at its multiples.
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    split: NDArray[np.int64]

    @property
    def first_split(self) -> NDArray[np.int64]:
        """Number of the first split of each row, by its multiple."""
        return self.begin // self.split

    @property
    def splits(self) -> NDArray[np.int64]:
        """How many splits the prefix of each row has: none where it is empty."""
        behind = -(-self.end // self.split)
        return np.where(self.end > self.begin, behind - self.first_split, 0)


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """How the keys that a row sees are added: those of its prefix in splits, then those of its tail.

    Attributes:
        max_splits: The least split is taken that cuts no prefix into more of them, but for one more
            where a window begins inside one.
        window: Keys a row sees, its own included; None for all.
    """

    max_splits: int
    window: int | None = None

    def __post_init__(self) -> None:
        if self.max_splits < 1:
            raise ValueError(f"max_splits is {self.max_splits}, must be positive")
        if self.window is not None and self.window < 1:
            raise ValueError(f"window is {self.window}, must be positive")

    @classmethod
    def of(cls, kv_heads: int, window: int | None = None) -> KeyOrder:
        """Returns the order for a model with that many key-value heads, before ranks share them.

        Raises:
            ValueError: A number is not positive.
        """
        if kv_heads < 1:
            raise ValueError(f"kv_heads is {kv_heads}, must be positive")
        return cls(min(_MAX_SPLITS, max(1, _PROGRAMS // kv_heads)), window)

    @property
    def max_parts(self) -> int:
        """Most sums that a row has: its splits, one that a window cuts, and its tail."""
        return self.max_splits + 2

    @property
    def most_splits(self) -> int:
        """Most splits that a row has."""
        return self.max_splits + (self.window is not None)

    def spans(self, positions: NDArray[np.integer[Any]]) -> KeySpans:
        """Returns where the keys of rows at `positions` are cut.

        All rows of one unit of positions are cut alike: the begin is that of the unit's first row.
        """
        block = np.asarray(positions, np.int64) // UNIT
        end = UNIT * np.maximum(0, block - 1)
        begin = np.zeros_like(end)
        if self.window is not None:
            first_seen = np.maximum(0, UNIT * block - self.window + 1)
            begin = np.minimum(end, first_seen // UNIT * UNIT)
        units = (end - begin) // UNIT
        return KeySpans(begin, end, UNIT * np.maximum(1, -(-units // self.max_splits)))
