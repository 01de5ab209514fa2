"""Which tokens of a level are scored, as the device reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Int32", "Scored", "rows_of"]

Int32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Scored:
    """Tokens in the order of the rows that score them.

    Attributes:
        at: int32, the logit of each, row after row, -1 for a token that the head does not name.
        row: int32, its row where the model's head weighs it by itself, else -1; none where that weighs no token.
        token: int32, it itself there, else -1; likewise.
    """

    at: Int32
    row: Int32
    token: Int32


def rows_of(indptr: Int32) -> Int32:
    """Returns the row of each scored token, given where those of each row begin, int32 [rows + 1]."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))
