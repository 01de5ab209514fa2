"""Row argmax with ties to the lowest id, as a Triton kernel: one program a row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["row_argmax"]

BLOCK = 4096


@triton.jit
def _row_argmax_kernel(logits, output, vocabulary, row_stride, BLOCK: tl.constexpr):
    """output[r] = min {v : logits[r, v] = max_u logits[r, u]}; logits [rows, vocabulary]."""
    row = tl.program_id(0).to(tl.int64)
    best = tl.full((), float("-inf"), tl.float32)
    best_id = tl.full((), 0, tl.int32)
    for first in range(0, vocabulary, BLOCK):
        ids = first + tl.arange(0, BLOCK)
        inside = ids < vocabulary
        values = tl.load(logits + row * row_stride + ids, mask=inside, other=float("-inf"))
        values = values.to(tl.float32)
        largest = tl.max(values, axis=0)
        lowest = tl.min(tl.where((values == largest) & inside, ids, vocabulary), axis=0)
        # A later block wins only with a larger value, so equal values keep the lower id.
        better = largest > best
        best_id = tl.where(better, lowest, best_id)
        best = tl.where(better, largest, best)
    tl.store(output + row, best_id)


def row_argmax(logits: torch.Tensor) -> torch.Tensor:
    """See `spectrie_kernels.row_argmax`."""
    rows, vocabulary = logits.shape
    if logits.stride(1) != 1:
        logits = logits.contiguous()
    output = torch.empty(rows, dtype=torch.int32, device=logits.device)
    if rows:
        _row_argmax_kernel[(rows,)](logits, output, vocabulary, logits.stride(0), BLOCK=BLOCK)
    return output
