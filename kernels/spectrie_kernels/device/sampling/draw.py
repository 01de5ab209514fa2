"""Sampling as Triton kernels, several programs a row: scores, cuts, then the greatest with noise.

Scores are the logits, adjusted and divided by the temperature; a cut sets those of the tokens that it
drops to minus infinity. Chunk c of a row is its tokens from c * span on; there are `chunks`, and room
for CHUNKS. raw, best and noisy, int64 [rows, CHUNKS], are the greatest keys (score, lowest id) of the
logits, of the scores, and of the scores with noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from spectrie_kernels.device.sampling.draw_cuts import CUTS, Scores, cut
from spectrie_kernels.device.sampling.draw_keys import (
    GREEDY_BELOW,
    LAST_ID,
    NOTHING,
    floor_of,
    greatest_key,
    greatest_of_row,
    is_finite,
    keyed,
    order_of,
)
from spectrie_kernels.device.sampling.sampling_arithmetic import (
    gumbel,
    gumbel_bound,
    hash_bits,
    score_of,
)
from spectrie_kernels.draw_rows import MAX_PATH_TOKENS, DrawRows

__all__ = ["COMPILED", "draw"]

BLOCK = 1024
# Products and the sums that take them are rounded apart, as in Rust and NumPy.
COMPILED: dict[str, dict[str, int]] = {
    "_copy_kernel": {"BLOCK": BLOCK, "num_warps": 4, "enable_fp_fusion": False},
    "_adjust_kernel": {
        "LISTED": 128,
        "PATH": MAX_PATH_TOKENS,
        "num_warps": 4,
        "enable_fp_fusion": False,
    },
    "_scale_kernel": {"BLOCK": BLOCK, "num_warps": 4, "enable_fp_fusion": False},
    "_noise_kernel": {"BLOCK": BLOCK, "num_warps": 4, "enable_fp_fusion": False},
    "_pick_kernel": {"num_warps": 1, "enable_fp_fusion": False},
}


@triton.jit(do_not_specialize=["vocabulary", "words", "span"])
def _copy_kernel(
    logits, allowed, allowed_row, scores, raw, vocabulary, words, span,
    CHUNKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """scores = logits, or minus infinity where a token is not allowed; raw of the logits."""
    row = tl.program_id(0).to(tl.int64)
    first_id = tl.program_id(1) * span
    mask = tl.load(allowed_row + row).to(tl.int64)
    best = tl.full((), NOTHING, tl.int64)
    for first in range(first_id, tl.minimum(first_id + span, vocabulary), BLOCK):
        ids = first + tl.arange(0, BLOCK)
        inside = ids < vocabulary
        score = tl.load(logits + row * vocabulary + ids, mask=inside, other=float("-inf"))
        best = tl.maximum(best, greatest_key(score, ids))
        has_word = inside & (mask >= 0) & (ids // 32 < words)
        word = tl.load(allowed + mask * words + ids // 32, mask=has_word, other=0)
        may = (mask < 0) | (((word >> (ids % 32)) & 1) == 1)
        tl.store(scores + row * vocabulary + ids, tl.where(may, score, float("-inf")), mask=inside)
    tl.store(raw + row * CHUNKS + tl.program_id(1), best)


@triton.jit
def _penalised(score, count, repetition, frequency, presence):
    score = tl.where(score > 0.0, tl.div_rn(score, repetition), score * repetition)
    less = score - (frequency * count.to(tl.float32) + presence)
    return tl.where(count > 0, less, score)


@triton.jit(do_not_specialize=["vocabulary"])
def _adjust_kernel(
    scores, request, bias_start, bias_token, bias_value, seen_start, seen_token, seen_count,
    path_start, path_token, masked_start, masked_token, repetition, frequency, presence, vocabulary,
    LISTED: tl.constexpr, PATH: tl.constexpr,
):  # fmt: skip
    """Bias, penalties and masked tokens of one row, each listed token on its own."""
    row = tl.program_id(0).to(tl.int64)
    owner = tl.load(request + row)
    scores += row * vocabulary
    end = tl.load(bias_start + owner + 1)
    for first in range(tl.load(bias_start + owner), end, LISTED):
        at = first + tl.arange(0, LISTED)
        token = tl.load(bias_token + at, mask=at < end, other=0)
        value = tl.load(bias_value + at, mask=at < end, other=0.0)
        score = tl.load(scores + token, mask=at < end, other=0.0)
        tl.store(scores + token, score + value, mask=at < end)
    # What follows may read what other threads of this program wrote.
    tl.debug_barrier()
    times, fixed, once = (
        tl.load(repetition + row),
        tl.load(frequency + row),
        tl.load(presence + row),
    )
    path_first = tl.load(path_start + row)
    steps = tl.load(path_start + row + 1) - path_first
    step = tl.arange(0, PATH)
    path = tl.load(path_token + path_first + step, mask=step < steps, other=-1)
    is_new = step < steps
    end = tl.load(seen_start + owner + 1)
    for first in range(tl.load(seen_start + owner), end, LISTED):
        at = first + tl.arange(0, LISTED)
        token = tl.load(seen_token + at, mask=at < end, other=-2)
        same = token[:, None] == path[None, :]
        count = tl.load(seen_count + at, mask=at < end, other=0)
        count += tl.sum(same.to(tl.int32), axis=1)
        is_new = is_new & (tl.sum(same.to(tl.int32), axis=0) == 0)
        score = tl.load(scores + token, mask=at < end, other=0.0)
        tl.store(scores + token, _penalised(score, count, times, fixed, once), mask=at < end)
    same = (path[:, None] == path[None, :]) & (step < steps)[None, :]
    count = tl.sum(same.to(tl.int32), axis=1)
    earlier = tl.sum((same & (step[None, :] < step[:, None])).to(tl.int32), axis=1)
    is_new = is_new & (earlier == 0)
    score = tl.load(scores + path, mask=is_new, other=0.0)
    tl.store(scores + path, _penalised(score, count, times, fixed, once), mask=is_new)
    tl.debug_barrier()
    end = tl.load(masked_start + row + 1)
    for first in range(tl.load(masked_start + row), end, LISTED):
        at = first + tl.arange(0, LISTED)
        token = tl.load(masked_token + at, mask=at < end, other=0)
        tl.store(scores + token, tl.full((LISTED,), float("-inf"), tl.float32), mask=at < end)


@triton.jit(do_not_specialize=["vocabulary", "span"])
def _scale_kernel(
    scores, temperature, best, vocabulary, span, CHUNKS: tl.constexpr, BLOCK: tl.constexpr
):
    """scores /= temperature, unless greedy; best of them."""
    row = tl.program_id(0).to(tl.int64)
    first_id = tl.program_id(1) * span
    divisor = tl.load(temperature + row)
    divisor = tl.where(divisor < GREEDY_BELOW, 1.0, divisor)
    greatest = tl.full((), NOTHING, tl.int64)
    for first in range(first_id, tl.minimum(first_id + span, vocabulary), BLOCK):
        ids = first + tl.arange(0, BLOCK)
        at = scores + row * vocabulary + ids
        score = tl.div_rn(tl.load(at, mask=ids < vocabulary, other=float("-inf")), divisor)
        greatest = tl.maximum(greatest, greatest_key(score, ids))
        tl.store(at, score, mask=ids < vocabulary)
    tl.store(best + row * CHUNKS + tl.program_id(1), greatest)


@triton.jit(do_not_specialize=["vocabulary", "span", "chunks"])
def _noise_kernel(
    scores, best, noisy, seed, position, temperature, min_p, vocabulary, span, chunks,
    CHUNKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """noisy of what is left. Noise is only computed in blocks where a hash might win with it."""
    row = tl.program_id(0).to(tl.int64)
    key = greatest_of_row(best, row, chunks, CHUNKS)
    if (tl.load(temperature + row) < GREEDY_BELOW) | (is_finite(key) == 0):
        return
    floor = floor_of(min_p, row, score_of(order_of(key)))
    first_id = tl.program_id(1) * span
    winner = tl.full((), NOTHING, tl.int64)
    least = tl.full((), float("-inf"), tl.float32)
    for first in range(first_id, tl.minimum(first_id + span, vocabulary), BLOCK):
        ids = first + tl.arange(0, BLOCK)
        at = scores + row * vocabulary + ids
        score = tl.load(at, mask=ids < vocabulary, other=float("-inf"))
        bits = hash_bits(tl.load(seed + row), tl.load(position + row), ids)
        may_win = (score >= floor) & (score + gumbel_bound(bits) >= least)
        if tl.max(may_win.to(tl.int32), axis=0) > 0:
            keys = tl.where(may_win, keyed(score + gumbel(bits), ids), NOTHING)
            winner = tl.maximum(winner, tl.max(keys, axis=0))
            least = score_of(order_of(winner))
    tl.store(noisy + row * CHUNKS + tl.program_id(1), winner)


@triton.jit(do_not_specialize=["chunks"])
def _pick_kernel(raw, best, noisy, temperature, out, chunks, CHUNKS: tl.constexpr):
    """out = the token with the greatest key, -1 without a finite logit, -2 where all are banned."""
    row = tl.program_id(0).to(tl.int64)
    greatest = greatest_of_row(best, row, chunks, CHUNKS)
    drawn = greatest_of_row(noisy, row, chunks, CHUNKS)
    drawn = tl.where(tl.load(temperature + row) < GREEDY_BELOW, greatest, drawn)
    token = ((drawn & LAST_ID) ^ LAST_ID).to(tl.int32)
    token = tl.where(is_finite(greatest), token, -2)
    is_given = is_finite(greatest_of_row(raw, row, chunks, CHUNKS))
    tl.store(out + row, tl.where(is_given, token, -1))


def draw(
    logits: torch.Tensor,
    rows: DrawRows,
    out: torch.Tensor,
    workspace: Sequence[torch.Tensor],
    room: int,
) -> torch.Tensor:
    """See `spectrie_kernels.draw`.

    Args:
        logits, rows, out: As there.
        workspace: int64, its parts: scores, raw, best, noisy, state, sums and moments.
        room: The most programs that share a row, a power of two.
    """
    num_rows, vocabulary = logits.shape
    if num_rows == 0:
        return out
    blocks = triton.cdiv(vocabulary, BLOCK)
    span = BLOCK * triton.cdiv(blocks, room)
    chunks = triton.cdiv(vocabulary, span)
    values, raw, best, noisy, state, sums, moments = workspace
    scores = values.view(torch.float32)[: num_rows * vocabulary].view(num_rows, vocabulary)
    grid = (num_rows, chunks)
    _copy_kernel[grid](
        logits,
        rows.allowed,
        rows.allowed_row,
        scores,
        raw,
        vocabulary,
        rows.allowed.shape[1],
        span,
        CHUNKS=room,
        **COMPILED["_copy_kernel"],
    )
    if rows.has_lists:
        _adjust_kernel[(num_rows,)](
            scores,
            rows.request,
            rows.bias_start,
            rows.bias_token,
            rows.bias_value,
            rows.seen_start,
            rows.seen_token,
            rows.seen_count,
            rows.path_start,
            rows.path_token,
            rows.masked_start,
            rows.masked_token,
            rows.repetition,
            rows.frequency,
            rows.presence,
            vocabulary,
            **COMPILED["_adjust_kernel"],
        )
    _scale_kernel[grid](
        scores,
        rows.temperature,
        best,
        vocabulary,
        span,
        CHUNKS=room,
        **COMPILED["_scale_kernel"],
    )
    shared = Scores(scores, best, state, sums, moments, span, chunks, room)
    for name in CUTS:
        if name in rows.cuts:
            cut(shared, rows, name)
    _noise_kernel[grid](
        scores,
        best,
        noisy,
        rows.seed,
        rows.position,
        rows.temperature,
        rows.min_p,
        vocabulary,
        span,
        chunks,
        CHUNKS=room,
        **COMPILED["_noise_kernel"],
    )
    _pick_kernel[(num_rows,)](
        raw,
        best,
        noisy,
        rows.temperature,
        out,
        chunks,
        CHUNKS=room,
        **COMPILED["_pick_kernel"],
    )
    return out
