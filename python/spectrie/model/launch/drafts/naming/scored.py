"""Which tokens of a level are scored, and what else the device reads of a level's rows to answer them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["Asked", "Found", "Int32", "Scored", "rows_of"]

Int32 = NDArray[np.int32]
Found = tuple[torch.Tensor, ...]
"""What a head found of rows, by which it scores tokens of them."""


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


@dataclass(frozen=True, slots=True)
class Asked:
    """What a level asks, on the device.

    Attributes:
        tokens: int32 [rows], the token of each.
        at: int32 [scored], as in `Scored`.
        row: int32 [scored] where single tokens are weighed, as in `Scored`.
        token: int32, likewise.
    """

    tokens: torch.Tensor
    at: torch.Tensor
    row: torch.Tensor
    token: torch.Tensor


def rows_of(indptr: Int32) -> Int32:
    """Returns the row of each scored token, given where those of each row begin, int32 [rows + 1]."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))
