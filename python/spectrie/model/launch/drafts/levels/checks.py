"""Checks of what a plan says; each names the first entry that is wrong."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_indices", "check_pairs", "check_starts", "refuse"]

Int32 = NDArray[np.int32]


def refuse(what: str, index: int, given: Any, expected: str) -> NoReturn:
    """Raises ValueError for an entry of a plan."""
    raise ValueError(f"{what}[{index}] is {int(given)}, expected {expected}")


def check_indices(what: str, values: Int32, limit: int) -> None:
    """Raises ValueError unless all values are indices below `limit`."""
    wrong = (values < 0) | (values >= limit)
    if wrong.any():
        index = int(np.argmax(wrong))
        refuse(what, index, values[index], f"0..{limit}")


def check_pairs(what: str, pairs: Int32, from_limit: int, to_limit: int) -> Int32:
    """Returns pairs of indices, int32 [any, 2].

    Raises:
        ValueError: One is not below its limit.
    """
    flat = pairs.reshape(-1)
    limits = np.tile([from_limit, to_limit], len(flat) // 2)
    wrong = (flat < 0) | (flat >= limits)
    if wrong.any():
        index = int(np.argmax(wrong))
        refuse(what, index, flat[index], f"0..{limits[index]}")
    return flat.reshape(-1, 2)


def check_starts(what: str, starts: Int32, count: int) -> None:
    """Raises ValueError unless `starts` ascend and lie within a list of `count`."""
    wrong = (np.diff(starts) < 0) | (starts[1:] > count) | (starts[:-1] < 0)
    if wrong.any():
        index = int(np.argmax(wrong))
        refuse(what, index, starts[index + 1], "ascending, within its list")
