"""Residual and norm: near their reference, the same bytes in every batch and for every form of delta."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernels.tests.ascending import chain_dot, sensitive, signs
from spectrie_kernels import (
    LinearTiles,
    LinearWeight,
    PartialSums,
    SumOrder,
    add_norm,
    linear_sums,
    linear_sums_shape,
    reference,
)
from spectrie_kernels.device import add_norm as device_form

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="the interpreter's product is replaced; see device"
)

FEATURES = 40
ROWS = 20
EPSILON = 1e-5
SPLIT = LinearTiles(split=True, features=64, rows=16, depth=32)
WHOLE = LinearTiles(split=False, features=64, rows=32, depth=64)


@pytest.fixture
def ascending_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime.interpreter import InterpreterBuilder

    monkeypatch.setattr(InterpreterBuilder, "create_dot", chain_dot)


def drawn(features: int = FEATURES, rows: int = ROWS) -> tuple[torch.Tensor, torch.Tensor]:
    """A residual stream and a norm's weight."""
    generator = torch.Generator().manual_seed(features)
    residual = torch.randn(rows, features, generator=generator) * 3
    return residual, torch.rand(features, generator=generator) + 0.5


def sums_of(parts: int, features: int = FEATURES, rows: int = ROWS) -> PartialSums:
    values = sensitive(parts * rows, features, parts, torch.float32).view(parts, rows, features)
    return PartialSums(values, sensitive(1, features, 9, torch.float32)[0])


