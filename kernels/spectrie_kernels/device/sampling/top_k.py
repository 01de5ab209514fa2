"""The likeliest tokens of rows and their probabilities, as Triton kernels: several programs a row."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from spectrie_kernels.device.sampling.draw_keys import (
    NOTHING,
    is_finite,
    keys_of,
    order_of,
)
from spectrie_kernels.device.sampling.sampling_arithmetic import score_of

__all__ = ["COMPILED", "top_k"]

COMPILED: dict[str, dict[str, Any]] = {
    "_chunk_top_k_kernel": {"num_warps": 8},
    "_row_top_k_kernel": {"num_warps": 4},
}
"""The compiler's options."""
_UNROLLED = tl.constexpr(8)


@triton.jit
def greatest_keys(key, WIDTH: tl.constexpr):
    """The greatest keys, greatest first; keys are of different tokens, but for `NOTHING`."""
    place = tl.arange(0, WIDTH)
    found = tl.full((WIDTH,), NOTHING, tl.int64)
    if WIDTH > _UNROLLED:
        # Unrolled, so many rounds would take all registers.
        for index in range(0, WIDTH):
            best = tl.max(key, axis=0)
            found = tl.where(place == index, best, found)
            key = tl.where(key == best, NOTHING, key)
    else:
        for index in tl.static_range(WIDTH):
            best = tl.max(key, axis=0)
            found = tl.where(place == index, best, found)
            key = tl.where(key == best, NOTHING, key)
    return found


@triton.jit
def finite(top):
    """The greatest logit, 0 where it is not finite: nothing is then wanted of the row or chunk."""
    return tl.where(tl.abs(top) < float("inf"), top, 0.0)


@triton.jit
def is_wanted(rows, row, HAS_ROWS: tl.constexpr):
    """Whether the row's number is not negative; of rows without numbers all are wanted."""
    wanted = True
    if HAS_ROWS:
        wanted = tl.load(rows + row) >= 0
    return wanted


@triton.jit
def _chunk_top_k_kernel(
    logits,
    rows,
    keys,
    totals,
    VOCABULARY: tl.constexpr,
    CHUNK: tl.constexpr,
    WIDTH: tl.constexpr,
    HAS_ROWS: tl.constexpr,
):
    """The greatest keys of one chunk of a row, its greatest logit m, and the sum of exp(logit - m).

    logits [rows, VOCABULARY]; keys [rows, chunks, WIDTH]; totals [rows, chunks, 2]. Rows whose number in
    `rows` is negative are passed over.
    """
    row = tl.program_id(0).to(tl.int64)
    if is_wanted(rows, row, HAS_ROWS):
        chunk = tl.program_id(1)
        ids = chunk * CHUNK + tl.arange(0, CHUNK)
        inside = ids < VOCABULARY
        values = tl.load(logits + row * VOCABULARY + ids, mask=inside, other=float("nan"))
        at = row * tl.num_programs(1) + chunk
        found = greatest_keys(keys_of(values, ids), WIDTH)
        tl.store(keys + at * WIDTH + tl.arange(0, WIDTH), found)
        seen = tl.where(values == values, values, float("-inf"))
        top = tl.max(seen, axis=0)
        total = tl.sum(tl.exp(seen - finite(top)), axis=0)
        tl.store(totals + at * 2, top)
        tl.store(totals + at * 2 + 1, total)


@triton.jit
def _row_top_k_kernel(
    keys,
    rows,
    totals,
    ids,
    probabilities,
    CHUNKS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_CHUNKS: tl.constexpr,
    HAS_ROWS: tl.constexpr,
):
    """The greatest of all chunks' keys, and exp(logit - m) / total of each; ids and probabilities
    [rows, WIDTH]."""
    row = tl.program_id(0).to(tl.int64)
    if is_wanted(rows, row, HAS_ROWS):
        chunk = tl.arange(0, BLOCK_CHUNKS)
        at = totals + (row * CHUNKS + chunk) * 2
        tops = tl.load(at, mask=chunk < CHUNKS, other=float("-inf"))
        sums = tl.load(at + 1, mask=chunk < CHUNKS, other=0.0)
        top = tl.max(tops, axis=0)
        total = tl.sum(sums * tl.exp(tops - finite(top)), axis=0)

        place = tl.arange(0, BLOCK_CHUNKS * WIDTH)
        from_chunks = keys + row * CHUNKS * WIDTH + place
        found = tl.load(from_chunks, mask=place < CHUNKS * WIDTH, other=NOTHING)
        found = greatest_keys(found, WIDTH)
        valid = is_finite(tl.max(found, axis=0)) & is_finite(found)
        token = ((found & 0xFFFFFFFF) ^ 0xFFFFFFFF).to(tl.int32)
        score = tl.where(valid, score_of(order_of(found)), 0.0)
        likely = tl.exp(score - finite(top)) / tl.where(total > 0.0, total, 1.0)
        out = row * WIDTH + tl.arange(0, WIDTH)
        tl.store(ids + out, tl.where(valid, token, -1))
        tl.store(probabilities + out, tl.where(valid, likely, 0.0))


def top_k(
    logits: torch.Tensor,
    ids: torch.Tensor,
    probabilities: torch.Tensor,
    wanted: torch.Tensor | None,
    workspace: torch.Tensor,
    chunk: int,
) -> None:
    """See `spectrie_kernels.top_k`."""
    rows, vocabulary = logits.shape
    if rows == 0:
        return
    has_rows = wanted is not None
    # Not read where there are none.
    numbers = ids if wanted is None else wanted
    width = ids.shape[1]
    chunks = triton.cdiv(vocabulary, chunk)
    in_keys = rows * chunks * width
    keys = workspace[:in_keys]
    totals = workspace[in_keys : in_keys + rows * chunks].view(torch.float32)
    _chunk_top_k_kernel[(rows, chunks)](
        logits,
        numbers,
        keys,
        totals,
        VOCABULARY=vocabulary,
        CHUNK=chunk,
        WIDTH=width,
        HAS_ROWS=has_rows,
        **COMPILED["_chunk_top_k_kernel"],
    )
    _row_top_k_kernel[(rows,)](
        keys,
        numbers,
        totals,
        ids,
        probabilities,
        CHUNKS=chunks,
        WIDTH=width,
        BLOCK_CHUNKS=triton.next_power_of_2(chunks),
        HAS_ROWS=has_rows,
        **COMPILED["_row_top_k_kernel"],
    )
