"""The rows of one level, checked and packed for the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrie.model.drafters.plan import DraftPlan
from spectrie.model.launch.drafts.blocks import Block, BlockRows
from spectrie.model.launch.drafts.levels.checks import check_indices, check_starts, refuse
from spectrie.model.launch.drafts.levels.mover import moved_features, moved_slots
from spectrie.model.launch.drafts.naming.scored import Scored
from spectrie.model.launch.drafts.words import LevelSection, Sections
from spectrie.model.step.packed import FixedTiles, StepShape
from spectrie_kernels import MAX_TREE_ROWS, DraftRows, KeyOrder
from spectrie_kernels.attention.work import AttentionWork

__all__ = ["Bounds", "Drafted", "Level"]

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What bounds levels.

    Attributes:
        num_pages: Pages of the model's cache.
        max_context: Positions, exclusive.
        vocabulary: Tokens of the model.
        store_rows: Rows of features that outlive a forward; None where none are read.
        max_rows: Draft rows of a step.
        shape: Of the drafter's attention.
        heights: Heights of attention's tiles.
        embedded: Tokens that have vectors.
        ahead: Of its layers that look ahead; None where there are none.
        block: What a row of a first level becomes; None where it stays one row.
    """

    num_pages: int
    max_context: int
    vocabulary: int
    store_rows: int | None
    max_rows: int
    shape: StepShape
    heights: tuple[int, int]
    embedded: int
    ahead: StepShape | None = None
    block: Block | None = None

    @property
    def draft_slots(self) -> int:
        """First slot of draft rows."""
        return self.num_pages * self.shape.page_size


