"""The numbers of one step in one int32 buffer, and how to write them from a plan built by hand.

A table comes first: of each section two words, where it begins and how long it is. Every section begins
at a multiple of 8 words and has room for 8 or more. Sections are those of `PackedSection`, then three of
each distinct window of the model: `PackedWork`. Serving writes the same buffer in Rust (`Engine.pack`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spectrie._core import PackedSection, PackedWork, PackingError
from spectrie.model.plan import PlanArrays
from spectrie_kernels import AttentionRows, AttentionTiles, KeyOrder
from spectrie_kernels.attention.work import AttentionWork

__all__ = [
    "CUTS",
    "WALK_WIDTH",
    "WORK_WIDTHS",
    "FixedTiles",
    "PackedStep",
    "StepShape",
    "add_counts",
    "attention_rows",
    "count_words",
    "pack_plan",
    "section_spans",
]

_ALIGNED = 8
WORK_WIDTHS = (8, 4, 8)
"""Words of an entry of each `PackedWork`."""
WALK_WIDTH = 4
"""Words of an entry of the walks."""
CUTS = {"top_k": 1, "top_p": 2, "typical_p": 4}
"""Bits of `PackedStep.cuts`."""


@dataclass(frozen=True, slots=True)
class StepShape:
    """What a packed step depends on besides its plan.

    Attributes:
        group: Query heads of a key-value head.
        kv_heads: Key-value heads of the whole model, before ranks share them.
        windows: The distinct windows of the model's layers; None sees all keys.
        page_size: Slots of a page.
        vocabulary: Tokens of the vocabulary.
    """

    group: int
    kv_heads: int
    windows: tuple[int | None, ...]
    page_size: int
    vocabulary: int


class PackedStep(Protocol):
    """Where a packed step's sections lie, and what must be known of it on the host.

    Attributes:
        words: Words in use, the table included.
        rows, samples, tops, moves: Lengths R, S, T and M.
        has_prompts: Whether a request has more than 64 rows.
        is_drawn: Whether it says how the token of each sample row is drawn.
        cuts: Bits of `CUTS` that a row uses.
        has_lists: Whether there is any bias, seen, path or masked token.
        most_splits: A power of two that no row's number of splits exceeds.
    """

    @property
    def words(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def samples(self) -> int: ...
    @property
    def tops(self) -> int: ...
    @property
    def moves(self) -> int: ...
    @property
    def has_prompts(self) -> bool: ...
    @property
    def is_drawn(self) -> bool: ...
    @property
    def cuts(self) -> int: ...
    @property
    def has_lists(self) -> bool: ...
    @property
    def most_splits(self) -> int: ...
    def section(self, section: Any, /) -> tuple[int, int]:
        """Returns begin and length of a `PackedSection`, in words."""

    def work(self, window_index: int, which: int, /) -> tuple[int, int]:
        """Returns begin and length of a `PackedWork` section of a window, by its index in the shape."""


@dataclass(frozen=True, slots=True)
class _Packed:
    """A step packed from a plan built by hand; see `PackedStep`."""

    spans: list[tuple[int, int]]
    words: int
    rows: int
    samples: int
    tops: int
    moves: int
    has_prompts: bool
    most_splits: int
    is_drawn: bool = False
    cuts: int = 0
    has_lists: bool = False

    def section(self, section: Any, /) -> tuple[int, int]:
        return self.spans[int(section)]

    def work(self, window_index: int, which: int, /) -> tuple[int, int]:
        return self.spans[len(PackedSection) + len(PackedWork) * window_index + which]


class FixedTiles(AttentionTiles):
    """Tiles of given heights, whatever the step."""

    def heights(self, group: int, widest: int) -> tuple[int, int]:
        return self.part_rows, self.prompt_rows


def count_words(shape: StepShape) -> int:
    """Returns the words that `add_counts` adds to a packed step."""
    return _ALIGNED * (1 + len(shape.windows))


def add_counts(target: NDArray[np.int32], packed: PackedStep, shape: StepShape) -> int:
    """Writes behind a packed step what kernels read of its lists' lengths; returns the words in all.

    First how many moves there are, then how many walks; 8 words on, for each window, the numbers of its `PackedWork`.
    """
    target[packed.words] = packed.moves
    target[packed.words + 1] = packed.section(PackedSection.WALKS)[1] // WALK_WIDTH
    for index in range(len(shape.windows)):
        begin = packed.words + _ALIGNED * (1 + index)
        for which, width in zip(PackedWork, WORK_WIDTHS, strict=True):
            target[begin + which] = packed.work(index, which)[1] // width
    return packed.words + count_words(shape)


def attention_rows(plan: PlanArrays, page_size: int) -> AttentionRows:
    """Returns the rows of a plan as attention's plain form takes them."""
    return AttentionRows(
        row_ancestors=plan.row_ancestors,
        request_row_start=plan.request_row_start,
        request_row_count=plan.request_row_count,
        request_kv_len=plan.request_kv_len,
        request_kind=plan.request_kind,
        page_indptr=plan.page_indptr,
        page_ids=plan.page_ids,
        page_size=page_size,
    )


