"""Kernels for tree verification, each beside its plain-torch reference.

Each function runs the plain-torch form on CPU tensors and the Triton kernel on GPU tensors (on all
tensors under Triton's interpreter, `TRITON_INTERPRET=1`). Only this file chooses between the two;
importing it does not need Triton.
"""

from __future__ import annotations

import importlib.util
import os

import torch

from spectrie_kernels import reference
from spectrie_kernels.layout import TreeLayout
from spectrie_kernels.linear_tiles import LinearTiles
from spectrie_kernels.linear_weight import LinearWeight
from spectrie_kernels.sum_order import SumOrder

__all__ = [
    "LinearTiles",
    "LinearWeight",
    "SumOrder",
    "TreeLayout",
    "has_triton",
    "row_argmax",
    "tree_attention",
    "verify_greedy",
]


def has_triton() -> bool:
    """Returns whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


def _runs_triton(tensor: torch.Tensor) -> bool:
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return (tensor.is_cuda or interpreted) and has_triton()


def tree_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    layout: TreeLayout,
    scale: float,
) -> torch.Tensor:
    """Computes attention of every row of a step over its request's pages: decode, chunks and trees.

    Args:
        query: [rows, heads, head_dim], float32, float16 or bfloat16.
        key_cache: [slots, kv_heads, head_dim], same dtype and device as `query`; heads is a
            multiple of kv_heads. The rows' own keys are already in their slots.
        value_cache: As `key_cache`.
        layout: The keys visible to each row; on the same device.
        scale: Factor on the scores, usually head_dim ** -0.5.

    Returns:
        [rows, heads, head_dim] in the dtype of `query`.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_attention(query, key_cache, value_cache, layout)
    if _runs_triton(query):
        from spectrie_kernels.device import tree_attention as triton_form

        return triton_form.tree_attention(query, key_cache, value_cache, layout, scale)
    return reference.tree_attention(query, key_cache, value_cache, layout, scale)


def row_argmax(logits: torch.Tensor) -> torch.Tensor:
    """Returns the likeliest token of each row; ties go to the lowest id, unlike in torch.argmax.

    Args:
        logits: [rows, vocabulary], any floating dtype, rows contiguous.

    Returns:
        [rows] int32.

    Raises:
        ValueError: `logits` is not a matrix, or has no columns.
    """
    if logits.dim() != 2 or logits.shape[1] == 0:
        raise ValueError(f"logits have shape {list(logits.shape)}, expected [rows, vocabulary]")
    if _runs_triton(logits):
        from spectrie_kernels.device import row_argmax as triton_form

        return triton_form.row_argmax(logits)
    return reference.row_argmax(logits)


def verify_greedy(
    argmax: torch.Tensor,
    row_token: torch.Tensor,
    row_parent: torch.Tensor,
    request_row_start: torch.Tensor,
    request_row_count: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Walks each request's tree along the model's greedy choices.

    The walk starts at node 0 and emits the model's token after each node. If a child carries that
    token, the walk continues at the first such child; otherwise it stops. A request without drafts is
    a tree of one row; pass the sampled row of a prefill chunk as such a tree.

    Args:
        argmax: [rows] int32, the model's choice after each row.
        row_token: [rows] int32, the token each row carries.
        row_parent: [rows] int32, index of the parent within the request, -1 for node 0.
        request_row_start: [requests] int32, first row of each request.
        request_row_count: [requests] int32, 1 to 64 rows.

    Returns:
        `counts` [requests] int32, tokens emitted (accepted drafts + 1); `path_rows`
        [requests, 64] int32, visited rows within the request; `emitted` [requests, 64] int32, the
        token emitted after each visited row. Entries from `counts` on are -1.

    Raises:
        ValueError: `row_token` or `row_parent` has another shape than `argmax`.
    """
    for name, tensor in (("row_token", row_token), ("row_parent", row_parent)):
        if tensor.shape != argmax.shape:
            raise ValueError(
                f"{name} has shape {list(tensor.shape)}, argmax has {list(argmax.shape)}"
            )
    arguments = (argmax, row_token, row_parent, request_row_start, request_row_count)
    if _runs_triton(argmax):
        from spectrie_kernels.device import verify_greedy as triton_form

        return triton_form.verify_greedy(*arguments)
    return reference.verify_greedy(*arguments)


def check_attention(
    query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, layout: TreeLayout
) -> None:
    """Raises ValueError naming the first argument of `tree_attention` that does not fit."""
    if query.dim() != 3 or key_cache.dim() != 3:
        raise ValueError(
            f"query {list(query.shape)} and key_cache {list(key_cache.shape)} must have 3 dimensions"
        )
    if key_cache.shape != value_cache.shape:
        raise ValueError(
            f"value_cache has shape {list(value_cache.shape)}, key_cache {list(key_cache.shape)}"
        )
    rows, heads, head_dim = query.shape
    kv_heads = key_cache.shape[1]
    if kv_heads == 0 or heads % kv_heads:
        raise ValueError(f"{heads} query heads are not a multiple of {kv_heads} key-value heads")
    if key_cache.shape[2] != head_dim:
        raise ValueError(f"head_dim is {head_dim} in query, {key_cache.shape[2]} in the cache")
    if rows != layout.row_owner.shape[0]:
        raise ValueError(f"query has {rows} rows, the layout {layout.row_owner.shape[0]}")
    for name, tensor in (("key_cache", key_cache), ("value_cache", value_cache)):
        if tensor.dtype != query.dtype or tensor.device != query.device:
            raise ValueError(
                f"{name} is {tensor.dtype} on {tensor.device}, query {query.dtype} on {query.device}"
            )