def done(
    residual: torch.Tensor, delta: PartialSums | None, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The new residual stream and its norm in float32."""
    after = residual.clone()
    return after, add_norm(after, delta, weight, EPSILON, torch.empty_like(residual))


def equal_bytes(one: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...]) -> bool:
    return all(
        torch.equal(left.view(torch.int32), right.view(torch.int32))
        for left, right in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("features", [1, 40, 64, 576])
@pytest.mark.parametrize("parts", [None, 1, 2, 4, 8])
def test_is_near_the_reference(parts: int | None, features: int, dtype: torch.dtype) -> None:
    residual, weight = drawn(features)
    generator = torch.Generator().manual_seed(1)
    delta = None
    if parts is not None:
        values = torch.randn(parts, ROWS, features, generator=generator)
        delta = PartialSums(values, torch.randn(features, generator=generator).to(dtype))
    expected, actual = residual.clone(), residual.clone()
    out = torch.empty(ROWS, features, dtype=dtype)
    wanted = reference.add_norm(expected, delta, weight, EPSILON, out.clone())
    given = add_norm(actual, delta, weight, EPSILON, out)
    assert given is out
    assert torch.equal(actual, expected)
    # One unit in the last place.
    tolerance = torch.finfo(dtype).eps
    torch.testing.assert_close(given, wanted, rtol=2 * tolerance, atol=tolerance)


def test_the_norm_of_a_row_has_a_mean_square_of_one() -> None:
    residual, _ = drawn(576)
    _, normed = done(residual, None, torch.ones(576))
    torch.testing.assert_close(normed.pow(2).mean(dim=1), torch.ones(ROWS), rtol=1e-4, atol=0)


@pytest.mark.parametrize("parts", [None, 1, 8])
def test_a_row_has_the_same_bytes_alone_and_in_a_batch(parts: int | None) -> None:
    residual, weight = drawn()
    delta = None if parts is None else sums_of(parts)
    together = done(residual, delta, weight)
    for first, last in [(row, row + 1) for row in range(ROWS)] + [(0, 7), (3, ROWS)]:
        own = None
        if delta is not None:
            own = PartialSums(delta.values[:, first:last].contiguous(), delta.bias)
        alone = done(residual[first:last].clone(), own, weight)
        assert equal_bytes(alone, tuple(one[first:last] for one in together))


@pytest.mark.usefixtures("ascending_dot")
def test_every_form_of_a_product_gives_the_same_bytes() -> None:
    """Decode leaves segments, a prompt one sum, ranks one sum each."""
    product, forms = products()
    residual, weight = drawn(rows=3)
    results = [done(residual, form, weight) for form in forms]
    assert [form.values.shape[0] for form in forms] == [8, 1, 2, 4, 8]
    assert all(equal_bytes(one, results[0]) for one in results)
    shapes = [linear_sums_shape(3, product, tiles) for tiles in (SPLIT, WHOLE, None)]
    assert shapes == [(8, 3, FEATURES), (1, 3, FEATURES), (8, 3, FEATURES)]


@pytest.mark.usefixtures("ascending_dot")
def test_a_delta_rounded_in_one_form_only_fails() -> None:
    _, (split, whole, *_) = products()
    residual, weight = drawn(rows=3)
    rounded = PartialSums(whole.values.to(torch.bfloat16).float(), whole.bias)
    assert not equal_bytes(done(residual, rounded, weight), done(residual, split, weight))


@pytest.mark.usefixtures("ascending_dot")
def test_parts_in_another_order_fail() -> None:
    _, (split, *_) = products()
    residual, weight = drawn(rows=3)
    turned = PartialSums(split.values[[0, 2, 1, 3, 4, 6, 5, 7]], split.bias)
    assert not equal_bytes(done(residual, turned, weight), done(residual, split, weight))


def products() -> tuple[LinearWeight, list[PartialSums]]:
    """A weight and sums of products with it: split, whole, and of 2, 4 and 8 ranks."""
    order = SumOrder(8 * 64, 64, pairwise=True)
    values = sensitive(FEATURES, order.in_features, 1, torch.float32)
    weight = LinearWeight(values, order, sensitive(1, FEATURES, 2, torch.float32)[0])
    x = signs(3, order.in_features, 3, torch.float32)
    forms = [linear_sums(x, weight, tiles=tiles) for tiles in (SPLIT, WHOLE)]
    for ranks in (2, 4, 8):
        sums = []
        for own_x, own in zip(x.chunk(ranks, dim=1), values.chunk(ranks, dim=1), strict=True):
            part = LinearWeight(own.contiguous(), order.shard(ranks))
            sums.append(linear_sums(own_x.contiguous(), part, tiles=WHOLE).values)
        forms.append(PartialSums(torch.cat(sums), weight.bias))
    return weight, forms


@pytest.mark.usefixtures("ascending_dot")
def test_ascending_sums_are_finished_by_the_product() -> None:
    values = sensitive(FEATURES, 200, 1, torch.float32)
    weight = LinearWeight(values, SumOrder(200, 64))
    x = signs(3, 200, 3, torch.float32)
    assert linear_sums(x, weight).values.shape == (1, 3, FEATURES)
    residual, gain = drawn(rows=3)
    with pytest.raises(ValueError, match="parts to be added ascending, expected pairwise"):
        add_norm(residual, linear_sums(x, weight, tiles=SPLIT), gain, EPSILON, residual.clone())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_finished_product_has_the_bytes_of_one_sum(dtype: torch.dtype) -> None:
    residual, weight = drawn()
    product = torch.randn(ROWS, FEATURES, generator=torch.Generator().manual_seed(2)).to(dtype)
    after = residual.clone()
    normed = add_norm(after, product, weight, EPSILON, torch.empty_like(after))
    expected = done(residual, PartialSums(product.float()[None]), weight)
    assert equal_bytes((after, normed), expected)


def test_the_reference_of_sums_has_the_shapes_of_the_kernel() -> None:
    weight = LinearWeight(torch.randn(FEATURES, 512), SumOrder(512, 64, pairwise=True))
    x = torch.randn(3, 512)
    for parts in (1, 8):
        out = torch.empty(parts, 3, FEATURES)
        reference.linear_sums(x, weight, out)
        torch.testing.assert_close(out.sum(0), x @ weight.values.T, rtol=1e-4, atol=1e-3)


def test_no_rows_give_no_rows() -> None:
    residual = torch.empty(0, FEATURES)
    assert add_norm(residual, None, torch.ones(FEATURES), 1e-5, residual.clone()).shape[0] == 0


def test_one_kernel_serves_every_number_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another compiled form may add the squares in another order."""
    constants: list[dict[str, Any]] = []

    class Kernel:
        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return lambda *arguments, **named: constants.append(named)

    monkeypatch.setattr(device_form, "_add_norm_kernel", Kernel())
    residual, weight = drawn()
    for parts in (1, 2, 4, 8):
        done(residual, sums_of(parts), weight)
        done(residual[:1].clone(), sums_of(parts, rows=1), weight)
    assert len(constants) == 8
    assert all(one == constants[0] for one in constants)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"residual": torch.zeros(2, 8).half()}, "residual is torch.float16"),
        ({"residual": torch.zeros(8, 2).T}, "residual is .* contiguous"),
        ({"delta": PartialSums(torch.zeros(1, 3, 8))}, r"delta has shape \[1, 3, 8\]"),
        ({"delta": torch.zeros(3, 8)}, r"delta is .*\[3, 8\]"),
        ({"weight": torch.zeros(9)}, r"weight has shape \[9\]"),
        ({"out": torch.zeros(3, 8)}, r"out has shape \[3, 8\]"),
        ({"weight": torch.zeros(9)[1:]}, "weight does not begin at a multiple of 16 bytes"),
    ],
)
def test_unfit_arguments_are_named(change: dict[str, Any], message: str) -> None:
    fit: dict[str, Any] = {"residual": torch.zeros(2, 8), "delta": None, "epsilon": 1e-5}
    fit |= {"weight": torch.zeros(8), "out": torch.zeros(2, 8)}
    with pytest.raises(ValueError, match=message):
        add_norm(**(fit | change))


@pytest.mark.parametrize(
    ("values", "bias", "message"),
    [
        (torch.zeros(2, 3), None, "values are torch.float32"),
        (torch.zeros(2, 3, 4).half(), None, "values are torch.float16"),
        (torch.zeros(3, 3, 4), None, "1, 2, 4 or 8 parts, not 3"),
        (torch.zeros(2, 3, 4), torch.zeros(3), r"bias has shape \[3\]"),
    ],
)
def test_unfit_sums_are_named(
    values: torch.Tensor, bias: torch.Tensor | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        PartialSums(values, bias)


def test_memory_for_sums_of_another_shape_is_refused() -> None:
    weight = LinearWeight(torch.zeros(FEATURES, 512), SumOrder(512, 64, pairwise=True))
    with pytest.raises(ValueError, match=r"expected float32 \[8, 2, 40\]"):
        linear_sums(torch.zeros(2, 512), weight, torch.zeros(1, 2, FEATURES))