def pack_plan(
    plan: PlanArrays, shape: StepShape, part_rows: int, prompt_rows: int, target: NDArray[np.int32]
) -> PackedStep:
    """Writes a plan to a buffer; draws are left empty.

    Args:
        plan: The step.
        shape: Of the model.
        part_rows: Height of attention's tiles in the split form, in rows (nodes times the group).
        prompt_rows: The same of prompts.
        target: int32, written from its beginning.

    Raises:
        PackingError: The target is too small; nothing was written.
        ValueError: The plan is inconsistent.
    """
    rows = attention_rows(plan, shape.page_size)
    heights = FixedTiles(part_rows, prompt_rows)
    works = [
        AttentionWork.of(rows, KeyOrder.of(shape.kv_heads, window), shape.group, heights)
        for window in shape.windows
    ]
    _, path_slots = rows.paths()
    empty = np.zeros(0, np.int32)
    arrays: list[NDArray[Any]] = [
        plan.row_token,
        plan.row_position,
        plan.row_slot,
        plan.sample_rows,
        plan.top_rows,
        np.stack([plan.kv_move_src, plan.kv_move_dst], axis=1),
        plan.page_ids,
        path_slots,
        *[empty] * (PackedSection.ROW_PARENT - PackedSection.SEED),
        plan.row_parent,
        _walks(plan),
    ]
    for work in works:
        arrays += [work.part_items, work.combined, work.prompt_items]
    spans, words = section_spans([array.size for array in arrays])
    if words > len(target):
        error = PackingError(f"the step has {words} words, the memory {len(target)}")
        error.needed_words = words
        raise error
    target[: 2 * len(spans)] = np.array(spans, np.int32).reshape(-1)
    for (begin, length), array in zip(spans, arrays, strict=True):
        target[begin : begin + length] = array.reshape(-1)
    return _Packed(
        spans=spans,
        words=words,
        rows=len(plan.row_token),
        samples=len(plan.sample_rows),
        tops=len(plan.top_rows),
        moves=len(plan.kv_move_src),
        has_prompts=any(work.prompt_items.size for work in works),
        most_splits=max(work.most_splits for work in works),
    )


def _walks(plan: PlanArrays) -> NDArray[np.int32]:
    """First row, rows and first sample of each tree with drafts whose rows are all sampled, and 0."""
    starts, counts = plan.request_row_start, plan.request_row_count
    is_tree = (plan.request_kind == 1) & (counts > 1)
    samples = np.searchsorted(plan.sample_rows, starts)
    behind = np.searchsorted(plan.sample_rows, starts + counts)
    chosen = is_tree & (behind - samples == counts)
    columns = (starts, counts, samples, np.zeros_like(starts))
    walks: NDArray[np.int32] = np.stack(columns, axis=1)[chosen].astype(np.int32)
    return walks


def section_spans(lengths: list[int]) -> tuple[list[tuple[int, int]], int]:
    """Returns begin and length of each section behind the table, and where the last one's room ends."""
    begin = _aligned(2 * len(lengths))
    spans = []
    for length in lengths:
        spans.append((begin, length))
        begin += _aligned(max(1, length))
    return spans, begin


def _aligned(words: int) -> int:
    return -(-words // _ALIGNED) * _ALIGNED
