"""The choice of experts: the highest scores, ties to the lowest, shares added in one order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kernels.tests.experts import broken
from kernels.tests.experts.mixtures import equal_bytes, neighbours_first
from kernels.tests.layer.broken import halves_first
from spectrie_kernels import PartialSums, choose_experts, reference
from spectrie_kernels.device.experts import choice as device_form
from spectrie_kernels.reference.linear import finished

SHAPES = [(1, 1), (5, 3), (8, 2), (20, 4), (128, 8), (130, 6)]
Chosen = tuple[torch.Tensor, torch.Tensor]


def random(rows: int, experts: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(experts)
    return torch.randn(rows, experts, generator=generator) * 3


def chosen_of(
    scores: torch.Tensor | PartialSums,
    chosen: int,
    *,
    normalised: bool = True,
    padding: tuple[int, ...] = (),
    choose: Any = choose_experts,
) -> Chosen:
    rows = len(scores) if isinstance(scores, torch.Tensor) else scores.values.shape[1]
    tokens = torch.arange(rows, dtype=torch.int32)
    tokens[list(padding)] = -1
    ids = torch.full((rows, chosen), 99, dtype=torch.int32)
    shares = torch.full((rows, chosen), float("nan"))
    if choose is choose_experts:
        choose(scores, tokens, ids, shares, normalised=normalised)
    else:
        choose(scores, tokens, ids, shares, normalised)
    return ids, shares


def spelt_out(scores: torch.Tensor, chosen: int, normalised: bool) -> Chosen:
    """The rule in NumPy, expert by expert."""
    values = scores.numpy()
    order = [sorted(range(len(row)), key=lambda e: (-row[e], e))[:chosen] for row in values]
    ids = np.array(order, np.int32)
    weights = np.exp(values - values.max(axis=1, keepdims=True))
    taken = np.take_along_axis(weights, ids.astype(np.int64), axis=1)
    if normalised:
        total = np.zeros(len(values), np.float32)
        for rank in range(chosen):
            total = total + taken[:, rank]
    else:
        total = neighbours_first(weights)
    return torch.from_numpy(ids), torch.from_numpy(taken / total[:, None])


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize(("experts", "chosen"), SHAPES)
def test_gives_the_bytes_of_the_rule(experts: int, chosen: int, normalised: bool) -> None:
    scores = random(6, experts)
    ids, shares = chosen_of(scores, chosen, normalised=normalised)
    expected_ids, expected = spelt_out(scores, chosen, normalised)
    assert torch.equal(ids, expected_ids)
    assert equal_bytes(shares, expected)
    alone = [chosen_of(scores[r : r + 1], chosen, normalised=normalised) for r in range(6)]
    assert torch.equal(torch.cat([one for one, _ in alone]), ids)
    assert equal_bytes(torch.cat([one for _, one in alone]), shares)


@pytest.mark.parametrize("normalised", [False, True])
def test_is_near_the_reference_and_the_softmax(normalised: bool) -> None:
    scores = random(6, 20)
    ids, shares = chosen_of(scores, 4, normalised=normalised)
    theirs = chosen_of(scores, 4, normalised=normalised, choose=reference.choose_experts)
    assert torch.equal(ids, theirs[0])
    torch.testing.assert_close(shares, theirs[1])
    likely, best = scores.softmax(dim=-1).topk(4, dim=-1)
    if normalised:
        likely = likely / likely.sum(dim=-1, keepdim=True)
    assert torch.equal(ids.long(), best)
    torch.testing.assert_close(shares, likely)


@pytest.mark.parametrize("choose", [choose_experts, reference.choose_experts])
def test_ties_go_to_the_lowest_expert_and_nan_is_chosen_last(choose: Any) -> None:
    low, nan = float("-inf"), float("nan")
    scores = torch.tensor(
        [
            [1.0, 2.0, 2.0, 1.0, 2.0],
            [-0.0, 0.0, -0.0, -1.0, -2.0],
            [low, low, 3.0, low, low],
            [nan, 1.0, nan, 2.0, low],
            [nan, nan, nan, nan, nan],
        ]
    )
    ids, shares = chosen_of(scores, 4, choose=choose)
    assert ids.tolist() == [[1, 2, 4, 0], [0, 1, 2, 3], [2, 0, 1, 3], [3, 1, 0, 2], [0, 1, 2, 3]]
    assert shares[2].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert shares[3:].isnan().all()


@pytest.mark.parametrize("choose", [choose_experts, reference.choose_experts])
def test_rows_that_stand_for_none_choose_none(choose: Any) -> None:
    scores = random(5, 8)
    scores[3] = float("nan")
    ids, shares = chosen_of(scores, 2, padding=(1, 3), choose=choose)
    assert (ids[[1, 3]] == -1).all()
    assert (shares[[1, 3]] == 0.0).all()
    kept = [0, 2, 4]
    whole_ids, whole = chosen_of(scores[kept], 2, choose=choose)
    assert torch.equal(ids[kept], whole_ids)
    assert equal_bytes(shares[kept], whole)


@pytest.mark.parametrize(("parts", "pairwise"), [(5, False), (16, False), (8, True), (1, True)])
def test_sums_give_the_bytes_of_the_finished_scores(parts: int, pairwise: bool) -> None:
    generator = torch.Generator().manual_seed(parts)
    sums = PartialSums(torch.randn(parts, 3, 20, generator=generator), pairwise=pairwise)
    scores = finished(sums, torch.float32)
    for normalised in (False, True):
        ids, shares = chosen_of(sums, 4, normalised=normalised)
        theirs = chosen_of(scores, 4, normalised=normalised)
        assert torch.equal(ids, theirs[0])
        assert equal_bytes(shares, theirs[1])


def test_totals_added_in_another_order_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = random(6, 128)
    expected = chosen_of(scores, 8, normalised=False)[1]
    monkeypatch.setattr(device_form, "neighbours_first", halves_first)
    assert not equal_bytes(chosen_of(scores, 8, normalised=False)[1], expected)


@pytest.mark.parametrize("fault", [broken.last_of_equal, broken.nan_has_no_key])
def test_another_order_of_scores_fails(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_form, "_expert_keys", fault)
    with pytest.raises(AssertionError):
        test_ties_go_to_the_lowest_expert_and_nan_is_chosen_last(choose_experts)


def test_no_rows_choose_nothing() -> None:
    assert chosen_of(torch.empty(0, 8), 2)[0].shape == (0, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": torch.zeros(2, 8).half()}, "scores is torch.float16"),
        ({"scores": torch.zeros(3, 8)}, r"scores is .* \[3, 8\], expected .* \[2, 'any'\]"),
        ({"scores": torch.zeros(2, 1)}, "ids have 2 columns and scores 1"),
        ({"scores": torch.zeros(2, 1025)}, "at most 1024 experts"),
        ({"tokens": torch.zeros(2, dtype=torch.int64)}, "tokens is torch.int64"),
        ({"ids": torch.zeros(2, 2)}, "ids is torch.float32"),
        ({"shares": torch.zeros(2, 3)}, r"shares is .* \[2, 3\]"),
    ],
)
def test_unfit_arguments_are_named(change: dict[str, Any], message: str) -> None:
    fit = {
        "scores": torch.zeros(2, 8),
        "tokens": torch.zeros(2, dtype=torch.int32),
        "ids": torch.zeros(2, 2, dtype=torch.int32),
        "shares": torch.zeros(2, 2),
    }
    with pytest.raises(ValueError, match=message):
        choose_experts(**(fit | change), normalised=True)
