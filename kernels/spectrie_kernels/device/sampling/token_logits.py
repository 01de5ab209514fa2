"""Logits of single tokens, each a product of a row's state and the token's row, as a Triton kernel."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

__all__ = ["COMPILED", "token_logits"]

COMPILED: dict[str, Any] = {"num_warps": 4}
"""The compiler's options."""
BLOCK = 1024


@triton.jit
def _token_logits_kernel(
    x, rows, weight, tokens, output, FEATURES: tl.constexpr, BLOCK: tl.constexpr
):
    """output[i] = x[rows[i]] . weight[tokens[i]], 0 where either number is negative.

    Lane j adds features j, j + BLOCK, ... in ascending order, then lanes are added in one tree: nothing
    of it depends on how many products there are.
    """
    index = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + index).to(tl.int64)
    token = tl.load(tokens + index).to(tl.int64)
    counts = (row >= 0) & (token >= 0)
    lanes = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, FEATURES, BLOCK):
        feature = first + tl.arange(0, BLOCK)
        inside = (feature < FEATURES) & counts
        state = tl.load(x + row * FEATURES + feature, mask=inside, other=0.0)
        own = tl.load(weight + token * FEATURES + feature, mask=inside, other=0.0)
        lanes = tl.fma(state.to(tl.float32), own.to(tl.float32), lanes)
    tl.store(output + index, tl.sum(lanes, axis=0))


def token_logits(
    x: torch.Tensor,
    rows: torch.Tensor,
    weight: torch.Tensor,
    tokens: torch.Tensor,
    out: torch.Tensor,
) -> torch.Tensor:
    """See `spectrie_kernels.token_logits`."""
    if out.shape[0]:
        _token_logits_kernel[(out.shape[0],)](
            x, rows, weight, tokens, out, FEATURES=x.shape[1], BLOCK=BLOCK, **COMPILED
        )
    return out
