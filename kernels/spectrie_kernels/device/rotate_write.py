"""Head norm, rotation and the write to the cache as one Triton kernel.

Sources:
1. Su et al., RoFormer: rotary position embedding, arXiv 2104.09864; dimension i is paired with i + rotated / 2.
2. Zhang and Sennrich, Root Mean Square Layer Normalization, arXiv 1910.07467.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from spectrie_kernels.backend import is_interpreted_bfloat16
from spectrie_kernels.device.product import (
    as_float32,
    load_product,
    product_arguments,
)
from spectrie_kernels.partial_sums import PartialSums

__all__ = ["compiled_form", "rotate_write"]

_TILE = 512

Pair = tuple[torch.Tensor, torch.Tensor]


@triton.jit
def neighbours_first(values, HEADS: tl.constexpr, DIMS: tl.constexpr):
    """[HEADS, DIMS] -> [HEADS]: sums of two, neighbours first, that no layout of threads can change."""
    for level in tl.static_range(10):
        if (DIMS >> level) > 1:
            values = tl.sum(tl.reshape(values, (HEADS, DIMS >> (level + 1), 2)), axis=2)
    return tl.reshape(values, (HEADS,))


@triton.jit(do_not_specialize=["parts", "num_rows"])
def _rotate_write_kernel(
    qkv,
    bias,
    positions,
    slots,
    cosines,
    sines,
    query_norm,
    key_norm,
    keys,
    values,
    query,
    parts,
    num_rows,
    epsilon,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HALF: tl.constexpr,
    HAS_NORMS: tl.constexpr,
    SUMS: tl.constexpr,
    ASCENDING: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """Some heads of one row: queries first, then keys, then values.

    With x a head of a query or key: x = x / sqrt(mean(x * x) + epsilon) * norm, and then for i below
    HALF: x[i], x[i + HALF] = x[i] cos - x[i + HALF] sin, x[i + HALF] cos + x[i] sin.

    qkv and bias as in `load_product`, (HEADS + 2 KV_HEADS) * HEAD_DIM numbers a row; cosines and sines
    [any, HALF]; norms [HEAD_DIM]; keys and values [slots, KV_HEADS, HEAD_DIM]; query
    [num_rows, HEADS, HEAD_DIM].
    """
    all_heads: tl.constexpr = HEADS + 2 * KV_HEADS
    rounded: tl.constexpr = query.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
    dim = tl.arange(0, BLOCK_DIM)
    slot = tl.load(slots + row).to(tl.int64)
    real = slot >= 0
    inside = (head < all_heads)[:, None] & (dim < HEAD_DIM)[None, :]
    is_query = head < HEADS
    is_value = head >= HEADS + KV_HEADS

    feature = head[:, None] * HEAD_DIM + dim[None, :]
    stride = tl.cast(num_rows, tl.int64) * (all_heads * HEAD_DIM)
    at = row * (all_heads * HEAD_DIM) + feature
    x = load_product(
        qkv, bias, parts, stride, at, feature, inside, rounded, SUMS, ASCENDING, HAS_BIAS
    )
    turned = x
    if HAS_NORMS:
        of_query = tl.load(query_norm + dim, mask=dim < HEAD_DIM, other=0.0)
        of_key = tl.load(key_norm + dim, mask=dim < HEAD_DIM, other=0.0)
        gain = tl.where(is_query[:, None], of_query[None, :], of_key[None, :])
        mean = tl.div_rn(neighbours_first(x * x, BLOCK_HEADS, BLOCK_DIM), HEAD_DIM * 1.0)
        turned = x * tl.div_rn(1.0, tl.sqrt_rn(mean + epsilon))[:, None] * gain
    if HALF > 0:
        turns = dim < 2 * HALF
        partner = tl.where(dim < HALF, dim + HALF, tl.where(turns, dim - HALF, dim))
        index = tl.broadcast_to(partner[None, :], (BLOCK_HEADS, BLOCK_DIM))
        other = tl.gather(turned, index, 1)
        other = tl.where((dim < HALF)[None, :], -other, other)
        # A row that is not written may have no position.
        angle = tl.maximum(tl.load(positions + row), 0).to(tl.int64) * HALF + dim % HALF
        cosine = tl.load(cosines + angle, mask=turns, other=0.0)[None, :]
        sine = tl.load(sines + angle, mask=turns, other=0.0)[None, :]
        turned = tl.where(turns[None, :], turned * cosine + other * sine, turned)

    query_at = query + (row * HEADS + head)[:, None] * HEAD_DIM + dim[None, :]
    result = tl.where(real, turned, 0.0).to(rounded)
    tl.store(query_at, result, mask=inside & is_query[:, None])
    is_key = (head >= HEADS) & (head < HEADS + KV_HEADS)
    key_at = keys + (slot * KV_HEADS + head - HEADS)[:, None] * HEAD_DIM + dim[None, :]
    tl.store(key_at, turned.to(rounded), mask=inside & is_key[:, None] & real)
    kv_head = head - (HEADS + KV_HEADS)
    value_at = values + (slot * KV_HEADS + kv_head)[:, None] * HEAD_DIM + dim[None, :]
    tl.store(value_at, x.to(rounded), mask=inside & is_value[:, None] & real)


def rotate_write(
    qkv: torch.Tensor | PartialSums,
    positions: torch.Tensor,
    slots: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    query: torch.Tensor,
    rotation: Pair | None,
    norms: Pair | None,
    epsilon: float,
) -> torch.Tensor:
    """See `spectrie_kernels.rotate_write`."""
    rows, heads, head_dim = query.shape
    if rows == 0:
        return query
    if is_interpreted_bfloat16(query):
        caches = keys.float(), values.float()
        exact = query.float()
        finished = as_float32(qkv, query.dtype)
        rotate_write(finished, positions, slots, *caches, exact, rotation, norms, epsilon)
        keys.copy_(caches[0])
        values.copy_(caches[1])
        return query.copy_(exact)
    product, bias, parts, form = product_arguments(qkv)
    constants, options = compiled_form(heads, keys.shape[1], head_dim)
    tables = rotation or (product, product)
    gains = norms or (product, product)
    _rotate_write_kernel[(rows, triton.cdiv(heads + 2 * keys.shape[1], constants["BLOCK_HEADS"]))](
        product,
        bias,
        positions,
        slots,
        *tables,
        *gains,
        keys,
        values,
        query,
        parts,
        rows,
        epsilon,
        HALF=rotation[0].shape[1] if rotation else 0,
        HAS_NORMS=norms is not None,
        **form,
        **constants,
        **options,
    )
    return query


def compiled_form(
    heads: int, kv_heads: int, head_dim: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options for heads of `head_dim`."""
    block_dim = triton.next_power_of_2(head_dim)
    constants = {"HEADS": heads, "KV_HEADS": kv_heads, "HEAD_DIM": head_dim}
    constants |= {"BLOCK_HEADS": max(1, _TILE // block_dim), "BLOCK_DIM": block_dim}
    # A product and the sum that takes it are rounded apart.
    return constants, {"num_warps": 2, "enable_fp_fusion": False}
