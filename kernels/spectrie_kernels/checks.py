"""Whether the arguments of a kernel fit one another."""

from __future__ import annotations

import torch

from spectrie_kernels.attention.layout import AttentionLayout
from spectrie_kernels.linear_weight import LinearWeight
from spectrie_kernels.partial_sums import PartialSums
from spectrie_kernels.sum_order import sum_nest

__all__ = [
    "check_attention",
    "check_linear",
    "check_norm",
    "check_operands",
    "check_rank_sums",
    "check_sums",
    "check_workspace",
]

_ALIGNED_BYTES = 16


def check_norm(
    residual: torch.Tensor, delta: PartialSums | None, weight: torch.Tensor, out: torch.Tensor
) -> None:
    """Raises ValueError naming the first argument of `add_norm` that does not fit."""
    shape = list(residual.shape)
    if len(shape) != 2 or residual.dtype != torch.float32 or not residual.is_contiguous():
        raise ValueError(
            f"residual is {residual.dtype} {shape}, expected float32 [rows, features], contiguous"
        )
    if delta is not None and list(delta.values.shape[1:]) != shape:
        raise ValueError(f"delta has shape {list(delta.values.shape)}, expected [parts, *{shape}]")
    if list(weight.shape) != shape[1:] or not weight.is_contiguous():
        raise ValueError(f"weight has shape {list(weight.shape)}, expected {shape[1:]}, contiguous")
    if list(out.shape) != shape or not out.is_contiguous():
        raise ValueError(f"out has shape {list(out.shape)}, expected {shape}, contiguous")
    tensors = {"residual": residual, "weight": weight, "out": out}
    if delta is not None:
        tensors["delta"] = delta.values
        if delta.bias is not None:
            tensors["bias"] = delta.bias
    for name, tensor in tensors.items():
        if tensor.device != residual.device:
            raise ValueError(f"{name} is on {tensor.device}, residual on {residual.device}")
        # Triton compiles another kernel for addresses of less, whose sums may have another order.
        if tensor.data_ptr() % _ALIGNED_BYTES:
            raise ValueError(f"{name} does not begin at a multiple of {_ALIGNED_BYTES} bytes")


def check_rank_sums(sums: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> None:
    """Raises ValueError naming the first argument of `add_rank_sums` that does not fit."""
    if sums.dim() != 3 or sums.dtype != torch.float32 or not sums.is_contiguous():
        raise ValueError(
            f"sums are {sums.dtype} {list(sums.shape)}, expected float32 [ranks, rows, "
            "out_features], contiguous"
        )
    if out.shape != sums.shape[1:] or not out.is_contiguous():
        raise ValueError(
            f"out has shape {list(out.shape)}, expected {list(sums.shape[1:])}, contiguous"
        )
    if bias is not None and bias.shape != sums.shape[2:]:
        raise ValueError(f"bias has shape {list(bias.shape)}, expected {list(sums.shape[2:])}")
    sum_nest(sums.shape[0], pairwise=True)


def check_linear(x: torch.Tensor, weight: LinearWeight, out: torch.Tensor) -> None:
    """Raises ValueError naming the first argument of `linear` that does not fit."""
    check_operands(x, weight)
    expected = [x.shape[0], weight.out_features]
    if list(out.shape) != expected or not out.is_contiguous():
        raise ValueError(f"out has shape {list(out.shape)}, expected {expected}, contiguous")
    if out.dtype not in (x.dtype, torch.float32) or out.device != x.device:
        raise ValueError(
            f"out is {out.dtype} on {out.device}, expected {x.dtype} or float32 on {x.device}"
        )


def check_sums(x: torch.Tensor, out: torch.Tensor, shape: tuple[int, int, int]) -> None:
    """Raises ValueError if `out` cannot hold the partial sums of a product of `x`."""
    if tuple(out.shape) != shape or out.dtype != torch.float32 or not out.is_contiguous():
        raise ValueError(
            f"out is {out.dtype} {list(out.shape)}, expected float32 {list(shape)}, contiguous"
        )
    if out.device != x.device:
        raise ValueError(f"out is on {out.device}, x on {x.device}")


def check_operands(x: torch.Tensor, weight: LinearWeight) -> None:
    """Raises ValueError if `x` cannot be multiplied with the weight."""
    values = weight.values
    if x.dim() != 2 or x.shape[1] != weight.in_features or not x.is_contiguous():
        raise ValueError(
            f"x has shape {list(x.shape)}, expected [rows, {weight.in_features}], contiguous"
        )
    if x.dtype != values.dtype or x.device != values.device:
        raise ValueError(
            f"x is {x.dtype} on {x.device}, the weight {values.dtype} on {values.device}"
        )


def check_workspace(workspace: torch.Tensor, elements: int, device: torch.device) -> None:
    """Raises ValueError if a workspace is of the wrong kind or smaller than `elements`."""
    if workspace.dtype != torch.float32 or workspace.device != device:
        raise ValueError(
            f"workspace is {workspace.dtype} on {workspace.device}, expected float32 on {device}"
        )
    if workspace.numel() < elements or not workspace.is_contiguous():
        raise ValueError(
            f"workspace has {workspace.numel()} elements, expected {elements} or more, contiguous"
        )


def check_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    layout: AttentionLayout,
    scale: float,
    window: int | None,
    out: torch.Tensor,
) -> None:
    """Raises ValueError naming the first argument of `tree_attention` that does not fit."""
    _check_heads(query, key_cache, layout)
    if key_cache.shape != value_cache.shape:
        raise ValueError(
            f"value_cache has shape {list(value_cache.shape)}, key_cache {list(key_cache.shape)}"
        )
    if out.shape != query.shape:
        raise ValueError(f"out has shape {list(out.shape)}, query {list(query.shape)}")
    tensors = {"key_cache": key_cache, "value_cache": value_cache, "out": out, "query": query}
    for name, tensor in tensors.items():
        if tensor.dtype != query.dtype or tensor.device != query.device:
            raise ValueError(
                f"{name} is {tensor.dtype} on {tensor.device}, query {query.dtype} on {query.device}"
            )
        if not tensor.is_contiguous():
            raise ValueError(f"{name} is not contiguous")
    if layout.page_ids.device != query.device:
        raise ValueError(f"the layout is on {layout.page_ids.device}, query on {query.device}")
    if not scale > 0:
        raise ValueError(f"scale is {scale}, must be positive")
    if window not in layout.work:
        known = ", ".join(map(str, layout.work))
        raise ValueError(f"window is {window}, the layout was made for {known}")


def _check_heads(query: torch.Tensor, key_cache: torch.Tensor, layout: AttentionLayout) -> None:
    if query.dim() != 3 or key_cache.dim() != 3:
        raise ValueError(
            f"query {list(query.shape)} and key_cache {list(key_cache.shape)} must have 3 dimensions"
        )
    rows, heads, head_dim = query.shape
    kv_heads = key_cache.shape[1]
    if heads != kv_heads * layout.group:
        raise ValueError(
            f"{heads} query heads are not {layout.group} times {kv_heads} key-value heads, as the "
            "layout was made for"
        )
    if key_cache.shape[2] != head_dim:
        raise ValueError(f"head_dim is {head_dim} in query, {key_cache.shape[2]} in the cache")
    if rows != layout.row_position.shape[0]:
        raise ValueError(f"query has {rows} rows, the layout {layout.row_position.shape[0]}")
