"""Integers of a level in one int32 buffer, and the arrays that kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import spectrie_kernels
from spectrie._core import PackedWork
from spectrie.model.launch.drafts.blocks import Block
from spectrie.model.launch.drafts.naming.scored import Asked
from spectrie.model.step.input import StepInput
from spectrie.model.step.packed import WORK_WIDTHS, StepShape, section_spans
from spectrie_kernels import AttentionArrays, KeyOrder, StepArray, StepArrays, WorkArrays

__all__ = [
    "MAX_SCORED",
    "MOVES",
    "SCORED",
    "LevelArrays",
    "LevelSection",
    "LevelShape",
    "Sections",
    "list_array",
    "work_arrays",
    "work_room",
]

Int32 = NDArray[np.int32]

_PATH = 16
"""Levels of a path for which recorded levels have room on average."""
_PAGES = 1 << 16
MOVES = 1 << 10
"""Moves of features, or of slots, for which recorded work has room."""
SCORED = 8
"""Tokens that a row of a recorded level scores on average at most."""
MAX_SCORED = 512
"""Tokens that all rows of a recorded level score at most."""
_SPLITS_OF_ALL = 2


class LevelSection(IntEnum):
    """Sections of a level; behind them three of each window, as `PackedWork` names them, and three for layers that
    look ahead."""

    TOKEN = 0
    POSITION = 1
    SLOT = 2
    ORIGIN = 3
    PLACE = 4
    MOVES = 5
    FEATURE_MOVES = 6
    PAGE_IDS = 7
    PATH_SLOTS = 8
    SCORED_AT = 9
    SCORED_ROW = 10
    SCORED_TOKEN = 11
    SEEN = 12
    ASKED = 13


class Sections:
    """Arrays of integers behind a table of where each begins and how long it is.

    Args:
        arrays: The sections in their order, of any shape.
    """

    def __init__(self, arrays: Sequence[NDArray[Any]]) -> None:
        self._arrays = arrays
        self._spans, self.words = section_spans([array.size for array in arrays])
        """`words`: how many words all of it takes."""

    def write(self, target: Int32) -> None:
        """Writes it from the target's beginning."""
        target[: 2 * len(self._spans)] = np.array(self._spans, np.int32).reshape(-1)
        for (begin, length), array in zip(self._spans, self._arrays, strict=True):
            target[begin : begin + length] = array.reshape(-1)

    def fit(self, room: Sequence[StepArray]) -> bool:
        """Returns whether arrays have room for all sections."""
        return all(self._arrays[one.section].size <= one.words for one in room)

    def own_room(self, room: Sequence[StepArray]) -> tuple[StepArray, ...]:
        """Returns the same arrays with just the room that these sections take."""
        return tuple(
            StepArray(
                one.section,
                max(1, -(-self._arrays[one.section].size // one.width)),
                one.width,
                one.fill,
                one.keeps,
            )
            for one in room
        )


def list_array(section: int, capacity: int, width: int = 1) -> StepArray:
    """Returns the array of a list whose readers know its length."""
    return StepArray(section, max(1, capacity), width, keeps=True)


@dataclass(frozen=True, slots=True)
class LevelShape:
    """What the arrays of a level depend on besides its rows.

    Attributes:
        shape: Of the drafter's attention.
        ahead: Of layers that look ahead; None where there are none.
        block: What a row of a first level becomes; None where it stays one row.
        dump: Where the states of rows go that stand for none.
        weighs_single: Whether the model's head weighs single tokens.
    """

    shape: StepShape
    ahead: StepShape | None
    block: Block | None
    dump: int
    weighs_single: bool

    def counts(self, rows: int, *, is_first: bool) -> tuple[int, int]:
        """Returns how many rows go through the layers, and how many states they leave."""
        if self.block is None:
            return rows, rows
        return (rows * self.block.rows, rows * self.block.states) if is_first else (0, 0)

    def room(self, rows: int, *, is_first: bool) -> tuple[StepArray, ...]:
        """Returns the arrays of recorded levels of up to `rows` rows.

        Args:
            rows: How many are answered.
            is_first: Whether they continue requests.
        """
        scored = min(SCORED * rows, MAX_SCORED)
        single = scored if self.weighs_single else 1
        computed, states = self.counts(rows, is_first=is_first)
        path = computed if self.block is not None else rows * _PATH
        seen = computed if self.ahead is not None else 0
        arrays = [
            StepArray(LevelSection.TOKEN, max(1, computed), fill=-1),
            StepArray(LevelSection.POSITION, max(1, computed)),
            StepArray(LevelSection.SLOT, max(1, computed), fill=-1),
            StepArray(LevelSection.ORIGIN, rows, fill=-1),
            StepArray(LevelSection.PLACE, max(1, states), fill=self.dump),
            list_array(LevelSection.MOVES, MOVES, width=2),
            list_array(LevelSection.FEATURE_MOVES, MOVES, width=2),
            list_array(LevelSection.PAGE_IDS, _PAGES),
            list_array(LevelSection.PATH_SLOTS, path),
            StepArray(LevelSection.SCORED_AT, scored, fill=-1),
            StepArray(LevelSection.SCORED_ROW, single, fill=-1),
            StepArray(LevelSection.SCORED_TOKEN, single, fill=-1),
            StepArray(LevelSection.SEEN, max(1, seen)),
            StepArray(LevelSection.ASKED, rows, fill=-1),
        ]
        for shape in (self.shape, self.ahead):
            if shape is not None:
                arrays += work_room(len(arrays), max(1, computed), shape, prompts=1)
        return tuple(arrays)


def work_room(first: int, rows: int, shape: StepShape, *, prompts: int) -> list[StepArray]:
    """Returns the arrays of attention's work.

    Args:
        first: Section of the first window's first.
        rows: Rows that attend.
        shape: Of the attention.
        prompts: Items of prompts for which there is room.
    """
    arrays = []
    for index, window in enumerate(shape.windows):
        splits = _SPLITS_OF_ALL * (KeyOrder.of(shape.kv_heads, window).max_splits + 1)
        counts = (rows * (splits + 1), rows, prompts)
        arrays += [
            list_array(first + len(PackedWork) * index + which, count, width)
            for which, (count, width) in enumerate(zip(counts, WORK_WIDTHS, strict=True))
        ]
    return arrays


def work_arrays(
    arrays: StepArrays, first: int, shape: StepShape, *, has_prompts: bool
) -> dict[int | None, WorkArrays]:
    """Returns attention's work by window, of arrays whose number `first` is the first of `work_room`."""
    found = {}
    for number, window in enumerate(shape.windows):
        at = first + len(PackedWork) * number
        parts, combined, prompts = (arrays[at + which] for which in PackedWork)
        counts = arrays.counts[at : at + len(PackedWork)]
        # Without room for prompts no kernel is launched for them.
        prompts = prompts if has_prompts else prompts[:0]
        found[window] = WorkArrays(parts, combined, prompts, counts)
    return found


class LevelArrays:
    """The arrays of a level, filled by a kernel from packed words.

    Args:
        room: As `LevelShape.room` returns it.
        shape: What it was made for.
        heights: Of attention's tiles.
        device: Theirs.
    """

    def __init__(
        self,
        room: Sequence[StepArray],
        shape: LevelShape,
        heights: tuple[int, int],
        device: torch.device,
    ) -> None:
        # Each section has one array, in the order of their numbers.
        self._arrays = StepArrays.of(room, device)
        section = self._arrays.words_of

        def layout(of: StepShape, first: int, positions: torch.Tensor) -> AttentionArrays:
            return AttentionArrays.of(
                work_arrays(self._arrays, first, of, has_prompts=False),
                group=of.group,
                kv_heads=of.kv_heads,
                heights=heights,
                page_size=of.page_size,
                page_ids=section(LevelSection.PAGE_IDS),
                row_position=positions,
                path_slots=section(LevelSection.PATH_SLOTS),
            )

        first = len(LevelSection)
        positions = section(LevelSection.POSITION)
        self.step = StepInput(
            tokens=section(LevelSection.TOKEN),
            positions=positions,
            slots=section(LevelSection.SLOT),
            moves=section(LevelSection.MOVES).view(-1, 2),
            num_moves=self._arrays.count(LevelSection.MOVES),
            layout=layout(shape.shape, first, positions),
        )
        """What attention and cache take of it."""
        self.ahead: AttentionArrays | None = None
        """What attention takes in layers that look ahead."""
        if shape.ahead is not None:
            first += len(PackedWork) * len(shape.shape.windows)
            self.ahead = layout(shape.ahead, first, section(LevelSection.SEEN))
        self.origins = section(LevelSection.ORIGIN)
        """int32 [rows], what each row continues: a feature, or a state."""
        self.places = section(LevelSection.PLACE)
        """int32 [states], where each goes."""
        self.asked = Asked(
            tokens=section(LevelSection.ASKED),
            at=section(LevelSection.SCORED_AT),
            row=section(LevelSection.SCORED_ROW),
            token=section(LevelSection.SCORED_TOKEN),
        )
        """What is answered."""
        self.feature_moves = section(LevelSection.FEATURE_MOVES).view(-1, 2)
        self.num_feature_moves = self._arrays.count(LevelSection.FEATURE_MOVES)

    def fill(self, words: torch.Tensor) -> None:
        """Launches what brings packed words here."""
        spectrie_kernels.unpack(words, self._arrays)
