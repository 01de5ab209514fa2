"""Which experts each row takes and which rows each expert has, as Triton kernels.

Source: Shazeer et al., Outrageously Large Neural Networks, arXiv 1701.06538: the gate of a mixture.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from spectrie_kernels.device.product import load_product, product_arguments
from spectrie_kernels.device.rotate_write import neighbours_first
from spectrie_kernels.device.sampling.draw_keys import NOTHING, keyed
from spectrie_kernels.experts.work import ITEM_WORDS, ExpertWork
from spectrie_kernels.partial_sums import PartialSums

__all__ = ["choose_experts", "choosing_form", "group_choices", "grouping_form"]


@triton.jit
def _expert_keys(score, expert, inside):
    """Keys, of which the greatest is that of the highest score, of equal ones the lowest expert's.

    NaN counts as minus infinity, and every expert has a key: a row always finds as many as it takes.
    """
    seen = tl.where(score == score, score, float("-inf"))
    key = keyed(tl.where(seen == 0.0, 0.0, seen), expert)
    return tl.where(inside, key, NOTHING)


@triton.jit(do_not_specialize=["parts", "num_rows"])
def _choose_kernel(
    scores,
    bias,
    tokens,
    ids,
    shares,
    parts,
    num_rows,
    EXPERTS: tl.constexpr,
    CHOSEN: tl.constexpr,
    NORMALISED: tl.constexpr,
    SUMS: tl.constexpr,
    ASCENDING: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The CHOSEN highest scores of one row, highest first, and exp(score - highest) / total of each.

    total is the sum over all experts, pairwise, neighbours first; if NORMALISED over those chosen,
    ascending in rank. scores and bias as in `load_product`; tokens [num_rows]; ids and shares
    [num_rows, CHOSEN].
    """
    row = tl.program_id(0).to(tl.int64)
    expert = tl.arange(0, BLOCK)
    inside = expert < EXPERTS
    stride = tl.cast(num_rows, tl.int64) * EXPERTS
    at = row * EXPERTS + expert
    score = load_product(
        scores, bias, parts, stride, at, expert, inside, tl.float32, SUMS, ASCENDING, HAS_BIAS
    )
    key = _expert_keys(score, expert, inside)
    highest = tl.max(tl.where(inside & (score == score), score, float("-inf")), axis=0)
    weight = tl.where(inside, tl.exp(score - highest), 0.0)
    if NORMALISED:
        total = 0.0
    else:
        total = tl.sum(neighbours_first(tl.reshape(weight, (1, BLOCK)), 1, BLOCK), axis=0)
    rank = tl.full((BLOCK,), CHOSEN, tl.int32)
    for index in tl.static_range(CHOSEN):
        best = key == tl.max(key, axis=0)
        rank = tl.where(best, index, rank)
        key = tl.where(best, NOTHING, key)
        if NORMALISED:
            # Of one number and zeros.
            total += tl.sum(tl.where(best, weight, 0.0), axis=0)
    real = tl.load(tokens + row) >= 0
    out = row * CHOSEN + rank
    tl.store(ids + out, tl.where(real, expert, -1), mask=rank < CHOSEN)
    share = tl.div_rn(weight, tl.broadcast_to(total, (BLOCK,)))
    tl.store(shares + out, tl.where(real, share, 0.0), mask=rank < CHOSEN)


@triton.jit(do_not_specialize=["num_choices"])
def _group_kernel(
    ids,
    choices,
    tiles,
    count,
    num_choices,
    EXPERTS: tl.constexpr,
    HEIGHT: tl.constexpr,
    BINS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The choices of one expert at their places behind those of lower ones, and its tiles.

    ids [num_choices], negative where none is chosen; choices, tiles and count as in `ExpertWork`.
    """
    expert = tl.program_id(0)
    bins = tl.arange(0, BINS)
    counts = tl.zeros((BINS,), tl.int32)
    for first in range(0, num_choices, BLOCK):
        place = first + tl.arange(0, BLOCK)
        chosen = tl.load(ids + place, mask=place < num_choices, other=-1)
        counts += tl.histogram(tl.where(chosen >= 0, chosen, EXPERTS), BINS)
    before = bins < expert
    begin = tl.sum(tl.where(before, counts, 0), axis=0)
    own = tl.sum(tl.where(bins == expert, counts, 0), axis=0)
    own_tiles = (own + HEIGHT - 1) // HEIGHT
    first_tile = tl.sum(tl.where(before, (counts + HEIGHT - 1) // HEIGHT, 0), axis=0)
    if expert == EXPERTS - 1:
        tl.store(count, first_tile + own_tiles)
    if own > 0:
        for first in range(0, own_tiles, BLOCK):
            tile = first + tl.arange(0, BLOCK)
            item = tiles + (first_tile + tile) * 4
            there = tile < own_tiles
            tl.store(item, tl.broadcast_to(expert, (BLOCK,)), mask=there)
            tl.store(item + 1, begin + tile * HEIGHT, mask=there)
            tl.store(item + 2, tl.minimum(own - tile * HEIGHT, HEIGHT), mask=there)
        for first in range(0, num_choices, BLOCK):
            place = first + tl.arange(0, BLOCK)
            mine = tl.load(ids + place, mask=place < num_choices, other=-1) == expert
            among = tl.cumsum(mine.to(tl.int32), axis=0)
            tl.store(choices + begin + among - 1, place, mask=mine)
            begin += tl.sum(mine.to(tl.int32), axis=0)


def choose_experts(
    scores: torch.Tensor | PartialSums,
    tokens: torch.Tensor,
    ids: torch.Tensor,
    shares: torch.Tensor,
    normalised: bool,
) -> None:
    """See `spectrie_kernels.choose_experts`."""
    rows, chosen = ids.shape
    if rows == 0:
        return
    product, bias, parts, form = product_arguments(scores)
    experts = (scores if isinstance(scores, torch.Tensor) else scores.values).shape[-1]
    constants, options = choosing_form(experts, chosen)
    _choose_kernel[(rows,)](
        product,
        bias,
        tokens,
        ids,
        shares,
        parts,
        rows,
        NORMALISED=normalised,
        **form,
        **constants,
        **options,
    )


def choosing_form(experts: int, chosen: int) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options of `_choose_kernel`."""
    block = triton.next_power_of_2(experts)
    constants = {"EXPERTS": experts, "CHOSEN": chosen, "BLOCK": block}
    return constants, {"num_warps": 1 if block <= 256 else 4, "enable_fp_fusion": False}


def group_choices(ids: torch.Tensor, work: ExpertWork) -> None:
    """See `spectrie_kernels.group_choices`."""
    if ids.numel() == 0:
        work.count.zero_()
        return
    constants, options = grouping_form(work.num_experts, work.height)
    _group_kernel[(work.num_experts,)](
        ids, work.choices, work.tiles, work.count, ids.numel(), **constants, **options
    )


def grouping_form(experts: int, height: int) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options of `_group_kernel`."""
    assert ITEM_WORDS == 4
    # One bin for what is no expert; fewer than threads are not worth another form.
    bins = max(128, triton.next_power_of_2(experts + 1))
    return {"EXPERTS": experts, "HEIGHT": height, "BINS": bins, "BLOCK": 512}, {"num_warps": 4}
