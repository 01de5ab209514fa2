"""Commands of rank 0: a tensor of int64 and one of int32, without pickling."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import torch

from spectrie.model.plan import PlanArrays, StepPlan

__all__ = ["Command", "Message", "header_length"]

# All fields of a plan that are int32, in the order of the wire.
_FIELDS = (
    "row_token",
    "row_position",
    "row_slot",
    "row_parent",
    "request_row_start",
    "request_row_count",
    "request_kv_len",
    "request_kind",
    "page_indptr",
    "page_ids",
    "sample_rows",
    "top_rows",
    "kv_move_src",
    "kv_move_dst",
)
_FIXED = 2 + len(_FIELDS)
"""Numbers at the start of the header: command, value, and the length of each field."""


class Command(IntEnum):
    """The kinds of commands."""

    STEP = 0
    SET_THREADS = 1
    STOP = 2


def header_length(max_rows: int) -> int:
    """Returns the length of a header with room for the ancestors of `max_batch_rows` rows."""
    return _FIXED + max_rows


@dataclass(frozen=True, slots=True)
class Message:
    """One command with its arguments.

    Attributes:
        command: Kind of the command.
        value: Number of threads, for `SET_THREADS`.
        plan: The plan, for `STEP`.
    """

    command: Command
    value: int = 0
    plan: PlanArrays | None = None

    def header(self, max_rows: int) -> torch.Tensor:
        """int64 [header_length]: command, value, lengths of the fields, the rows' ancestors."""
        header = np.zeros(header_length(max_rows), dtype=np.int64)
        header[:2] = self.command, self.value
        if self.plan is not None:
            header[2:_FIXED] = [len(getattr(self.plan, name)) for name in _FIELDS]
            ancestors = self.plan.row_ancestors
            header[_FIXED : _FIXED + len(ancestors)] = ancestors
        return torch.from_numpy(header)

    def body(self) -> torch.Tensor:
        """int32: the fields, concatenated."""
        if self.plan is None:
            return torch.empty(0, dtype=torch.int32)
        return torch.from_numpy(np.concatenate([getattr(self.plan, name) for name in _FIELDS]))

    @staticmethod
    def body_length(header: torch.Tensor) -> int:
        """Returns the length of the body that belongs to a header."""
        return int(header[2:_FIXED].sum())

    @classmethod
    def read(cls, header: torch.Tensor, body: torch.Tensor) -> Message:
        """Decodes a header and its body."""
        command, value = Command(int(header[0])), int(header[1])
        if command is not Command.STEP:
            return cls(command, value)
        lengths = header[2:_FIXED].tolist()
        parts = np.split(body.numpy(), np.cumsum(lengths[:-1]))
        rows = lengths[0]
        return cls(
            command,
            value,
            StepPlan(
                row_ancestors=header[_FIXED : _FIXED + rows].numpy(),
                **dict(zip(_FIELDS, parts, strict=True)),
            ),
        )
