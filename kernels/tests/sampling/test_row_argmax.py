"""Row argmax: ties go to the lowest id, across the kernel's blocks too."""

from __future__ import annotations

import pytest
import torch

import spectrie_kernels
from spectrie_kernels import reference
from spectrie_kernels.device import row_argmax as device_form


@pytest.mark.parametrize("vocabulary", [1, 7, device_form.BLOCK, device_form.BLOCK * 2 + 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equals_the_reference(vocabulary: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    logits = torch.randn(5, vocabulary, generator=generator).to(dtype)
    assert torch.equal(spectrie_kernels.row_argmax(logits), reference.row_argmax(logits))


@pytest.mark.parametrize("places", [(3, 90), (0, device_form.BLOCK), (device_form.BLOCK + 1,)])
def test_ties_go_to_the_lowest_id(places: tuple[int, ...]) -> None:
    logits = torch.zeros(1, device_form.BLOCK + 5)
    logits[0, list(places)] = 2.5
    for form in (reference.row_argmax, device_form.row_argmax):
        assert form(logits).tolist() == [places[0]]


def test_rows_of_minus_infinity_give_a_valid_id() -> None:
    logits = torch.full((2, 9), float("-inf"))
    assert spectrie_kernels.row_argmax(logits).tolist() == [0, 0]


def test_shape_is_checked() -> None:
    with pytest.raises(ValueError, match="expected \\[rows, vocabulary\\]"):
        spectrie_kernels.row_argmax(torch.zeros(4))