@dataclass(frozen=True, slots=True)
class Drafted:
    """Draft rows of the step so far: positions, parents, the first row of each one's path, and which place among
    draft slots and states each has; int64."""

    positions: Int64
    parents: Int64
    roots: Int64
    places: Int64

    @classmethod
    def none(cls) -> Drafted:
        """Returns those of a step that begins."""
        return cls(*(np.zeros(0, np.int64) for _ in range(4)))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows as the device computes them; int64 but for `origins`, int32.

    Attributes:
        tokens, positions, slots: Of each that goes through the layers.
        origins: What each that is answered continues: a feature, or a state.
        places: Where the states go that are left.
        paths: Slots of keys behind the committed ones, path after path.
        path_begins: Where that of each row begins.
        seen: The last position that each row sees where it looks ahead.
    """

    tokens: Int64
    positions: Int64
    slots: Int64
    origins: Int32
    places: Int64
    paths: Int64
    path_begins: Int64
    seen: Int64


class Level:
    """A checked level.

    Args:
        plan: As the engine gave it.
        before: Rows of the step so far.
        bounds: What bounds it.
        num_features: Rows of the last forward whose features are there.
        owed: int32 [any, 2], moves of features that levels before it left to do.

    Raises:
        ValueError: It contradicts itself; the message names the first entry that does.
    """

    def __init__(
        self, plan: DraftPlan, before: Drafted, bounds: Bounds, num_features: int, owed: Int32
    ) -> None:
        self._plan, self._bounds = plan, bounds
        self.is_first = plan.level == 1
        known = 0 if self.is_first else len(before.parents)
        if plan.row_index != known or plan.level < 1:
            refuse("row_index", 0, plan.row_index, f"{known}")
        self._check_lengths()
        self.rows = len(plan.row_token)
        if known + self.rows > bounds.max_rows:
            raise ValueError(
                f"draft rows of a step has {known + self.rows} elements, expected {bounds.max_rows}"
            )
        check_indices("row_token", plan.row_token, bounds.vocabulary)
        check_indices("scored_token", plan.scored_token, bounds.vocabulary)
        if bounds.store_rows is not None:
            check_indices("request_feature", plan.request_feature, bounds.store_rows)
        # Upkeep on a GPU does not grow with rows, so that every token has its entry.
        check_indices("request_first", plan.request_first, 1)
        check_indices("kv_move_src", plan.kv_move_src, bounds.draft_slots)
        check_indices("kv_move_dst", plan.kv_move_dst, bounds.draft_slots)
        check_indices("page_ids", plan.page_ids, bounds.num_pages)
        self._check_requests()
        check_indices("row_request", plan.row_request, len(plan.request_kv_len))
        check_starts("scored_indptr", plan.scored_indptr, len(plan.scored_token))
        self.feature_moves = np.concatenate(
            [owed, moved_features(plan, num_features, bounds.store_rows)]
        )
        """int32 [any, 2], rows of features; those of a forward stand behind the store."""
        self._known = known
        self._rows_of(before)

    def _check_lengths(self) -> None:
        plan = self._plan
        rows, requests = len(plan.row_token), len(plan.request_kv_len)
        for what, given, expected in (
            ("row_position", len(plan.row_position), rows),
            ("row_request", len(plan.row_request), rows),
            ("row_parent", len(plan.row_parent), rows),
            ("scored_indptr", len(plan.scored_indptr), rows + 1),
            ("request_feature", len(plan.request_feature), requests),
            ("request_first", len(plan.request_first), requests),
            ("kv_move_dst", len(plan.kv_move_dst), len(plan.kv_move_src)),
            ("page_indptr", len(plan.page_indptr), requests + 1),
        ):
            if given != expected:
                raise ValueError(f"{what} has {given} elements, expected {expected}")

    def _check_requests(self) -> None:
        plan, bounds = self._plan, self._bounds
        check_starts("page_indptr", plan.page_indptr, len(plan.page_ids))
        lengths = plan.request_kv_len
        wrong = (lengths < 1) | (lengths >= bounds.max_context)
        if wrong.any():
            index = int(np.argmax(wrong))
            refuse("request_kv_len", index, lengths[index], f"1..{bounds.max_context}")
        room = np.diff(plan.page_indptr) * bounds.shape.page_size
        if (room < lengths).any():
            index = int(np.argmax(room < lengths))
            given = plan.page_indptr[index + 1]
            refuse("page_indptr", index, given, f"pages for {lengths[index]} tokens")

    def _rows_of(self, before: Drafted) -> None:
        """Finds path, slot and position of each row."""
        plan, known, rows = self._plan, self._known, self.rows
        parents = plan.row_parent.astype(np.int64)
        allowed = parents == -1 if self.is_first else (parents >= 0) & (parents < known)
        if not allowed.all():
            index = int(np.argmin(allowed))
            expected = "-1 on the first level"
            if not self.is_first:
                expected = f"0..{known}, a row of an earlier level"
            refuse("row_parent", index, plan.row_parent[index], expected)
        kv_len = plan.request_kv_len[plan.row_request].astype(np.int64)
        old = np.where(parents >= 0, before.positions[parents] if known else -1, kv_len - 1)
        depth = old + 1 - kv_len
        given = plan.row_position.astype(np.int64)
        wrong = (given != old + 1) | (depth < 0) | (given >= self._bounds.max_context)
        wrong |= depth >= MAX_TREE_ROWS
        if wrong.any():
            index = int(np.argmax(wrong))
            limit = self._bounds.max_context
            expected = f"{old[index] + 1}, behind its parent, and below the context limit {limit}"
            refuse("row_position", index, given[index], expected)
        states = None if self._bounds.block is None else self._bounds.block.states
        if states is not None and (depth >= states).any():
            index = int(np.argmax(depth >= states))
            limit = kv_len[index] + states
            refuse("row_position", index, given[index], f"below {limit}, within the block")
        number = np.arange(known, known + rows)
        roots = before.roots[parents] if known else number
        self.drafted = Drafted(
            np.concatenate([before.positions[:known], given]),
            np.concatenate([before.parents[:known], parents]),
            np.concatenate([before.roots[:known], roots]),
            np.concatenate([before.places[:known], number]),
        )
        """All rows of the step, these included."""
        # From each row up to the root of its path, one step for all of them.
        self._depth = depth
        begins = np.concatenate([[0], np.cumsum(depth + 1)]).astype(np.int64)
        paths = np.zeros(int(begins[-1]), np.int64)
        at = number
        for up in range(int(depth.max(initial=-1)) + 1):
            there = depth >= up
            paths[(begins[:-1] + depth - up)[there]] = self.drafted.places[at[there]]
            at = np.where(there, self.drafted.parents[at], at)
            at = np.maximum(at, 0)
        self._path_begin = begins
        self._paths = paths + self._bounds.draft_slots

    @property
    def moves(self) -> Int32:
        """Slots to copy, source and destination: int32 [any, 2]."""
        return moved_slots(self._plan)

    def part(self, rows: slice, scored: Scored, *, with_moves: bool) -> Sections:
        """Returns some of its rows for the device, with the level's moves or without."""
        plan, bounds = self._plan, self._bounds
        if bounds.block is None:
            packed = self._chains(rows)
        elif self.is_first:
            packed = self._blocks(rows, bounds.block)
        else:
            packed = self._recalled(rows, bounds.block)
        none = np.zeros((0, 2), np.int32)
        token = np.where(packed.tokens < bounds.embedded, packed.tokens, -1)
        arrays: list[NDArray[Any]] = [np.zeros(0, np.int32)] * len(LevelSection)
        arrays[LevelSection.TOKEN] = token
        arrays[LevelSection.POSITION] = packed.positions
        arrays[LevelSection.SLOT] = packed.slots
        arrays[LevelSection.ORIGIN] = packed.origins
        arrays[LevelSection.PLACE] = packed.places
        arrays[LevelSection.MOVES] = self.moves if with_moves else none
        arrays[LevelSection.FEATURE_MOVES] = self.feature_moves if with_moves else none
        arrays[LevelSection.PAGE_IDS] = plan.page_ids
        arrays[LevelSection.PATH_SLOTS] = packed.paths
        arrays[LevelSection.SCORED_AT] = scored.at
        arrays[LevelSection.SCORED_ROW] = scored.row
        arrays[LevelSection.SCORED_TOKEN] = scored.token
        arrays[LevelSection.ASKED] = plan.row_token[rows]
        if bounds.ahead is not None:
            arrays[LevelSection.SEEN] = packed.seen
        for shape, positions in (
            (bounds.shape, packed.positions),
            (bounds.ahead, packed.seen),
        ):
            if shape is not None:
                arrays += self._work(shape, rows, packed, positions)
        return Sections(arrays)

    def _chains(self, rows: slice) -> _Rows:
        """Rows that see their ancestors and continue their parent's state."""
        plan, bounds = self._plan, self._bounds
        number = np.arange(self._known + rows.start, self._known + rows.stop)
        if self.is_first:
            origins = plan.request_feature[plan.row_request[rows]]
        else:
            origins = self.drafted.places[plan.row_parent[rows]].astype(np.int32)
        begins = self._path_begin[rows]
        paths = self._paths[self._path_begin[rows.start] : self._path_begin[rows.stop]]
        positions = plan.row_position[rows].astype(np.int64)
        return _Rows(
            tokens=plan.row_token[rows].astype(np.int64),
            positions=positions,
            slots=bounds.draft_slots + number,
            origins=origins,
            places=number,
            paths=paths,
            path_begins=begins - (begins[0] if len(begins) else 0),
            seen=positions,
        )

    def _blocks(self, rows: slice, block: Block) -> _Rows:
        """Blocks. Their keys are read in the level alone, so that all parts of it take the same slots."""
        plan = self._plan
        positions = plan.row_position[rows].astype(np.int64)
        of_block = BlockRows(block, plan.row_token[rows], positions, self._bounds.draft_slots)
        number = np.arange(rows.start * block.states, rows.stop * block.states)
        return _Rows(
            tokens=of_block.tokens,
            positions=of_block.positions,
            slots=of_block.slots,
            origins=plan.request_feature[plan.row_request[rows]],
            places=number,
            paths=of_block.slots,
            path_begins=of_block.path_begins,
            seen=of_block.seen,
        )

    def _recalled(self, rows: slice, block: Block) -> _Rows:
        """Rows that are answered from the states of a block, one for each depth."""
        none = np.zeros(0, np.int64)
        roots = self.drafted.roots[self._known :][rows]
        origins = (roots * block.states + self._depth[rows]).astype(np.int32)
        return _Rows(none, none, none, origins, none, none, none, none)

    def _work(
        self, shape: StepShape, rows: slice, packed: _Rows, positions: Int64
    ) -> list[NDArray[Any]]:
        """Attention's work for rows that see what lies up to `positions`, window by window."""
        found: list[NDArray[Any]] = []
        draft_rows = self._attention(rows, packed, positions)
        for window in shape.windows:
            order = KeyOrder.of(shape.kv_heads, window)
            tiles = FixedTiles(*self._bounds.heights)
            work = AttentionWork.of(draft_rows, order, shape.group, tiles)
            found += [work.part_items, work.combined, work.prompt_items]
        return found

    def _attention(self, rows: slice, packed: _Rows, positions: Int64) -> DraftRows:
        """Runs of neighbouring rows of one request, which read its keys together; a block is one of its own."""
        plan, count = self._plan, len(positions)
        owner = plan.row_request[rows]
        row = np.arange(count)
        if self._bounds.block is None:
            begins = np.flatnonzero(np.diff(owner, prepend=-1) != 0)
            own = row - np.repeat(begins, np.diff(np.append(begins, count)))
            starts = np.flatnonzero(own % MAX_TREE_ROWS == 0)
            requests = owner[starts]
        else:
            starts = row[:: self._bounds.block.rows]
            requests = owner[: len(starts)]
        counts = np.diff(np.append(starts, count))
        pages = plan.page_indptr[requests]
        return DraftRows(
            row_ancestors=np.ones(count, np.int64),
            request_row_start=starts.astype(np.int32),
            request_row_count=counts.astype(np.int32),
            request_kv_len=plan.request_kv_len[requests],
            request_kind=np.ones(len(starts), np.int32),
            page_indptr=np.append(pages, len(plan.page_ids)).astype(np.int32),
            page_ids=plan.page_ids,
            page_size=self._bounds.shape.page_size,
            row_position=positions,
            path_begin=packed.path_begins,
            path_slots=packed.paths,
        )
