"""The likeliest tokens of rows: ids of the reference, ties to the lowest, several programs a row."""

from __future__ import annotations

import pytest
import torch

import spectrie_kernels
from kernels.tests.sampling import small_kernels
from spectrie_kernels import TOP_K, reference
from spectrie_kernels.calls.greedy import CHUNK_TOKENS
from spectrie_kernels.device.sampling import top_k as device_form

NAN, INFINITY = float("nan"), float("inf")


def room(logits: torch.Tensor, width: int = TOP_K) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty((len(logits), width), dtype=torch.int32), torch.empty((len(logits), width))


def plain(logits: torch.Tensor, width: int = TOP_K) -> tuple[torch.Tensor, torch.Tensor]:
    ids, probabilities = room(logits, width)
    reference.top_k(logits, ids, probabilities)
    return ids, probabilities


def check(logits: torch.Tensor, width: int = TOP_K) -> None:
    ids, probabilities = spectrie_kernels.top_k(logits, *room(logits, width))
    expected, likely = plain(logits, width)
    assert ids.tolist() == expected.tolist()
    torch.testing.assert_close(probabilities, likely, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("vocabulary", [1, 7, TOP_K, 100, CHUNK_TOKENS + 3, CHUNK_TOKENS * 2 + 1])
def test_equals_the_reference(vocabulary: int) -> None:
    logits = torch.randn(3, vocabulary, generator=torch.Generator().manual_seed(vocabulary)) * 4
    check(logits)
    # Few different values: nearly all places are ties.
    check(logits.round())


@pytest.mark.parametrize("width", [1, 16, 64])
def test_as_many_are_found_as_there_is_room_for(width: int) -> None:
    logits = torch.randn(3, CHUNK_TOKENS + 50, generator=torch.Generator().manual_seed(width)) * 4
    check(logits, width)
    check(logits.round(), width)
    check(logits[:, :40].contiguous(), width)


def test_the_reference_sorts() -> None:
    ids, probabilities = plain(torch.tensor([[0.0, 3.0, -0.0, 3.0, -INFINITY]]))
    assert ids.tolist() == [[1, 3, 0, 2, -1, -1, -1, -1]]
    total = 2 * torch.tensor(3.0).exp() + 2
    expected = torch.tensor([3.0, 3, 0, 0]).exp() / total
    torch.testing.assert_close(probabilities[0, :4], expected)
    assert (probabilities[0, 4:] == 0).all()


def test_ties_go_to_the_lowest_id_across_chunks() -> None:
    logits = torch.zeros(1, CHUNK_TOKENS + 9)
    logits[0, [CHUNK_TOKENS + 8, CHUNK_TOKENS + 1, CHUNK_TOKENS - 1]] = 1.0
    logits[0, 2] = -0.0
    check(logits)
    ids, _ = spectrie_kernels.top_k(logits)
    assert ids[0, :3].tolist() == [CHUNK_TOKENS - 1, CHUNK_TOKENS + 1, CHUNK_TOKENS + 8]


def test_what_is_no_number_is_passed_over() -> None:
    rows = [[NAN] * 4, [-INFINITY] * 4, [1.0, INFINITY, NAN, 2.0], [NAN, -INFINITY, 5.0, -3e38]]
    logits = torch.tensor(rows)
    check(logits)
    ids, probabilities = spectrie_kernels.top_k(logits)
    assert (ids[:3] == -1).all()
    assert (probabilities[:3] == 0).all()
    assert ids[3].tolist() == [2, 3, *[-1] * 6]


def test_given_memory_is_used() -> None:
    logits = torch.randn(2, CHUNK_TOKENS + 1)
    elements = spectrie_kernels.top_k_workspace(*logits.shape)
    workspace = torch.empty(elements, dtype=torch.int64)
    given = torch.empty((2, TOP_K), dtype=torch.int32), torch.empty((2, TOP_K))
    result = spectrie_kernels.top_k(logits, *given, workspace=workspace)
    assert [one is other for one, other in zip(result, given, strict=True)] == [True, True]
    with pytest.raises(ValueError, match=f"expected {elements} or more"):
        spectrie_kernels.top_k(logits, *given, workspace=workspace[1:])


def test_a_token_found_twice_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.arange(20.0).view(1, 20)
    monkeypatch.setattr(device_form, "greatest_keys", small_kernels.greatest_key_again)
    ids, _ = spectrie_kernels.top_k(logits)
    assert ids.tolist() != plain(logits)[0].tolist()


def test_unfit_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"logits is torch\.float16"):
        spectrie_kernels.top_k(torch.zeros(2, 4).half())
    with pytest.raises(ValueError, match="ids has width 7, expected a power of two"):
        spectrie_kernels.top_k(torch.zeros(2, 4), torch.zeros((2, 7), dtype=torch.int32))


def test_rows_that_are_not_wanted_are_left_alone() -> None:
    logits = torch.randn(5, CHUNK_TOKENS + 3, generator=torch.Generator().manual_seed(3))
    rows = torch.tensor([4, -1, 0, -1, 7], dtype=torch.int32)
    for form in (spectrie_kernels, reference):
        ids = torch.full((5, TOP_K), 77, dtype=torch.int32)
        probabilities = torch.full((5, TOP_K), 7.0)
        # Whatever these rows hold.
        given = logits.clone()
        given[1] = NAN
        form.top_k(given, ids, probabilities, rows=rows)
        expected, likely = plain(logits)
        for row, number in enumerate(rows.tolist()):
            wanted = number >= 0
            assert ids[row].tolist() == (expected[row].tolist() if wanted else [77] * TOP_K)
            there = likely[row] if wanted else torch.full((TOP_K,), 7.0)
            torch.testing.assert_close(probabilities[row], there, rtol=1e-5, atol=1e-7)
