"""The rows of one step and the keys that each sees, as integers on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_TREE_ROWS", "AttentionRows", "DraftRows"]

MAX_TREE_ROWS = 64
"""Rows of a draft tree: bits of an ancestor word."""

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AttentionRows:
    """Rows of a step grouped by request, over paged keys and values.

    Logical index p of request q lies in slot
    `page_ids[page_indptr[q] + p // page_size] * page_size + p % page_size`. Row j of request q has
    logical index `kv_len[q] + j`. A chunk row sees logical indices 0..kv_len+j; a tree row sees
    0..kv_len-1 and each row i of its request whose bit i is set in its ancestor word (bit j, its
    own, included). The position of a row is kv_len plus its depth; parents come before children.

    Attributes:
        row_ancestors: [rows] int64, the ancestor word; ignored for chunk rows.
        request_row_start: [requests] int32, first row; requests follow one another.
        request_row_count: [requests] int32, number of rows; at most 64 for trees.
        request_kv_len: [requests] int32, keys already in the cache before this step.
        request_kind: [requests] int32, 0 chunk, 1 tree.
        page_indptr: [requests + 1] int32, where each request's pages begin in `page_ids`.
        page_ids: int32, page numbers.
        page_size: Slots in a page, a power of two from 1 to 64.
    """

    row_ancestors: Int64
    request_row_start: Int32
    request_row_count: Int32
    request_kv_len: Int32
    request_kind: Int32
    page_indptr: Int32
    page_ids: Int32
    page_size: int

    def __post_init__(self) -> None:
        size = self.page_size
        if size < 1 or size > 64 or size & (size - 1):
            raise ValueError(f"page_size is {size}, expected a power of two from 1 to 64")
        if self.row_ancestors.dtype != np.int64:
            raise ValueError(f"row_ancestors is {self.row_ancestors.dtype}, expected int64")
        requests = len(self.request_row_start)
        if len(self.page_indptr) != requests + 1:
            raise ValueError(
                f"page_indptr has {len(self.page_indptr)} entries, expected {requests + 1}"
            )
        counts = self.request_row_count
        if int(counts.sum()) != len(self.row_ancestors):
            raise ValueError(
                f"requests have {int(counts.sum())} rows, row_ancestors {len(self.row_ancestors)}"
            )
        widest = int(counts[self.request_kind != 0].max(initial=0))
        if widest > MAX_TREE_ROWS:
            raise ValueError(f"a tree has {widest} rows, at most {MAX_TREE_ROWS} are allowed")

    @property
    def owner(self) -> Int64:
        """Request of each row."""
        return np.repeat(np.arange(len(self.request_row_count)), self.request_row_count)

    def positions(self) -> Int64:
        """Position of each row: the keys cached before this step and the row's depth."""
        depths = np.bitwise_count(self.row_ancestors.view(np.uint64)).astype(np.int64) - 1
        owner = self.owner
        own = np.arange(len(owner)) - self.request_row_start[owner]
        steps = np.where(self.request_kind[owner] != 0, depths, own)
        positions: Int64 = self.request_kv_len[owner] + steps
        return positions

    def slots(self, request: Int64, logical: Int64) -> Int64:
        """Slot of each logical index of each request named beside it."""
        page = self.page_ids[self.page_indptr[request] + logical // self.page_size]
        slots: Int64 = page.astype(np.int64) * self.page_size + logical % self.page_size
        return slots

    def paths(self) -> tuple[Int64, Int64]:
        """Slots of each tree row's ancestors in this step, from the root to itself.

        Returns:
            Where each row's path begins, [rows], and the slots of all paths; chunk rows have none.
        """
        owner = self.owner
        words = np.where(self.request_kind[owner] != 0, self.row_ancestors, 0).view(np.uint64)
        bits = np.unpackbits(
            words.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little"
        )
        row, ancestor = np.nonzero(bits)
        begins = np.concatenate([[0], np.cumsum(bits.sum(axis=1, dtype=np.int64))])[:-1]
        return begins, self.slots(owner[row], self.request_kv_len[owner[row]] + ancestor)


@dataclass(frozen=True, slots=True)
class DraftRows(AttentionRows):
    """Rows of a tree whose own keys, and those of their ancestors, lie apart from their request's pages.

    Each row sees the cached keys of its request and those of its path. Ancestor words are not read, and
    rows of one request may stand in several requests of up to 64 rows here.

    Attributes:
        row_position: [rows] int64, at most 63 behind the cached keys.
        path_begin: [rows] int64, where each row's path begins in `path_slots`.
        path_slots: int64, slots of each row's ancestors from the one behind the cached keys to itself.
    """

    row_position: Int64
    path_begin: Int64
    path_slots: Int64

    def positions(self) -> Int64:
        """See `AttentionRows`."""
        return self.row_position

    def paths(self) -> tuple[Int64, Int64]:
        """See `AttentionRows`."""
        return self.path_begin, self.path_slots
