"""Row argmax: ties go to the lowest id, across the kernel's chunks too."""

from __future__ import annotations

import pytest
import torch

import spectrie_kernels
from kernels.tests.sampling import small_kernels
from spectrie_kernels import NO_LOGIT, reference
from spectrie_kernels.calls.greedy import CHUNK_TOKENS
from spectrie_kernels.device.sampling import row_argmax as device_form


def both(logits: torch.Tensor) -> tuple[list[int], list[int]]:
    plain = reference.row_argmax(logits, torch.empty(len(logits), dtype=torch.int32))
    return spectrie_kernels.row_argmax(logits).tolist(), plain.tolist()


@pytest.mark.parametrize("vocabulary", [1, 7, CHUNK_TOKENS, CHUNK_TOKENS * 2 + 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equals_the_reference(vocabulary: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    logits = torch.randn(5, vocabulary, generator=generator).to(dtype)
    actual, expected = both(logits)
    assert actual == expected == logits.float().argmax(dim=1).tolist()


PLACES = [(3, 90), (0, CHUNK_TOKENS), (CHUNK_TOKENS + 1,), (CHUNK_TOKENS - 1, CHUNK_TOKENS)]


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("level", [-1.0, 0.0])
def test_ties_go_to_the_lowest_id(places: tuple[int, ...], level: float) -> None:
    logits = torch.full((1, CHUNK_TOKENS + 5), -2.5)
    logits[0, list(places)] = level
    # Zeros of either sign are equal.
    logits[0, places[0]] *= -1 if level == 0 else 1
    assert both(logits) == ([places[0]], [places[0]])


def test_nan_is_passed_over_and_rows_without_a_finite_maximum_have_no_token() -> None:
    nan, infinity = float("nan"), float("inf")
    logits = torch.tensor(
        [[nan, 1.0, 2.0], [nan] * 3, [-infinity] * 3, [0.0, infinity, nan], [-infinity, -9.0, nan]]
    )
    expected = [2, NO_LOGIT, NO_LOGIT, NO_LOGIT, 1]
    assert both(logits) == (expected, expected)


def test_given_memory_is_used() -> None:
    logits = torch.randn(3, 50)
    out = torch.empty(3, dtype=torch.int32)
    workspace = torch.empty(spectrie_kernels.row_argmax_workspace(3, 50), dtype=torch.int64)
    assert spectrie_kernels.row_argmax(logits, out, workspace=workspace) is out
    with pytest.raises(ValueError, match="workspace has 2 elements, expected 3 or more"):
        spectrie_kernels.row_argmax(logits, out, workspace=workspace[:2])


def test_a_key_without_the_id_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_form, "greatest_key", small_kernels.last_of_greatest)
    actual, expected = both(torch.zeros(1, 9))
    assert actual != expected


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="expected \\[rows, vocabulary\\]"):
        spectrie_kernels.row_argmax(torch.zeros(4))
    with pytest.raises(ValueError, match="out is"):
        spectrie_kernels.row_argmax(torch.zeros(2, 4), torch.zeros(2, dtype=torch.int64))
