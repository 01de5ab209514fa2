"""Row argmax with ties to the lowest id, as Triton kernels: several programs a row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from spectrie_kernels.device.sampling.draw_keys import NOTHING, greatest_key, is_finite

__all__ = ["COMPILED", "row_argmax"]

COMPILED = {"_chunk_argmax_kernel": {"num_warps": 4}, "_row_argmax_kernel": {"num_warps": 1}}
"""The compiler's options."""


@triton.jit
def _chunk_argmax_kernel(logits, keys, VOCABULARY: tl.constexpr, CHUNK: tl.constexpr):
    """keys[r, c] = the greatest key of chunk c of row r; logits [rows, VOCABULARY]."""
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    ids = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = ids < VOCABULARY
    values = tl.load(logits + row * VOCABULARY + ids, mask=inside, other=float("nan"))
    best = greatest_key(values.to(tl.float32), ids)
    tl.store(keys + row * tl.num_programs(1) + chunk, best)


@triton.jit
def _row_argmax_kernel(keys, output, CHUNKS: tl.constexpr, BLOCK: tl.constexpr):
    """output[r] = min {v : logits[r, v] = max_u logits[r, u]}, -1 where that maximum is not finite."""
    row = tl.program_id(0)
    chunk = tl.arange(0, BLOCK)
    at = keys + row.to(tl.int64) * CHUNKS + chunk
    best = tl.max(tl.load(at, mask=chunk < CHUNKS, other=NOTHING), axis=0)
    token = ((best & 0xFFFFFFFF) ^ 0xFFFFFFFF).to(tl.int32)
    tl.store(output + row, tl.where(is_finite(best), token, -1))


def row_argmax(
    logits: torch.Tensor, out: torch.Tensor, workspace: torch.Tensor, chunk: int
) -> torch.Tensor:
    """See `spectrie_kernels.row_argmax`."""
    rows, vocabulary = logits.shape
    if rows == 0:
        return out
    chunks = triton.cdiv(vocabulary, chunk)
    _chunk_argmax_kernel[(rows, chunks)](
        logits, workspace, VOCABULARY=vocabulary, CHUNK=chunk, **COMPILED["_chunk_argmax_kernel"]
    )
    _row_argmax_kernel[(rows,)](
        workspace,
        out,
        CHUNKS=chunks,
        BLOCK=triton.next_power_of_2(chunks),
        **COMPILED["_row_argmax_kernel"],
    )
    return out
