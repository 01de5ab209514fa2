"""Logits of single tokens: products of the reference, whatever stands beside them."""

from __future__ import annotations

import pytest
import torch

import spectrie_kernels
from spectrie_kernels import reference

ROWS = torch.tensor([2, 0, -1, 1, 2, 2], dtype=torch.int32)
TOKENS = torch.tensor([4, 0, 3, -1, 4, 1], dtype=torch.int32)


def given(features: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(features)
    x, weight = (torch.randn(rows, features, generator=generator) for rows in (3, 5))
    return x, weight.to(dtype)


@pytest.mark.parametrize("features", [1, 40, 1024, 2500])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_is_the_product_of_a_row_and_a_token(features: int, dtype: torch.dtype) -> None:
    x, weight = given(features, dtype)
    out = torch.full((len(ROWS),), 7.0)
    assert spectrie_kernels.token_logits(x, ROWS, weight, TOKENS, out) is out
    expected = (x.double() @ weight.double().T)[
        ROWS.clamp(min=0).long(), TOKENS.clamp(min=0).long()
    ]
    expected[(ROWS < 0) | (TOKENS < 0)] = 0.0
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-4)
    plain = reference.token_logits(x, ROWS, weight, TOKENS, torch.empty_like(out))
    torch.testing.assert_close(plain, out, rtol=1e-5, atol=1e-4)
    # Of other rows the product is another one.
    others = spectrie_kernels.token_logits(x, ROWS.roll(1), weight, TOKENS, torch.empty_like(out))
    assert not torch.allclose(others, out, rtol=1e-3)


def test_a_product_has_the_same_bits_alone_and_among_others() -> None:
    x, weight = given(2500, torch.bfloat16)
    every = spectrie_kernels.token_logits(x, ROWS, weight, TOKENS, torch.empty(len(ROWS)))
    for index in range(len(ROWS)):
        one = slice(index, index + 1)
        alone = spectrie_kernels.token_logits(x, ROWS[one], weight, TOKENS[one], torch.empty(1))
        assert torch.equal(alone, every[one])
    assert torch.equal(every[0], every[4])


def test_unfit_arguments_are_named() -> None:
    x, weight = given(8, torch.float32)
    out = torch.empty(len(ROWS))
    with pytest.raises(ValueError, match=r"tokens is torch\.int64"):
        spectrie_kernels.token_logits(x, ROWS, weight, TOKENS.long(), out)
    with pytest.raises(ValueError, match=r"weight is .*\[5, 7\], expected .*'any', 8"):
        spectrie_kernels.token_logits(x, ROWS, weight[:, :7].contiguous(), TOKENS, out)
    with pytest.raises(ValueError, match=r"out is .*\[5\], expected torch\.float32 \[6\]"):
        spectrie_kernels.token_logits(x, ROWS, weight, TOKENS, out[:5])
