"""Attention of a captured step in plain torch: each row's keys read from the items of its work."""

from __future__ import annotations

import torch

from spectrie_kernels.attention.arrays import AttentionArrays

__all__ = ["attention_of_items"]


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
    group = query.shape[1] // key_cache.shape[1]
    for row, slots in _seen(layout, window, first_key):
        keys = key_cache[slots].float().repeat_interleave(group, dim=1)
        values = value_cache[slots].float().repeat_interleave(group, dim=1)
        scores = torch.einsum("hd,khd->hk", query[row].float(), keys) * scale
        out[row] = torch.einsum("hk,khd->hd", scores.softmax(dim=-1), values).to(out.dtype)
    return out


def _seen(
    layout: AttentionArrays, window: int | None, first_key: int
) -> list[tuple[int, torch.Tensor]]:
    """Each row of the step with the slots of the keys that it sees."""
    work = layout.work[window]
    parts, _, prompts = work.counts.tolist()
    found = []
    for nodes, row, _, end, page, _, own, path in work.part_items[:parts].tolist():
        # The tail of a row says where its pages and its path are; other items are parts of prefixes.
        if nodes == 0:
            seen = torch.arange(max(first_key, 0 if window is None else end - window), end)
            before = _slots(layout, page, seen[seen < own])
            on_path = layout.path_slots[path + seen[seen >= own] - own].long()
            found.append((row, torch.cat([before, on_path])))
    for nodes, row, _, _, page, position, _, _ in work.prompt_items[:prompts].tolist():
        for node in range(nodes):
            end = position + node + 1
            seen = torch.arange(max(first_key, 0 if window is None else end - window), end)
            found.append((row + node, _slots(layout, page, seen)))
    return found


def _slots(layout: AttentionArrays, page: int, keys: torch.Tensor) -> torch.Tensor:
    size = layout.page_size
    return layout.page_ids[page + keys // size].long() * size + keys % size
