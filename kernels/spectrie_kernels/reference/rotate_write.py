"""Head norm, rotation and the write to the cache, in plain torch: the bits of the Triton kernel."""

from __future__ import annotations

import torch
from torch.nn import functional

from spectrie_kernels.partial_sums import PartialSums
from spectrie_kernels.reference.linear import finished

__all__ = ["pairwise_sum", "rotate_write"]

Pair = tuple[torch.Tensor, torch.Tensor]


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
    _, num_heads, head_dim = query.shape
    kv_heads = keys.shape[1]
    heads = finished(qkv, query.dtype).view(-1, num_heads + 2 * kv_heads, head_dim)
    sizes = [num_heads, kv_heads, kv_heads]
    new_query, key, value = torch.split(heads, sizes, dim=1)
    real = slots >= 0
    at = positions.clamp(min=0).long()
    turns = None if rotation is None else (rotation[0][at][:, None], rotation[1][at][:, None])
    query_norm, key_norm = norms or (None, None)
    new_query = _prepared(new_query, query_norm, epsilon, turns)
    query.copy_(new_query.masked_fill(~real[:, None, None], 0))
    written = slots[real].long()
    keys[written] = _prepared(key, key_norm, epsilon, turns)[real].to(keys.dtype)
    values[written] = value[real]
    return query


def _prepared(
    heads: torch.Tensor, norm: torch.Tensor | None, epsilon: float, turns: Pair | None
) -> torch.Tensor:
    """Normalises and rotates [rows, heads, head_dim], float32."""
    x = heads.float()
    if norm is not None:
        mean = pairwise_sum(x * x) / x.shape[-1]
        # torch's root of float32 is not always the nearest; that of float64, rounded once more, is.
        root = (mean + epsilon).double().sqrt().float()
        x = x * (1 / root) * norm
    if turns is None:
        return x
    cosines, sines = turns
    half = cosines.shape[-1]
    low, high, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    # Triton's -x is 0 - x, which is +0 for zeros of either sign.
    return torch.cat(
        [low * cosines + (0 - high) * sines, high * cosines + low * sines, rest], dim=-1
    )


def pairwise_sum(x: torch.Tensor) -> torch.Tensor:
    """The last dimension's sum, [..., 1]: neighbours first, zeros behind up to a power of two."""
    length = x.shape[-1]
    x = functional.pad(x, (0, (1 << (length - 1).bit_length()) - length))
    while x.shape[-1] > 1:
        x = x[..., 0::2] + x[..., 1::2]
    return x
