"""Mixtures of experts: which rows go where, their products, and the sum of these."""

from __future__ import annotations

import torch

from spectrie_kernels import reference
from spectrie_kernels.backend import runs_triton
from spectrie_kernels.experts.checks import (
    check_choice,
    check_expert_linear,
    check_expert_sum,
    check_groups,
)
from spectrie_kernels.experts.weight import ExpertWeight
from spectrie_kernels.experts.work import ExpertWork
from spectrie_kernels.linear_tiles import LinearTiles
from spectrie_kernels.partial_sums import PartialSums

__all__ = ["add_experts", "choose_experts", "expert_linear", "group_choices"]


def choose_experts(
    scores: torch.Tensor | PartialSums,
    tokens: torch.Tensor,
    ids: torch.Tensor,
    shares: torch.Tensor,
    *,
    normalised: bool,
) -> None:
    """Chooses the experts of the highest scores of each row; a row's bits depend on that row alone.

    Of equal scores the lowest expert is chosen; zeros of either sign are equal, NaN is minus infinity.
    A share is exp(score - highest) / total in float32. The total is that of all experts, added pairwise,
    neighbours first, zeros behind them up to a power of two; or of those chosen, ascending in rank. A row
    without a finite highest score, or with a NaN that counts, has shares of NaN.

    Args:
        scores: float32 [rows, experts], contiguous, or sums of that.
        tokens: int32 [rows]. A row of a negative token stands for none: it chooses -1, with shares 0.
        ids: int32 [rows, chosen], contiguous, written: experts, the highest score first.
        shares: float32 [rows, chosen], contiguous, written.
        normalised: Whether the shares of a row are scaled to a sum of 1.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_choice(scores, tokens, ids, shares)
    if runs_triton(ids):
        from spectrie_kernels.device.experts import choice as triton_form

        triton_form.choose_experts(scores, tokens, ids, shares, normalised)
    else:
        reference.choose_experts(scores, tokens, ids, shares, normalised)


def group_choices(ids: torch.Tensor, work: ExpertWork) -> ExpertWork:
    """Sorts the choices of all rows by expert and cuts them into tiles, on the device.

    Args:
        ids: int32 [rows, chosen], contiguous: experts below `work.num_experts`; negative for none.
        work: For as many rows; written and returned.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_groups(ids, work)
    if runs_triton(ids):
        from spectrie_kernels.device.experts import choice as triton_form

        triton_form.group_choices(ids, work)
    else:
        reference.group_choices(ids, work)
    return work


def expert_linear(
    x: torch.Tensor,
    weight: ExpertWeight,
    work: ExpertWork,
    out: torch.Tensor,
    *,
    tiles: LinearTiles | None = None,
) -> torch.Tensor:
    """Computes x @ weight^T of each choice; its bits depend on its row and its expert alone.

    Sums are added like those of `linear` with the weight's order. Experts that no row chose are not read.

    Args:
        x: In the weight's dtype, contiguous: [rows, in_features], or [rows * chosen, in_features] where
            each choice has a row of its own.
        weight: Of all experts.
        work: Of `group_choices`.
        out: [rows * chosen, out_features], contiguous, of the dtype of `x` or float32; written and
            returned. What rows chose that stand for none stays as it was.
        tiles: How the work is cut, for speed alone, of `work.height` rows and not split; None takes
            untuned ones.

    Returns:
        `out`.

    Raises:
        ValueError: A shape, dtype, device or tile does not fit; the message names it.
    """
    check_expert_linear(x, weight, work, out)
    element_bytes = weight.values.element_size()
    if tiles is None:
        tiles = work.product_tiles(weight.order, element_bytes)
    if tiles.rows != work.height or tiles.split:
        raise ValueError(
            f"tiles have {tiles.rows} rows, expected {work.height}, and not to be split"
        )
    tiles.check(weight.order, weight.out_features, element_bytes)
    if not runs_triton(x):
        return reference.expert_linear(x, weight, work, out)
    from spectrie_kernels.device.experts import products as triton_form

    return triton_form.expert_linear(x, weight, work, out, tiles)


def add_experts(
    results: torch.Tensor, ids: torch.Tensor, shares: torch.Tensor, out: torch.Tensor
) -> torch.Tensor:
    """Adds what each row's experts gave, times their shares: in float32, ascending in rank.

    Args:
        results: [rows * chosen, features], contiguous, any floating dtype.
        ids: int32 [rows, chosen], contiguous: results of a negative one are not read.
        shares: float32 [rows, chosen], contiguous.
        out: [rows, features], contiguous, any floating dtype; written and returned.

    Returns:
        `out`.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_expert_sum(results, ids, shares, out)
    if runs_triton(out):
        from spectrie_kernels.device.experts import products as triton_form

        return triton_form.add_experts(results, ids, shares, out)
    return reference.add_experts(results, ids, shares, out)
