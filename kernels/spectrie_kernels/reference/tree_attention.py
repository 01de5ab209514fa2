"""Attention over pages for chunks and trees, in plain torch: one request after the other."""

from __future__ import annotations

import numpy as np
import torch

from spectrie_kernels.attention.rows import AttentionRows

__all__ = ["tree_attention", "visible"]

CHUNK = 0


def visible(rows: AttentionRows, request: int, window: int | None = None) -> torch.Tensor:
    """Returns the logical indices visible to each row of `request`: bool [rows, kv_len + rows]."""
    start = int(rows.request_row_start[request])
    count = int(rows.request_row_count[request])
    kv_len = int(rows.request_kv_len[request])
    index = torch.arange(count)
    if int(rows.request_kind[request]) == CHUNK:
        own = index[None, :] <= index[:, None]
    else:
        words = torch.from_numpy(rows.row_ancestors[start : start + count])
        own = ((words[:, None] >> index[None, :]) & 1).bool()
    seen = torch.cat([own.new_ones(count, kv_len), own], dim=1)
    if window is not None:
        positions = torch.from_numpy(rows.positions()[start : start + count])
        of_keys = torch.cat([torch.arange(kv_len), positions])
        seen &= of_keys[None, :] > positions[:, None] - window
    return seen


def tree_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    rows: AttentionRows,
    scale: float,
    window: int | None = None,
    first_key: int = 0,
) -> torch.Tensor:
    """See `spectrie_kernels.tree_attention`. Scores and sums are float32; float64 for such a query."""
    output = torch.zeros_like(query)
    group = query.shape[1] // key_cache.shape[1]
    exact = torch.promote_types(query.dtype, torch.float32)
    for request in range(len(rows.request_row_start)):
        start = int(rows.request_row_start[request])
        count = int(rows.request_row_count[request])
        index = np.arange(int(rows.request_kv_len[request]) + count)
        slots = rows.slots(np.full_like(index, request), index)
        slot = torch.from_numpy(slots).to(query.device)
        keys = key_cache[slot].to(exact).repeat_interleave(group, dim=1)
        values = value_cache[slot].to(exact).repeat_interleave(group, dim=1)
        scores = torch.einsum("rhd,khd->hrk", query[start : start + count].to(exact), keys) * scale
        seen = visible(rows, request, window).to(query.device)
        seen[:, :first_key] = False
        scores = scores.masked_fill(~seen[None], float("-inf"))
        attended = torch.einsum("hrk,khd->rhd", scores.softmax(dim=-1), values)
        output[start : start + count] = attended.to(query.dtype)
    return output
