"""Top-k, top-p and typical as Triton kernels, without a sort and with integer sums.

A cut keeps the tokens that come first by (place, id) until their masses reach what is needed, and sets
the scores of all others to minus infinity. Places are 32-bit integers: for top-k and top-p the scores
in descending order, for typical the distances from the mean score. Eight launches of `_narrow_kernel`
find the last place four bits at a time, each by summing the masses of all sixteen values of the next
four bits; `_drop_kernel` drops what comes later. Integer sums have no order, so chunks and blocks
change no token.

Chunk c of a row is its tokens from c * span on; there are `chunks`, and room for CHUNKS. Workspace:
    state int64 [rows, 8, 2]: before each digit, digits of the last place and the mass still needed
    sums int64 [2, rows, CHUNKS, 16]: masses by value of a digit, of even and of odd digits
    moments int64 [rows, CHUNKS, 2]: mass and moment
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from spectrie_kernels.device.sampling.draw_keys import (
    GREEDY_BELOW,
    LAST_ID,
    floor_of,
    greatest_of_row,
    is_finite,
    order_of,
)
from spectrie_kernels.device.sampling.sampling_arithmetic import (
    ascending,
    rounded_mass,
    score_of,
    weight,
)
from spectrie_kernels.draw_rows import DrawRows

__all__ = ["COMPILED", "CUTS", "Scores", "cut"]

BLOCK = 1024
CUTS = {"top_k": 0, "top_p": 1, "typical_p": 2}
_DIGITS = 8
# Products and the sums that take them are rounded apart, as in Rust and NumPy.
COMPILED: dict[str, dict[str, int]] = {
    "_moments_kernel": {"BLOCK": BLOCK, "num_warps": 4, "enable_fp_fusion": False},
    "_narrow_kernel": {"BLOCK": BLOCK // 4, "num_warps": 4, "enable_fp_fusion": False},
    "_drop_kernel": {"BLOCK": BLOCK, "num_warps": 4, "enable_fp_fusion": False},
}


@triton.jit
def _is_cut(wanted, temperature, best, row, vocabulary, CUT: tl.constexpr):
    """Whether a cut changes a row; `best` is its greatest key."""
    given = tl.load(wanted + row)
    cuts = (given > 0) & (given < vocabulary) if CUT == 0 else given < 1.0
    return cuts & (tl.load(temperature + row) >= GREEDY_BELOW) & is_finite(best)


@triton.jit
def _moment(below):
    inside = tl.where(below >= -87.0, below, -87.0)
    distance = 0.0 - inside
    return rounded_mass(weight(below).to(tl.float64) * distance.to(tl.float64))


@triton.jit
def _placed(score, greatest, floor, mean, CUT: tl.constexpr):
    """Places and masses of scores; tokens that are no longer there have none."""
    if CUT == 0:
        place = ascending(score) ^ LAST_ID
        mass = (score > float("-inf")).to(tl.int64)
    else:
        below = score - greatest
        mass = rounded_mass(weight(below).to(tl.float64))
        if CUT == 1:
            place = ascending(score) ^ LAST_ID
        else:
            above = below.to(tl.float64) + mean
            distance = tl.abs(above).to(tl.float32).to(tl.int32, bitcast=True).to(tl.int64)
            place = distance * 2 + (above < 0.0).to(tl.int64)
            mass = tl.where(score >= floor, mass, 0)
    return place, mass


@triton.jit
def _mean(moments, row, chunks, CUT: tl.constexpr, CHUNKS: tl.constexpr):
    """Mean distance of the scores from the greatest."""
    mean = tl.full((), 0.0, tl.float64)
    if CUT == 2:
        chunk = tl.arange(0, CHUNKS)
        at = moments + (row * CHUNKS + chunk) * 2
        mass = tl.sum(tl.load(at, mask=chunk < chunks, other=0), axis=0)
        moment = tl.sum(tl.load(at + 1, mask=chunk < chunks, other=0), axis=0)
        mean = moment.to(tl.float64) / mass.to(tl.float64)
    return mean


@triton.jit
def _found(sums, state, wanted, row, rows, chunks, digit, CUT: tl.constexpr, CHUNKS: tl.constexpr):
    """The first `digit` digits of the last place, and the mass still needed among its equals."""
    chunk = tl.arange(0, CHUNKS)[:, None]
    value = tl.arange(0, 16)
    slot = ((digit + 1) % 2).to(tl.int64) * rows + row
    at = sums + (slot * CHUNKS + chunk) * 16 + value[None, :]
    totals = tl.sum(tl.load(at, mask=(chunk < chunks) & (digit > 0), other=0), axis=0)
    total = tl.sum(totals, axis=0)
    given = tl.load(wanted + row)
    if CUT == 0:
        needed = given.to(tl.int64)
    else:
        needed = (given.to(tl.float64) * total.to(tl.float64)).to(tl.int64)
    needed = tl.minimum(tl.maximum(needed, 1), total)
    before = state + (row * 8 + digit - 1) * 2
    prefix = tl.load(before, mask=digit > 1, other=0)
    rest = tl.where(digit == 1, needed, tl.load(before + 1, mask=digit > 1, other=0))
    last = tl.sum((tl.cumsum(totals, axis=0) < rest).to(tl.int64), axis=0)
    passed = tl.sum(tl.where(value < last, totals, 0), axis=0)
    return prefix * 16 + last, rest - passed


@triton.jit(do_not_specialize=["vocabulary", "span", "chunks"])
def _moments_kernel(
    scores, best, moments, wanted, temperature, min_p, vocabulary, span, chunks,
    CHUNKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Mass and moment of each chunk, for the mean that `typical_p` asks for."""
    row = tl.program_id(0).to(tl.int64)
    key = greatest_of_row(best, row, chunks, CHUNKS)
    if _is_cut(wanted, temperature, key, row, vocabulary, 2) == 0:
        return
    greatest = score_of(order_of(key))
    floor = floor_of(min_p, row, greatest)
    first_id = tl.program_id(1) * span
    mass = tl.zeros((BLOCK,), tl.int64)
    moment = tl.zeros((BLOCK,), tl.int64)
    for first in range(first_id, tl.minimum(first_id + span, vocabulary), BLOCK):
        ids = first + tl.arange(0, BLOCK)
        at = scores + row * vocabulary + ids
        score = tl.load(at, mask=ids < vocabulary, other=float("-inf"))
        below = score - greatest
        kept = score >= floor
        mass += tl.where(kept, rounded_mass(weight(below).to(tl.float64)), 0)
        moment += tl.where(kept, _moment(below), 0)
    at = moments + (row * CHUNKS + tl.program_id(1)) * 2
    tl.store(at, tl.sum(mass, axis=0))
    tl.store(at + 1, tl.sum(moment, axis=0))


