"""What the programs of attention do in one step, as items of 32 bytes: integers from integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrie_kernels.attention.key_order import UNIT, KeyOrder
from spectrie_kernels.attention.rows import MAX_TREE_ROWS, AttentionRows, Int32, Int64
from spectrie_kernels.attention.tiles import AttentionTiles

__all__ = ["AttentionWork"]


@dataclass(frozen=True, slots=True)
class AttentionWork:
    """Items of a step for layers of one window. Where one form ends and the other begins, how many
    rows a tile has and in which order items stand is speed alone: all give a row the same bits.

    Requests of up to 64 rows take the split form, whose parts go to a workspace: the sum that part i
    of split row r leaves is in slot i * split_rows + r, the tail's in part 0. Others, prompts, take
    the form that folds all parts in one program.

    Attributes:
        part_items: [items, 8] int32. A split of the prefix: nodes of the tile, first row, first key,
            end of the keys, where the request's pages begin, slot of the first node, and the
            positions from which and below which rows take part. A tail: 0, row, first key, end of the
            keys, pages, slot, the position from which keys lie on the path, and where the path begins.
        combined: [split_rows, 4] int32: row, slot of its first split, number of splits, 0.
        prompt_items: [items, 8] int32: nodes, first row, first key, end of the prefix, pages,
            position of the first node, keys of a split, 0.
        part_rows: Height of a tile of the split form, in rows (nodes times the group).
        prompt_rows: The same of prompts.
        most_splits: A power of two that no row's number of splits exceeds.
    """

    part_items: Int32
    combined: Int32
    prompt_items: Int32
    part_rows: int
    prompt_rows: int
    most_splits: int

    @classmethod
    def of(
        cls, rows: AttentionRows, order: KeyOrder, group: int, tiles: AttentionTiles
    ) -> AttentionWork:
        """Returns the work of a step.

        Args:
            rows: The step.
            order: Of the model and the layers' window.
            group: Query heads of a key-value head.
            tiles: Heights of the highest tiles.
        """
        few = rows.request_row_count <= MAX_TREE_ROWS
        widest = int(rows.request_row_count[few].max(initial=1))
        part_rows, prompt_rows = tiles.heights(group, widest)
        splits, combined = _split_form(rows, order, few, part_rows // group)
        prompts = _prompt_form(rows, order, ~few, prompt_rows // group)
        most_splits = _power_of_two(int(combined[:, 2].max(initial=1)))
        return cls(splits, combined, prompts, part_rows, prompt_rows, most_splits)

    @property
    def split_rows(self) -> int:
        """Rows of the split form."""
        return len(self.combined)


def _split_form(
    rows: AttentionRows, order: KeyOrder, few: NDArray[np.bool_], nodes_per_tile: int
) -> tuple[Int32, Int32]:
    positions, owner = rows.positions(), rows.owner
    row = np.flatnonzero(few[owner])
    compact = np.cumsum(few[owner]) - 1
    chosen = np.flatnonzero(few & (rows.request_row_count > 0))
    if not len(row):
        return _items([np.zeros(0)] * 8), _items([np.zeros(0)] * 4)
    starts = rows.request_row_start[chosen]
    # A row is at most 63 positions behind the cached keys: a request's rows lie in two units.
    lowest = rows.request_kv_len[chosen] // UNIT
    highest = np.maximum.reduceat(positions[row], compact[starts]) // UNIT
    lower, upper = order.spans(lowest * UNIT), order.spans(highest * UNIT)
    # Rows that are cut alike share programs; where the split changes between the units, each unit has
    # its own.
    alike = lower.split == upper.split
    apart = np.flatnonzero(~alike)
    form = np.concatenate([np.arange(len(chosen)), apart])
    low = np.concatenate([lowest, highest[apart]]) * UNIT
    high = np.concatenate([np.where(alike, highest, lowest), highest[apart]]) * UNIT + UNIT
    begin = np.concatenate([lower.begin, upper.begin[apart]])
    end = np.concatenate([np.where(alike, upper.end, lower.end), upper.end[apart]])
    split = np.concatenate([lower.split, upper.split[apart]])
    first_split = begin // split
    splits = np.where(end > begin, -(-end // split) - first_split, 0)

    counts = rows.request_row_count[chosen][form]
    tiles = -(-counts // nodes_per_tile)
    which, index = _runs(splits * tiles)
    first_node = index % tiles[which] * nodes_per_tile
    part = index // tiles[which]
    keys = (first_split[which] + part) * split[which]
    first = starts[form[which]] + first_node
    prefix = [
        np.minimum(nodes_per_tile, counts[which] - first_node),
        first,
        np.maximum(keys, begin[which]),
        np.minimum(keys + split[which], end[which]),
        rows.page_indptr[chosen[form[which]]],
        (1 + part) * len(row) + compact[first],
        low[which],
        high[which],
    ]
    spans = order.spans(positions[row])
    path_begin, _ = rows.paths()
    is_tree = rows.request_kind[owner[row]] != 0
    tails = [
        np.zeros(len(row)),
        row,
        spans.end,
        positions[row] + 1,
        rows.page_indptr[owner[row]],
        compact[row],
        np.where(is_tree, rows.request_kv_len[owner[row]], positions[row] + 1),
        path_begin[row],
    ]
    # A row's parts are counted from its request's first split, whichever rows have that.
    request = np.searchsorted(chosen, owner[row])
    own_form_first = lower.first_split[request]
    own_form_first = np.where(
        alike[request] | (positions[row] // UNIT == lowest[request]),
        own_form_first,
        upper.first_split[request],
    )
    slot = (1 + spans.first_split - own_form_first) * len(row) + compact[row]
    combined = _items([row, slot, spans.splits, np.zeros(len(row))])
    return np.concatenate([_items(prefix), _items(tails)]), combined


def _prompt_form(
    rows: AttentionRows, order: KeyOrder, many: NDArray[np.bool_], nodes_per_tile: int
) -> Int32:
    chosen = np.flatnonzero(many)
    cached, counts = rows.request_kv_len[chosen], rows.request_row_count[chosen]
    # No tile has rows of two units, so that all of its rows are cut alike.
    units = -(-(cached + counts) // UNIT) - cached // UNIT
    which, index = _runs(units)
    unit = (cached[which] // UNIT + index) * UNIT
    first = np.maximum(unit, cached[which])
    behind = np.minimum(unit + UNIT, cached[which] + counts[which])
    tile, index = _runs(-(-(behind - first) // nodes_per_tile))
    position = first[tile] + index * nodes_per_tile
    request = chosen[which[tile]]
    spans = order.spans(position)
    items = _items(
        [
            np.minimum(nodes_per_tile, behind[tile] - position),
            rows.request_row_start[request] + position - rows.request_kv_len[request],
            spans.begin,
            spans.end,
            rows.page_indptr[request],
            position,
            spans.split,
            np.zeros(len(position)),
        ]
    )
    # The longest first: the last to end are then short.
    return items[np.argsort(spans.begin - spans.end, kind="stable")]


def _runs(counts: Int64) -> tuple[Int64, Int64]:
    """Owner and index within it of each of `counts` things of each owner."""
    owner = np.repeat(np.arange(len(counts)), counts)
    begins = np.cumsum(counts) - counts
    return owner, np.arange(len(owner)) - begins[owner]


def _items(columns: list[Any]) -> Int32:
    return np.stack([np.asarray(one, np.int32) for one in columns], axis=1)


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()
