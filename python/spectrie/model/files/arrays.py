"""Numbers as checkpoints store them, in NumPy's arrays; no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ITEM_SIZES", "Array", "Float32", "equal_numbers", "format_of", "rounded", "widened"]

Array = NDArray[Any]
"""float32, float16, or uint16: the bits of bfloat16, for which NumPy has no type."""
Float32 = NDArray[np.float32]

ITEM_SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a number, by the name of its format."""

_NAMES = {"float32": "float32", "uint16": "bfloat16", "float16": "float16"}
_COMPARED_ROWS = 4096


def format_of(array: Array) -> str:
    """Returns the number format of an array: `float32`, `bfloat16` or `float16`."""
    return _NAMES[array.dtype.name]


def widened(array: Array) -> Float32:
    """Returns the numbers as float32: the array itself if they are and lie aligned, else a copy."""
    if format_of(array) != "bfloat16":
        return np.require(array, np.float32, "A")
    wide = array.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def rounded(numbers: Float32, name: str) -> Array:
    """Returns float32 numbers in another format, each rounded to the nearest, ties to even."""
    if name == "float32":
        return numbers
    if name == "float16":
        # Numbers beyond its range become infinite, as in every other tool.
        with np.errstate(over="ignore"):
            return numbers.astype(np.float16)
    bits = np.ascontiguousarray(numbers).view(np.uint32)
    nearest = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(numbers), 0x7FC0, nearest).astype(np.uint16)


def equal_numbers(rows: Array, expected: Array) -> bool:
    """Returns whether two matrices are equal once the first is rounded to the format of the second."""
    if rows.shape != expected.shape:
        return False
    # In pieces: a widened copy of a head is as large as a small model, and so is what compares it whole.
    pieces = (slice(at, at + _COMPARED_ROWS) for at in range(0, len(rows), _COMPARED_ROWS))
    if rows.dtype == expected.dtype:
        return all(np.array_equal(rows[at], expected[at]) for at in pieces)
    name = format_of(expected)
    return all(np.array_equal(rounded(widened(rows[at]), name), expected[at]) for at in pieces)