@triton.jit(do_not_specialize=["vocabulary", "span", "chunks", "digit"])
def _narrow_kernel(
    scores, best, moments, sums, state, wanted, temperature, min_p, vocabulary, span, chunks, digit,
    CUT: tl.constexpr, CHUNKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums, by the next digit, of the masses of tokens whose place begins like the last one's."""
    row = tl.program_id(0).to(tl.int64)
    rows = tl.num_programs(0)
    chunk = tl.program_id(1)
    key = greatest_of_row(best, row, chunks, CHUNKS)
    if _is_cut(wanted, temperature, key, row, vocabulary, CUT) == 0:
        return
    greatest = score_of(order_of(key))
    floor = floor_of(min_p, row, greatest)
    mean = _mean(moments, row, chunks, CUT, CHUNKS)
    prefix, rest = _found(sums, state, wanted, row, rows, chunks, digit, CUT, CHUNKS)
    if chunk == 0:
        tl.store(state + (row * 8 + digit) * 2, prefix)
        tl.store(state + (row * 8 + digit) * 2 + 1, rest)
    shift = (28 - 4 * digit).to(tl.int64)
    value = tl.arange(0, 16)
    total = tl.zeros((BLOCK, 16), tl.int64)
    for first in range(chunk * span, tl.minimum((chunk + 1) * span, vocabulary), BLOCK):
        ids = first + tl.arange(0, BLOCK)
        at = scores + row * vocabulary + ids
        score = tl.load(at, mask=ids < vocabulary, other=float("-inf"))
        place, mass = _placed(score, greatest, floor, mean, CUT)
        mass = tl.where((place >> (shift + 4)) == prefix, mass, 0)
        digits = (place >> shift) & 15
        total += tl.where(digits[:, None] == value[None, :], mass[:, None], 0)
    slot = (digit % 2).to(tl.int64) * rows + row
    tl.store(sums + (slot * CHUNKS + chunk) * 16 + value, tl.sum(total, axis=0))


@triton.jit(do_not_specialize=["vocabulary", "span", "chunks"])
def _drop_kernel(
    scores, best, moments, sums, state, wanted, temperature, min_p, vocabulary, span, chunks,
    CUT: tl.constexpr, CHUNKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """scores = minus infinity for what comes after the last place, or its equals not needed."""
    row = tl.program_id(0).to(tl.int64)
    rows = tl.num_programs(0)
    chunk = tl.program_id(1)
    key = greatest_of_row(best, row, chunks, CHUNKS)
    if _is_cut(wanted, temperature, key, row, vocabulary, CUT) == 0:
        return
    greatest = score_of(order_of(key))
    floor = floor_of(min_p, row, greatest)
    mean = _mean(moments, row, chunks, CUT, CHUNKS)
    digits = tl.full((), 8, tl.int32)
    last, rest = _found(sums, state, wanted, row, rows, chunks, digits, CUT, CHUNKS)
    other = tl.arange(0, CHUNKS)
    equal = sums + ((rows + row) * CHUNKS + other) * 16 + (last & 15)
    before = tl.sum(tl.load(equal, mask=other < chunk, other=0), axis=0)
    for first in range(chunk * span, tl.minimum((chunk + 1) * span, vocabulary), BLOCK):
        ids = first + tl.arange(0, BLOCK)
        at = scores + row * vocabulary + ids
        score = tl.load(at, mask=ids < vocabulary, other=float("-inf"))
        place, mass = _placed(score, greatest, floor, mean, CUT)
        mass = tl.where(place == last, mass, 0)
        is_needed = before + tl.cumsum(mass, axis=0) - mass < rest
        kept = (place < last) | ((place == last) & is_needed)
        dropped = tl.full((BLOCK,), float("-inf"), tl.float32)
        tl.store(at, dropped, mask=(ids < vocabulary) & (kept == 0))
        before += tl.sum(mass, axis=0)


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of rows, as cuts take them, and how their rows are shared.

    Attributes:
        values: float32 [rows, vocabulary].
        best: int64 [rows, room], greatest key of each chunk.
        state, sums, moments: As above.
        span: Tokens of a chunk, a multiple of all block sizes.
        chunks: Chunks of a row.
        room: The most that the workspace has room for, a power of two.
    """

    values: torch.Tensor
    best: torch.Tensor
    state: torch.Tensor
    sums: torch.Tensor
    moments: torch.Tensor
    span: int
    chunks: int
    room: int


def cut(scores: Scores, rows: DrawRows, name: str) -> None:
    """Drops what one of `CUTS` does not keep."""
    num_rows, vocabulary = scores.values.shape
    grid = (num_rows, scores.chunks)
    which = CUTS[name]
    options = (getattr(rows, name), rows.temperature, rows.min_p, vocabulary, scores.span)
    sums = (scores.moments, scores.sums, scores.state)
    if name == "typical_p":
        _moments_kernel[grid](
            scores.values,
            scores.best,
            scores.moments,
            *options,
            scores.chunks,
            CHUNKS=scores.room,
            **COMPILED["_moments_kernel"],
        )
    for digit in range(_DIGITS):
        _narrow_kernel[grid](
            scores.values,
            scores.best,
            *sums,
            *options,
            scores.chunks,
            digit,
            CUT=which,
            CHUNKS=scores.room,
            **COMPILED["_narrow_kernel"],
        )
    _drop_kernel[grid](
        scores.values,
        scores.best,
        *sums,
        *options,
        scores.chunks,
        CUT=which,
        CHUNKS=scores.room,
        **COMPILED["_drop_kernel"],
    )
