"""Rows taken by their numbers: copies, zeros for negative numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import spectrie_kernels
from kernels.tests.layer import broken
from spectrie_kernels import reference
from spectrie_kernels.device import gather_rows as device_form

WANTED = torch.tensor([4, -1, 0, 4, 2, -7], dtype=torch.int32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("features", [1, 40, 1030])
def test_rows_are_copied_and_negative_ones_are_zeros(features: int, dtype: torch.dtype) -> None:
    x = torch.randn(5, features, generator=torch.Generator().manual_seed(features)).to(dtype)
    expected = torch.stack([x[row] if row >= 0 else torch.zeros_like(x[0]) for row in WANTED])
    for dtype_out, call in (
        (dtype, spectrie_kernels.gather_rows),
        (torch.float32, lambda x, rows, out: spectrie_kernels.embed(rows, x, out)),
    ):
        out = torch.full((len(WANTED), features), 7.0, dtype=dtype_out)
        assert call(x, WANTED, out) is out
        assert torch.equal(out, expected.to(dtype_out))
        plain = reference.gather_rows(x, WANTED, torch.empty_like(out))
        assert torch.equal(plain, expected.to(dtype_out))


def test_a_padding_row_taken_from_the_first_row_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(5, 3)
    expected = reference.gather_rows(x, WANTED, torch.empty(len(WANTED), 3))
    monkeypatch.setattr(device_form, "_gather_rows_kernel", broken.gather_without_padding)
    assert not torch.equal(spectrie_kernels.gather_rows(x, WANTED, torch.empty(6, 3)), expected)


def test_unfit_arguments_are_named() -> None:
    x = torch.zeros(5, 3)
    with pytest.raises(
        ValueError, match=r"out is torch\.float16 .*expected torch.float32 \[6, 3\]"
    ):
        spectrie_kernels.gather_rows(x, WANTED, torch.zeros(6, 3).half())
    with pytest.raises(ValueError, match=r"rows is torch\.int64"):
        spectrie_kernels.gather_rows(x, WANTED.long(), torch.zeros(6, 3))
    with pytest.raises(ValueError, match=r"out is .*\[6, 4\]"):
        spectrie_kernels.embed(WANTED, x, torch.zeros(6, 4))
    with pytest.raises(ValueError, match=r"table is .* contiguous"):
        spectrie_kernels.embed(WANTED, torch.zeros(3, 5).T, torch.zeros(6, 3))


@pytest.mark.parametrize("rows", [[], [0], [4], [1, 2, 4], [0, 1, 2, 3, 4], [2, 3]])
@pytest.mark.parametrize("form", [spectrie_kernels, reference], ids=["kernel", "reference"])
def test_lifted_rows_stand_at_the_front_in_their_order(form: Any, rows: list[int]) -> None:
    x = torch.randn(5, 1030, generator=torch.Generator().manual_seed(1))
    lifted = x.clone()
    form.lift_rows(lifted, torch.tensor(rows, dtype=torch.int32))
    assert torch.equal(lifted[: len(rows)], x[rows])
    # Those behind the last that was lifted stay.
    end = max([*rows, -1]) + 1
    assert torch.equal(lifted[end:], x[end:])
