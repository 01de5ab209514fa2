"""Attention over pages for chunks and trees, in plain torch: one request after the other."""

from __future__ import annotations

import torch

from spectrie_kernels.layout import TreeLayout

__all__ = ["tree_attention", "visible"]

CHUNK = 0


def visible(layout: TreeLayout, request: int) -> torch.Tensor:
    """Returns the logical indices visible to each row of `request`: bool [rows, kv_len + rows]."""
    start = int(layout.request_row_start[request])
    count = int(layout.request_row_count[request])
    kv_len = int(layout.request_kv_len[request])
    rows = torch.arange(count, device=layout.row_ancestors.device)
    if int(layout.request_kind[request]) == CHUNK:
        own = rows[None, :] <= rows[:, None]
    else:
        words = layout.row_ancestors[start : start + count]
        own = ((words[:, None] >> rows[None, :]) & 1).bool()
    return torch.cat([own.new_ones(count, kv_len), own], dim=1)


def tree_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    layout: TreeLayout,
    scale: float,
) -> torch.Tensor:
    """See `spectrie_kernels.tree_attention`. Scores and sums are float32."""
    output = torch.zeros_like(query)
    group = query.shape[1] // key_cache.shape[1]
    for request in range(layout.request_row_start.shape[0]):
        start = int(layout.request_row_start[request])
        count = int(layout.request_row_count[request])
        length = int(layout.request_kv_len[request]) + count
        first = int(layout.page_indptr[request])
        index = torch.arange(length, device=query.device)
        page = layout.page_ids[first + index // layout.page_size].long()
        slot = page * layout.page_size + index % layout.page_size
        keys = key_cache[slot].float().repeat_interleave(group, dim=1)
        values = value_cache[slot].float().repeat_interleave(group, dim=1)
        scores = torch.einsum("rhd,khd->hrk", query[start : start + count].float(), keys) * scale
        scores = scores.masked_fill(~visible(layout, request)[None], float("-inf"))
        rows = torch.einsum("hrk,khd->rhd", scores.softmax(dim=-1), values)
        output[start : start + count] = rows.to(query.dtype)
    return output
