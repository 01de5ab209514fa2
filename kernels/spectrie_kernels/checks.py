"""Whether the arguments of a kernel fit one another."""

from __future__ import annotations

import torch

from spectrie_kernels.attention.arrays import AttentionArrays
from spectrie_kernels.attention.layout import AttentionLayout
from spectrie_kernels.linear_weight import LINEAR_DTYPES, LinearWeight
from spectrie_kernels.partial_sums import PartialSums
from spectrie_kernels.sum_order import sum_nest

__all__ = [
    "check_attention",
    "check_gate",
    "check_gather",
    "check_linear",
    "check_logits",
    "check_moves",
    "check_norm",
    "check_operands",
    "check_rank_sums",
    "check_rotation",
    "check_sums",
    "check_tensor",
    "check_workspace",
]

_ALIGNED_BYTES = 16


def check_norm(
    residual: torch.Tensor,
    delta: torch.Tensor | PartialSums | None,
    weight: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Raises ValueError naming the first argument of `add_norm` that does not fit."""
    shape = list(residual.shape)
    if len(shape) != 2 or residual.dtype != torch.float32 or not residual.is_contiguous():
        raise ValueError(
            f"residual is {residual.dtype} {shape}, expected float32 [rows, features], contiguous"
        )
    if list(weight.shape) != shape[1:] or not weight.is_contiguous():
        raise ValueError(f"weight has shape {list(weight.shape)}, expected {shape[1:]}, contiguous")
    if list(out.shape) != shape or not out.is_contiguous():
        raise ValueError(f"out has shape {list(out.shape)}, expected {shape}, contiguous")
    tensors = {
        "residual": residual,
        "weight": weight,
        "out": out,
        **_checked_delta(delta, residual),
    }
    for name, tensor in tensors.items():
        if tensor.device != residual.device:
            raise ValueError(f"{name} is on {tensor.device}, residual on {residual.device}")
        # Triton compiles another kernel for addresses of less, whose sums may have another order.
        if tensor.data_ptr() % _ALIGNED_BYTES:
            raise ValueError(f"{name} does not begin at a multiple of {_ALIGNED_BYTES} bytes")


def _checked_delta(
    delta: torch.Tensor | PartialSums | None, residual: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Returns the tensors of what is added to the residual stream, if their shapes fit."""
    shape = list(residual.shape)
    if delta is None:
        return {}
    if isinstance(delta, torch.Tensor):
        check_tensor("delta", delta, delta.dtype, list(shape), residual.device)
        return {"delta": delta}
    if list(delta.values.shape[1:]) != shape:
        raise ValueError(f"delta has shape {list(delta.values.shape)}, expected [parts, *{shape}]")
    if not delta.pairwise and delta.values.shape[0] > 1:
        raise ValueError("delta has parts to be added ascending, expected pairwise")
    bias = {} if delta.bias is None else {"bias": delta.bias}
    return {"delta": delta.values, **bias}


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
    widened = values.dtype == torch.float32 and x.dtype in LINEAR_DTYPES
    if not (widened or x.dtype == values.dtype) or x.device != values.device:
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


def check_tensor(
    name: str,
    tensor: torch.Tensor,
    dtype: torch.dtype,
    shape: list[int | None],
    device: torch.device,
) -> None:
    """Raises ValueError unless a tensor is contiguous and of that kind; None is any length."""
    given = list(tensor.shape)
    fits = len(given) == len(shape) and all(
        wanted is None or wanted == length for length, wanted in zip(given, shape, strict=True)
    )
    if not fits or tensor.dtype != dtype or not tensor.is_contiguous():
        wanted = ["any" if one is None else one for one in shape]
        raise ValueError(f"{name} is {tensor.dtype} {given}, expected {dtype} {wanted}, contiguous")
    if tensor.device != device:
        raise ValueError(f"{name} is on {tensor.device}, expected on {device}")


def check_gather(
    name: str, x: torch.Tensor, rows: torch.Tensor, out: torch.Tensor, dtype: torch.dtype
) -> None:
    """Raises ValueError naming the first argument of a gather from `x`, called `name`, that does not
    fit."""
    check_tensor(name, x, x.dtype, [None, None], x.device)
    check_tensor("rows", rows, torch.int32, [None], x.device)
    check_tensor("out", out, dtype, [rows.shape[0], x.shape[1]], x.device)


def check_moves(
    keys: torch.Tensor, values: torch.Tensor, moves: torch.Tensor, count: torch.Tensor
) -> None:
    """Raises ValueError naming the first argument of `move_slots` that does not fit."""
    check_tensor("keys", keys, keys.dtype, [None] * 4, keys.device)
    check_tensor("values", values, keys.dtype, list(keys.shape), keys.device)
    check_tensor("moves", moves, torch.int32, [None, 2], keys.device)
    check_tensor("count", count, torch.int32, [1], keys.device)


def check_compaction(
    keys: torch.Tensor,
    values: torch.Tensor,
    drawn: torch.Tensor,
    rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    walks: torch.Tensor,
    count: torch.Tensor,
) -> None:
    """Raises ValueError naming the first argument of `compact_slots` that does not fit."""
    check_tensor("keys", keys, keys.dtype, [None] * 4, keys.device)
    check_tensor("values", values, keys.dtype, list(keys.shape), keys.device)
    check_tensor("drawn", drawn, torch.int32, [None], keys.device)
    for name, tensor in zip(("tokens", "parents", "slots"), rows, strict=True):
        check_tensor(name, tensor, torch.int32, list(rows[0].shape[:1]), keys.device)
    check_tensor("walks", walks, torch.int32, [None, 4], keys.device)
    check_tensor("count", count, torch.int32, [1], keys.device)


def check_gate(gate_up: torch.Tensor | PartialSums, out: torch.Tensor) -> None:
    """Raises ValueError naming the first argument of `gate` that does not fit."""
    check_tensor("out", out, out.dtype, [None, None], out.device)
    _check_product("gate_up", gate_up, [out.shape[0], 2 * out.shape[1]], out)


def check_rotation(
    qkv: torch.Tensor | PartialSums,
    positions: torch.Tensor,
    slots: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    query: torch.Tensor,
    rotation: tuple[torch.Tensor, torch.Tensor] | None,
    norms: tuple[torch.Tensor, torch.Tensor] | None,
) -> None:
    """Raises ValueError naming the first argument of `rotate_write` that does not fit."""
    check_tensor("query", query, query.dtype, [None, None, None], query.device)
    rows, heads, head_dim = query.shape
    check_tensor("keys", keys, query.dtype, [None, None, head_dim], query.device)
    check_tensor("values", values, query.dtype, list(keys.shape), query.device)
    _check_product("qkv", qkv, [rows, (heads + 2 * keys.shape[1]) * head_dim], query)
    check_tensor("positions", positions, torch.int32, [rows], query.device)
    check_tensor("slots", slots, torch.int32, [rows], query.device)
    if rotation is not None:
        cosines, sines = rotation
        check_tensor("cosines", cosines, torch.float32, [None, None], query.device)
        check_tensor("sines", sines, torch.float32, list(cosines.shape), query.device)
        if not 0 < 2 * cosines.shape[1] <= head_dim:
            raise ValueError(
                f"cosines have {cosines.shape[1]} columns, expected 1 to {head_dim // 2}: half of the "
                "rotated dimensions"
            )
    for name, norm in zip(("query norm", "key norm"), norms or (), strict=False):
        check_tensor(name, norm, torch.float32, [head_dim], query.device)


def _check_product(
    name: str, product: torch.Tensor | PartialSums, shape: list[int], like: torch.Tensor
) -> None:
    if isinstance(product, PartialSums):
        check_tensor(name, product.values, torch.float32, [None, *shape], like.device)
    else:
        check_tensor(name, product, like.dtype, list(shape), like.device)


def check_logits(logits: torch.Tensor) -> None:
    """Raises ValueError unless logits are a contiguous matrix with columns."""
    shape = list(logits.shape)
    if len(shape) != 2 or shape[1] == 0 or not logits.is_contiguous():
        raise ValueError(f"logits have shape {shape}, expected [rows, vocabulary], contiguous")


def check_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    layout: AttentionLayout | AttentionArrays,
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


def _check_heads(
    query: torch.Tensor, key_cache: torch.Tensor, layout: AttentionLayout | AttentionArrays
) -> None:
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
