"""Launches attention: parts and combine for requests of few rows, one program a tile for prompts.

Sources:
1. Dao et al., Flash-Decoding, 2023: split keys, combine by log-sum-exp.
2. Yao et al., DeFT, arXiv 2404.00242: load each key block once for all queries that see it.
"""

from __future__ import annotations

from typing import Any

import torch
import triton

from spectrie_kernels.attention.arrays import AttentionArrays
from spectrie_kernels.attention.layout import AttentionLayout, DeviceWork
from spectrie_kernels.backend import is_interpreted_bfloat16
from spectrie_kernels.device.attention_parts import combine_kernel, part_kernel
from spectrie_kernels.device.attention_prompt import prompt_kernel

__all__ = ["combine_form", "form", "tree_attention"]

_LOG2_E = 1.4426950408889634


def tree_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    layout: AttentionLayout | AttentionArrays,
    scale: float,
    window: int | None,
    out: torch.Tensor,
    workspace: torch.Tensor | None,
    first_key: int = 0,
) -> torch.Tensor:
    """See `spectrie_kernels.tree_attention`."""
    half = query.dtype != torch.float32
    if is_interpreted_bfloat16(query):
        caches = key_cache.float(), value_cache.float()
        exact = out.float()
        launch(query.float(), *caches, layout, scale, window, exact, workspace, half, first_key)
        return out.copy_(exact)
    caches = key_cache, value_cache
    launch(query, *caches, layout, scale, window, out, workspace, half, first_key)
    return out


def launch(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    layout: AttentionLayout | AttentionArrays,
    scale: float,
    window: int | None,
    out: torch.Tensor,
    workspace: torch.Tensor | None,
    half: bool,
    first_key: int = 0,
) -> None:
    """Launches the kernels, `half` as in `form`."""
    _, heads, head_dim = query.shape
    kv_heads = key_cache.shape[1]
    work = layout.work[window]
    scale_log2 = scale * _LOG2_E
    caches = (query, key_cache, value_cache)
    shape = {
        "GROUP": layout.group,
        "KV_HEADS": kv_heads,
        "HEAD_DIM": head_dim,
        "PAGE_SIZE": layout.page_size,
        "WINDOW": window or 0,
        "FIRST_KEY": first_key,
    }
    if work.part_items.shape[0]:
        partial, partial_max, partial_sum = _parts(work, heads, head_dim, workspace, query.device)
        tail_rows = max(16, triton.next_power_of_2(layout.group))
        constants, options = form(head_dim, work.part_rows, half)
        part_kernel[(kv_heads, _programs(work.part_items, work))](
            *caches,
            partial,
            partial_max,
            partial_sum,
            work.part_items,
            work.counts,
            layout.row_position,
            layout.path_slots,
            layout.page_ids,
            scale_log2,
            TAIL_ROWS=tail_rows,
            **shape,
            **constants,
            **options,
        )
        constants, options = combine_form(head_dim, work.most_splits)
        combine_kernel[(work.combined.shape[0], heads)](
            partial,
            partial_max,
            partial_sum,
            out,
            work.combined,
            work.counts,
            HEADS=heads,
            HEAD_DIM=head_dim,
            **constants,
            **options,
        )
    if work.prompt_items.shape[0]:
        constants, options = form(head_dim, work.prompt_rows, half)
        prompt_kernel[(kv_heads, _programs(work.prompt_items, work))](
            *caches,
            out,
            work.prompt_items,
            work.counts,
            layout.page_ids,
            scale_log2,
            **shape,
            **constants,
            **options,
        )


def _programs(items: torch.Tensor, work: DeviceWork) -> int:
    return items.shape[0] if work.programs is None else min(items.shape[0], work.programs)


def form(head_dim: int, tile_rows: int, half: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the constants and compiler's options for tiles of `tile_rows` rows.

    Args:
        head_dim: Size of a head.
        tile_rows: Nodes of a tile times the group.
        half: Whether products are of half precision, hence of the matrix instruction: steps of 64
            keys. float32 takes steps of 16, as a thread then holds all terms of a step.
    """
    block_dim = max(16, triton.next_power_of_2(head_dim))
    constants = {
        "HALF": half,
        "BLOCK_ROWS": tile_rows,
        "BLOCK_KEYS": 64 if half else 16,
        "BLOCK_DIM": block_dim,
    }
    # Which products are fused with a sum is written down; the compiler fuses no other. Left to itself it
    # takes fewer registers for some devices, and spills.
    return constants, {
        "num_warps": 4 if tile_rows == 16 and block_dim <= 128 else 8,
        "num_stages": 3 if half else 1,
        "maxnreg": 255,
        "enable_fp_fusion": False,
    }


def combine_form(head_dim: int, max_splits: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the constants and compiler's options of the combine of that many splits and a tail."""
    block_dim = max(16, triton.next_power_of_2(head_dim))
    constants = {"BLOCK_DIM": block_dim, "MAX_SPLITS": max_splits}
    return constants, {"num_warps": max(1, block_dim // 128), "enable_fp_fusion": False}


def _parts(
    work: DeviceWork,
    heads: int,
    head_dim: int,
    workspace: torch.Tensor | None,
    device: torch.device,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Vectors, maxima and sums of the parts, in the workspace."""
    elements = work.workspace(heads, head_dim)
    if workspace is None:
        workspace = torch.empty(elements, dtype=torch.float32, device=device)
    scalars = elements // (head_dim + 2)
    vectors = workspace[: scalars * head_dim]
    maxima = workspace[scalars * head_dim : scalars * (head_dim + 1)]
    return vectors, maxima, workspace[scalars * (head_dim + 1) : elements]
