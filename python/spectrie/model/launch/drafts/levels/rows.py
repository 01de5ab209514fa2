"""Rows of levels that the device makes by itself, and attention's work of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

import spectrie_kernels
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.step.input import StepInput
from spectrie_kernels import AttentionArrays, KeyOrder, RootRows, WorkArrays

__all__ = ["MadeRows", "RowRoom"]


@dataclass(frozen=True, slots=True)
class MadeRows:
    """Rows of one level.

    Attributes:
        rows: As a kernel writes them.
        step: What attention and cache take of them.
        work: Attention's by window, each with the order of its keys.
        depth: How many rows lie before each on its path.
    """

    rows: RootRows
    step: StepInput
    work: tuple[tuple[KeyOrder, WorkArrays], ...]
    depth: int

    def cut(self, count: torch.Tensor) -> None:
        """Launches what cuts the keys before the rows, once they are written.

        Args:
            count: int32 [1], how many of them count.
        """
        for order, one in self.work:
            spectrie_kernels.root_work(self.rows, count, order, one, depth=self.depth)


class RowRoom:
    """Memory of rows, which levels of fewer rows share."""

    def __init__(
        self,
        operators: DraftOperators,
        path_slots: NDArray[np.int64],
        heights: tuple[int, int],
    ) -> None:
        """Allocates it.

        Args:
            operators: Of the drafter's layers.
            path_slots: int64 [rows, depth + 1], slots of the rows before each on its path, and its own.
            heights: Of attention's tiles.
        """
        on, self._shape = operators.device, operators.shape
        self._heights = heights
        rows, self._depth = len(path_slots), path_slots.shape[1] - 1
        self._rows = RootRows.empty(rows, on)
        self._work = {
            window: _work_arrays(rows, KeyOrder.of(self._shape.kv_heads, window), on)
            for window in self._shape.windows
        }
        self._path_slots = torch.from_numpy(path_slots.astype(np.int32).reshape(-1)).to(on)
        self._no_moves = torch.zeros(0, 2, dtype=torch.int32, device=on)
        self._no_count = torch.zeros(1, dtype=torch.int32, device=on)

    @property
    def tokens(self) -> torch.Tensor:
        """int32 [rows], of each."""
        return self._rows.tokens

    def first(self, rows: int, found: torch.Tensor, packed: torch.Tensor) -> MadeRows:
        """Returns the first rows.

        Args:
            rows: How many.
            found: int32 [rows, 4], where a kernel says what it made.
            packed: int32, the packed step, in which page numbers stand.
        """
        shape = self._shape
        made = replace(self._rows.first(rows), found=found)
        work = {
            window: _part(one, rows, KeyOrder.of(shape.kv_heads, window))
            for window, one in self._work.items()
        }
        step = StepInput(
            tokens=made.tokens,
            positions=made.positions,
            slots=made.slots,
            moves=self._no_moves,
            num_moves=self._no_count,
            layout=AttentionArrays.of(
                work,
                group=shape.group,
                kv_heads=shape.kv_heads,
                heights=self._heights,
                page_size=shape.page_size,
                page_ids=packed,
                row_position=made.positions,
                path_slots=self._path_slots,
            ),
        )
        ordered = tuple((KeyOrder.of(shape.kv_heads, window), one) for window, one in work.items())
        return MadeRows(made, step, ordered, self._depth)


def _work_arrays(rows: int, order: KeyOrder, device: torch.device) -> WorkArrays:
    """Returns room for attention's work of rows."""

    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, dtype=torch.int32, device=device)

    items = rows * (order.most_splits + 1)
    return WorkArrays(zeros(items, 8), zeros(rows, 4), zeros(0, 8), zeros(3))


def _part(work: WorkArrays, rows: int, order: KeyOrder) -> WorkArrays:
    """Returns the work of the first rows."""
    items = rows * (order.most_splits + 1)
    return replace(work, part_items=work.part_items[:items], combined=work.combined[:rows])
