"""The gate of an MLP: near its reference, the same bytes for every form of the product."""

from __future__ import annotations

import pytest
import torch

import spectrie_kernels
from kernels.tests.ascending import ascending_sum, chain_dot, sensitive, signs
from kernels.tests.layer import broken
from spectrie_kernels import (
    LinearTiles,
    LinearWeight,
    PartialSums,
    SumOrder,
    add_rank_sums,
    linear,
    linear_sums,
    reference,
)
from spectrie_kernels.device import gate as device_form

ROWS = 3
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def random(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(shape[-1])
    return torch.randn(*shape, generator=generator) * 4


def gated(product: torch.Tensor | PartialSums, inner: int, dtype: torch.dtype) -> torch.Tensor:
    rows = len(product) if isinstance(product, torch.Tensor) else product.values.shape[1]
    return spectrie_kernels.gate(product, torch.empty(rows, inner, dtype=dtype))


def equal_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [1, 40, 1024, 1030])
def test_is_near_the_reference(inner: int, dtype: torch.dtype) -> None:
    product = random(ROWS, 2 * inner).to(dtype)
    # Where the exponential leaves float32 at either end.
    product[0, 0], product[1, 0] = -200.0, 200.0
    expected = reference.gate(product, torch.empty(ROWS, inner, dtype=dtype))
    tolerance = torch.finfo(dtype).eps
    actual = gated(product, inner, dtype)
    torch.testing.assert_close(actual, expected, rtol=4 * tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("parts", [1, 2, 4, 8])
def test_sums_give_the_bytes_of_the_finished_product(parts: int, dtype: torch.dtype) -> None:
    inner = 20
    values, bias = random(parts, ROWS, 2 * inner), random(2 * inner)
    finished = torch.empty(ROWS, 2 * inner, dtype=dtype)
    add_rank_sums(values, bias, finished)
    for with_bias in (False, True):
        sums = PartialSums(values, bias if with_bias else None)
        if not with_bias:
            plain = torch.empty_like(finished)
            add_rank_sums(values, None, plain)
            assert equal_bytes(gated(sums, inner, dtype), gated(plain, inner, dtype))
        else:
            assert equal_bytes(gated(sums, inner, dtype), gated(finished, inner, dtype))


def test_ascending_sums_give_the_bytes_of_their_sum() -> None:
    values = random(5, ROWS, 40)
    finished = torch.from_numpy(ascending_sum(list(values.numpy())))
    sums = PartialSums(values, pairwise=False)
    assert equal_bytes(gated(sums, 20, torch.float32), gated(finished, 20, torch.float32))


def test_segments_of_a_product_give_the_bytes_of_the_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from triton.runtime.interpreter import InterpreterBuilder

    monkeypatch.setattr(InterpreterBuilder, "create_dot", chain_dot)
    order = SumOrder(200, 64)
    values = sensitive(40, order.in_features, 1, torch.float32)
    weight = LinearWeight(values, order, sensitive(1, 40, 2, torch.float32)[0])
    x = signs(ROWS, order.in_features, 3, torch.float32)
    tiles = LinearTiles(split=True, features=64, rows=16, depth=32)
    sums = linear_sums(x, weight, tiles=tiles)
    assert (sums.values.shape[0], sums.pairwise) == (4, False)
    finished = gated(linear(x, weight, tiles=tiles), 20, torch.float32)
    assert equal_bytes(gated(sums, 20, torch.float32), finished)
    assert equal_bytes(gated(linear_sums(x, weight), 20, torch.float32), finished)
    otherwise = PartialSums(sums.values, weight.bias)
    assert not equal_bytes(gated(otherwise, 20, torch.float32), finished)


def test_a_row_has_the_same_bytes_alone_and_in_a_batch() -> None:
    product = random(ROWS, 60)
    together = gated(product, 30, torch.float32)
    for row in range(ROWS):
        alone = gated(product[row : row + 1], 30, torch.float32)
        assert equal_bytes(alone, together[row : row + 1])


def test_sums_that_are_not_rounded_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = PartialSums(random(2, ROWS, 40), random(40))
    finished = torch.empty(ROWS, 40, dtype=torch.float16)
    add_rank_sums(sums.values, sums.bias, finished)
    expected = gated(finished, 20, torch.float16)
    monkeypatch.setattr(device_form, "load_product", broken.load_unrounded)
    assert not equal_bytes(gated(sums, 20, torch.float16), expected)


def test_rows_of_zeros_stay_zeros_and_no_rows_give_none() -> None:
    assert (gated(torch.zeros(2, 8), 4, torch.float32) == 0).all()
    assert len(gated(torch.zeros(0, 8), 4, torch.float32)) == 0


def test_unfit_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"gate_up is .*\[2, 7\], expected .*\[2, 8\]"):
        spectrie_kernels.gate(torch.zeros(2, 7), torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"gate_up is torch\.float16"):
        spectrie_kernels.gate(torch.zeros(2, 8).half(), torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"out is .* contiguous"):
        spectrie_kernels.gate(torch.zeros(2, 8), torch.zeros(4, 2).T)
