"""Which rows of a step get an entry, and what attention of several layers needs beside the model's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray

import spectrie_kernels
from spectrie._core import PackedWork
from spectrie.model.launch.drafts.words import MOVES, list_array, work_arrays, work_room
from spectrie.model.plan import PlanArrays
from spectrie.model.step.packed import FixedTiles, StepShape, attention_rows
from spectrie_kernels import (
    AttentionArrays,
    AttentionLayout,
    KeyOrder,
    StepArray,
    StepArrays,
)
from spectrie_kernels.attention.rows import MAX_TREE_ROWS
from spectrie_kernels.attention.work import AttentionWork

__all__ = ["Entries", "OwnAttention"]

_ORIGINS, _SLOTS, _MOVES = _SECTIONS = range(3)


class OwnAttention:
    """The rows of a step as attention of other heads or windows than the model's takes them. Pages, positions and
    paths are the model's.

    Args:
        shape: Of that attention.
        heights: Of its tiles.
    """

    def __init__(self, shape: StepShape, heights: tuple[int, int]) -> None:
        self.shape, self.heights = shape, heights

    def sections(self, plan: PlanArrays) -> list[NDArray[Any]]:
        """Returns the work of a step, window by window."""
        rows = attention_rows(plan, self.shape.page_size)
        found: list[NDArray[Any]] = []
        for window in self.shape.windows:
            order = KeyOrder.of(self.shape.kv_heads, window)
            work = AttentionWork.of(rows, order, self.shape.group, FixedTiles(*self.heights))
            found += [work.part_items, work.combined, work.prompt_items]
        return found


class Entries:
    """Which rows of a step get an entry, filled by a kernel from packed words.

    Args:
        room: As `Entries.room` returns it.
        own: Attention that the model's layout does not suit; None where it does, or where there is none.
        device: Of the arrays.
    """

    def __init__(
        self, room: Sequence[StepArray], own: OwnAttention | None, device: torch.device
    ) -> None:
        self._arrays = StepArrays.of(room, device)
        self._own = own
        self.origins = self._arrays.words_of(_ORIGINS)
        """int32 [rows], the feature before each row, -1 for none."""
        self.slots = self._arrays.words_of(_SLOTS)
        """int32 [rows], where its entry goes, -1 for nowhere."""
        self.moves = self._arrays.words_of(_MOVES).view(-1, 2)
        """int32 [any, 2], rows of features, source and destination."""
        self.num_moves = self._arrays.count(_MOVES)

    @staticmethod
    def num_sections(own: OwnAttention | None) -> int:
        """Returns how many sections they have; others may stand behind them."""
        return len(_SECTIONS) + (0 if own is None else len(PackedWork) * len(own.shape.windows))

    @staticmethod
    def room(rows: int, own: OwnAttention | None) -> tuple[StepArray, ...]:
        """Returns the arrays of recorded steps of up to `rows` rows."""
        arrays = [
            StepArray(_ORIGINS, rows, fill=-1),
            StepArray(_SLOTS, rows, fill=-1),
            list_array(_MOVES, MOVES, width=2),
        ]
        if own is not None:
            prompts = rows if rows > MAX_TREE_ROWS else 1
            arrays += work_room(len(_SECTIONS), rows, own.shape, prompts=prompts)
        return tuple(arrays)

    def fill(self, words: torch.Tensor) -> None:
        """Launches what brings packed words here."""
        spectrie_kernels.unpack(words, self._arrays)

    def layout(
        self, of_model: AttentionLayout | AttentionArrays
    ) -> AttentionLayout | AttentionArrays:
        """Returns what attention of the drafter's layers takes in a step.

        Args:
            of_model: What that of the model's takes.
        """
        own = self._own
        if own is None:
            return of_model
        has_prompts = self.origins.shape[0] > MAX_TREE_ROWS
        return AttentionArrays.of(
            work_arrays(self._arrays, len(_SECTIONS), own.shape, has_prompts=has_prompts),
            group=own.shape.group,
            kv_heads=own.shape.kv_heads,
            heights=own.heights,
            page_size=own.shape.page_size,
            page_ids=of_model.page_ids,
            row_position=of_model.row_position,
            path_slots=of_model.path_slots,
        )
