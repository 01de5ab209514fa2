"""Attention of a captured step in plain torch: each row's keys read from the items of its work; and those of roots."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie_kernels.attention.arrays import AttentionArrays, WorkArrays
from spectrie_kernels.attention.key_order import UNIT, KeyOrder
from spectrie_kernels.attention.roots import RootRows

__all__ = ["attention_of_items", "root_work"]


def attention_of_items(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    layout: AttentionArrays,
    scale: float,
    window: int | None,
    out: torch.Tensor,
    first_key: int = 0,
) -> torch.Tensor:
    """See `spectrie_kernels.tree_attention`. Rows that no item names keep what `out` held."""
    heads, width = key_cache.shape[1:]
    for row, slots in _seen(layout, window, first_key):
        # The query heads of a key head side by side.
        queries = query[row].float().view(heads, -1, width)
        keys, values = key_cache[slots].float(), value_cache[slots].float()
        scores = queries @ keys.permute(1, 2, 0) * scale
        attended = scores.softmax(dim=-1) @ values.transpose(0, 1)
        out[row] = attended.view(-1, width).to(out.dtype)
    return out


def _seen(
    layout: AttentionArrays, window: int | None, first_key: int
) -> Iterator[tuple[int, torch.Tensor]]:
    """Each row of the step with the slots of the keys that it sees."""
    work = layout.work[window]
    parts, _, prompts = work.counts.tolist()
    size, page_ids = layout.page_size, layout.page_ids.numpy().astype(np.int64)
    path_slots = layout.path_slots.numpy()

    def slots(page: int, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        return page_ids[page + keys // size] * size + keys % size

    def seen(end: int) -> NDArray[np.int64]:
        return np.arange(max(first_key, 0 if window is None else end - window), end)

    for nodes, row, _, end, page, _, own, path in work.part_items[:parts].tolist():
        # The tail of a row says where its pages and its path are; other items are parts of prefixes.
        if nodes == 0:
            keys = seen(end)
            before, on_path = (
                slots(page, keys[keys < own]),
                path_slots[path + keys[keys >= own] - own],
            )
            yield row, torch.from_numpy(np.concatenate([before, on_path.astype(np.int64)]))
    for nodes, row, _, _, page, position, _, _ in work.prompt_items[:prompts].tolist():
        for node in range(nodes):
            yield row + node, torch.from_numpy(slots(page, seen(position + node + 1)))


def root_work(
    rows: RootRows, count: torch.Tensor, order: KeyOrder, work: WorkArrays, depth: int
) -> None:
    """See `spectrie_kernels.root_work`."""
    number = int(count[0])
    positions, pages = rows.positions[:number].tolist(), rows.pages[:number].tolist()
    spans = order.spans(rows.positions[:number].numpy())
    items = work.part_items.view(-1, order.most_splits + 1, 8)
    for row, (position, page) in enumerate(zip(positions, pages, strict=True)):
        begin, end, split = (int(one[row]) for one in (spans.begin, spans.end, spans.split))
        unit, first, splits = (
            position // UNIT * UNIT,
            int(spans.first_split[row]),
            int(spans.splits[row]),
        )
        for part in range(order.most_splits):
            item = [1, row, 0, 0, page, 0, 0, 0]
            if part < splits:
                keys = (first + part) * split
                behind = min(keys + split, end)
                slot = (1 + part) * number + row
                item = [1, row, max(keys, begin), behind, page, slot, unit, unit + UNIT]
            items[row, part] = torch.tensor(item)
        own, path = max(position - depth, 0), row * (depth + 1)
        items[row, -1] = torch.tensor([0, row, end, position + 1, page, row, own, path])
        work.combined[row] = torch.tensor([row, number + row, splits, 0])
    parts = number * (order.most_splits + 1)
    work.counts.copy_(torch.tensor([parts, number, 0], dtype=torch.int32))
