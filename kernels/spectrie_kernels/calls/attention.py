"""Attention of every row of a step over its request's pages."""

from __future__ import annotations

import torch

from spectrie_kernels import reference
from spectrie_kernels.attention.arrays import AttentionArrays
from spectrie_kernels.attention.layout import AttentionLayout
from spectrie_kernels.backend import runs_triton
from spectrie_kernels.checks import check_attention, check_workspace

__all__ = [
    "tree_attention",
]


def tree_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    layout: AttentionLayout | AttentionArrays,
    scale: float,
    *,
    window: int | None = None,
    out: torch.Tensor | None = None,
    workspace: torch.Tensor | None = None,
    first_key: int = 0,
) -> torch.Tensor:
    """Computes attention of every row of a step over its request's pages: decode, chunks and trees.

    On a GPU a row's bits depend on that row, its path's keys and the model alone. Given `out` and
    `workspace` it allocates nothing; it never waits for the device.

    Args:
        query: [rows, heads, head_dim], contiguous, float32, float16 or bfloat16.
        key_cache: [slots, kv_heads, head_dim], contiguous, same dtype and device as `query`. The
            rows' own keys are already in their slots.
        value_cache: As `key_cache`.
        layout: The step; on the same device. A rank may have a share of its heads, in equal groups.
            `AttentionArrays` is a step whose launches can be captured and repeated.
        scale: Factor on the scores, positive, usually head_dim ** -0.5.
        window: Keys that a row sees, its own included: one of the layout's; None for all.
        out: Like `query`, written and returned; None makes one.
        workspace: float32, contiguous, at least `DeviceWork.workspace` elements, for use by one call
            at a time. None makes one.
        first_key: Logical index of the first key of each request that its rows see: 0 or 1.

    Returns:
        `out`: [rows, heads, head_dim].

    Raises:
        ValueError: A shape, dtype, device, scale or window does not fit; the message names it.
    """
    if out is None:
        out = torch.empty_like(query)
    check_attention(query, key_cache, value_cache, layout, scale, window, out)
    if first_key not in (0, 1):
        raise ValueError(f"first_key is {first_key}, expected 0 or 1")
    if not runs_triton(query):
        caches = (key_cache, value_cache)
        if isinstance(layout, AttentionArrays):
            return reference.attention_of_items(
                query, *caches, layout, scale, window, out, first_key
            )
        plain = reference.tree_attention(query, *caches, layout.rows, scale, window, first_key)
        return out.copy_(plain)
    from spectrie_kernels.device import tree_attention as triton_form

    if workspace is not None:
        elements = layout.work[window].workspace(query.shape[1], query.shape[2])
        check_workspace(workspace, elements, query.device)
    return triton_form.tree_attention(
        query, key_cache, value_cache, layout, scale, window, out, workspace, first_key
    )
