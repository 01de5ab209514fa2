"""Products of chosen experts, and their sum: the bytes of each row alone, whatever stands beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import spectrie_kernels
from kernels.tests.ascending import chain_dot, signs
from kernels.tests.experts import broken
from kernels.tests.experts.mixtures import (
    equal_bytes,
    products,
    random_ids,
    rows_of,
    weight_of,
    work_of,
)
from spectrie_kernels import (
    ExpertWeight,
    ExpertWork,
    LinearTiles,
    LinearWeight,
    SumOrder,
    add_experts,
    expert_linear,
    linear,
    reference,
)
from spectrie_kernels.device.experts import products as device_form

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="the interpreter's product is replaced"
)

EXPERTS, CHOSEN, FEATURES = 5, 2, 40  # the last tile of features is not full
ORDERS = {
    "ascending": SumOrder(200, 64),  # the last segment is short
    "ascending, segments padded": SumOrder(150, 40),
    "one segment": SumOrder(100, 100),
}


@pytest.fixture
def ascending_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime.interpreter import InterpreterBuilder

    monkeypatch.setattr(InterpreterBuilder, "create_dot", chain_dot)


def drawn(
    name: str, rows: int = 70, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, ExpertWeight, torch.Tensor]:
    """Rows, experts on whose sums the order shows, and a choice."""
    order = ORDERS[name]
    weight = weight_of(EXPERTS, FEATURES, order, dtype)
    return rows_of(rows, order, dtype), weight, random_ids(rows, EXPERTS, CHOSEN)


def multiplied(
    x: torch.Tensor,
    weight: ExpertWeight,
    ids: torch.Tensor,
    tiles: LinearTiles | None = None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    work = work_of(ids, weight.num_experts, weight.values.element_size())
    out = torch.zeros(ids.numel(), weight.out_features, dtype=dtype or x.dtype)
    return expert_linear(x, weight, work, out, tiles=tiles)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 70])
def test_is_near_the_reference_on_random_numbers(rows: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(rows)
    order = ORDERS["ascending"]
    values = torch.randn(EXPERTS, FEATURES, 200, generator=generator).to(dtype)
    weight = ExpertWeight(values, order)
    x = torch.randn(rows, 200, generator=generator).to(dtype)
    ids = random_ids(rows, EXPERTS, CHOSEN)
    work = work_of(ids, EXPERTS, values.element_size())
    exact = torch.einsum("ri,rcoi->rco", x.double(), values[ids.long()].double()).flatten(0, 1)
    expected = reference.expert_linear(x, weight, work, torch.empty(len(exact), FEATURES))
    actual = multiplied(x, weight, ids, dtype=torch.float32)
    assert (expected.double() - exact).abs().max() < 1e-4
    assert (actual.double() - exact).abs().max() < 1e-4
    assert equal_bytes(multiplied(x, weight, ids), actual.to(dtype))


@pytest.mark.usefixtures("ascending_dot")
@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("rows", [1, 2, 17, 33, 70])
def test_a_row_has_the_same_bytes_alone_and_in_a_batch(rows: int, name: str) -> None:
    x, weight, ids = drawn(name)
    expected = products(x, weight, ids)
    assert equal_bytes(multiplied(x[:rows], weight, ids[:rows]), expected[: rows * CHOSEN])
    last = slice(70 - rows, 70)
    assert equal_bytes(multiplied(x[last], weight, ids[last]), expected[-rows * CHOSEN :])


@pytest.mark.usefixtures("ascending_dot")
def test_a_row_has_the_bytes_of_the_product_with_its_expert_alone() -> None:
    x, weight, ids = drawn("ascending", rows=20)
    given = multiplied(x, weight, ids).view(20, CHOSEN, FEATURES)
    for rank in range(CHOSEN):
        for row in range(20):
            values = weight.values[int(ids[row, rank])]
            alone = linear(x[row : row + 1], LinearWeight(values, weight.order))
            assert equal_bytes(given[row, rank], alone[0])


@pytest.mark.usefixtures("ascending_dot")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("rows", [1, 40, 200])
def test_no_height_of_tiles_changes_a_byte(rows: int, dtype: torch.dtype) -> None:
    # Prompts have higher tiles than a few rows; of all rows the half takes the same expert.
    order = SumOrder(72, 40)
    weight = weight_of(4, 20, order, dtype)
    # Numbers that half precision holds.
    weight.values.clamp_(-2048.0, 2048.0)
    x, ids = rows_of(200, order, dtype), random_ids(200, 4, 1)
    ids[::2] = 3
    expected = products(x, weight, ids)
    heights = {work_of(ids[:count], 4, dtype.itemsize).height for count in (1, 40, 200)}
    assert len(heights) == 3 if dtype.itemsize == 2 else 2
    given = multiplied(x[:rows], weight, ids[:rows], dtype=torch.float32)
    assert equal_bytes(given, expected[:rows])
    work = work_of(ids[:rows], 4, dtype.itemsize)
    other = LinearTiles(False, 128, work.height, 16, warps=8, stages=1)
    given = multiplied(x[:rows], weight, ids[:rows], other, dtype=torch.float32)
    assert equal_bytes(given, expected[:rows])


@pytest.mark.usefixtures("ascending_dot")
def test_each_choice_may_have_a_row_of_its_own() -> None:
    _, weight, ids = drawn("one segment", rows=9)
    x = rows_of(9 * CHOSEN, weight.order, torch.float32, seed=5)
    assert equal_bytes(multiplied(x, weight, ids), products(x, weight, ids))


@pytest.mark.usefixtures("ascending_dot")
def test_rows_that_stand_for_none_are_neither_read_nor_written() -> None:
    x, weight, ids = drawn("ascending", rows=20)
    expected = products(x, weight, ids).view(20, CHOSEN, -1)
    none, some = [3, 4, 19], [row for row in range(20) if row not in (3, 4, 19)]
    ids[none] = -1
    x[none] = float("nan")
    weight.values[~torch.isin(torch.arange(EXPERTS), ids)] = float("nan")
    out = torch.full((20 * CHOSEN, FEATURES), 7.0)
    expert_linear(x, weight, work_of(ids, EXPERTS), out)
    by_row = out.view(20, CHOSEN, -1)
    assert (by_row[none] == 7.0).all()
    assert equal_bytes(by_row[some], expected[some])


def test_experts_that_no_row_chose_are_not_read() -> None:
    x, weight, _ = drawn("ascending", rows=3)
    ids = torch.tensor([[1, 3], [3, 1], [1, 3]], dtype=torch.int32)
    expected = multiplied(x, weight, ids)
    weight.values[[0, 2, 4]] = float("nan")
    assert equal_bytes(multiplied(x, weight, ids), expected)
    weight.values[3] = float("nan")
    assert multiplied(x, weight, ids).isnan().any()


@pytest.mark.usefixtures("ascending_dot")
def test_one_accumulator_through_all_segments_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, ids = drawn("ascending", rows=3)
    expected = products(x, weight, ids)
    monkeypatch.setattr(device_form, "segment_sum", broken.one_accumulator)
    assert not equal_bytes(multiplied(x, weight, ids), expected)


@pytest.mark.usefixtures("ascending_dot")
def test_segments_that_depend_on_the_number_of_rows_fail() -> None:
    x, weight, ids = drawn("ascending")

    def otherwise(rows: int) -> torch.Tensor:
        order = SumOrder(200, 32 if rows <= 16 else 64)
        return multiplied(x[:rows], ExpertWeight(weight.values, order), ids[:rows])

    assert not equal_bytes(otherwise(1), otherwise(70)[:CHOSEN])


def shares_of(rows: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows)
    return torch.rand(rows, 4, generator=generator)


def spelt_out(results: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Ascending in rank, each product rounded."""
    rows, chosen = shares.shape
    by_rank = results.float().view(rows, chosen, -1).numpy()
    total = np.zeros_like(by_rank[:, 0])
    for rank in range(chosen):
        total = total + shares[:, rank, None].numpy() * by_rank[:, rank]
    return torch.from_numpy(total)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("features", [1, 40, 700])
def test_results_are_added_ascending_in_rank(features: int, dtype: torch.dtype) -> None:
    results = torch.randn(6 * 4, features, generator=torch.Generator().manual_seed(1)).to(dtype)
    ids, shares = random_ids(6, 9, 4), shares_of(6)
    expected = spelt_out(results, shares)
    together = add_experts(results, ids, shares, torch.empty(6, features))
    assert equal_bytes(together, expected)
    assert equal_bytes(
        reference.add_experts(results, ids, shares, torch.empty(6, features)), expected
    )
    for row in range(6):
        own = slice(row, row + 1)
        part = results[4 * row : 4 * row + 4]
        alone = add_experts(part, ids[own], shares[own], torch.empty(1, features))
        assert equal_bytes(alone, together[own])
    rounded = add_experts(results, ids, shares, torch.empty(6, features, dtype=dtype))
    assert equal_bytes(rounded, expected.to(dtype))


@pytest.mark.parametrize("add", [add_experts, reference.add_experts])
def test_rows_that_stand_for_none_are_zeros(add: Any) -> None:
    results, ids, shares = torch.ones(12, 5), random_ids(3, 9, 4), shares_of(3)
    results[4:8] = float("nan")
    ids[1], shares[1] = -1, 0.0
    out = add(results, ids, shares, torch.empty(3, 5))
    assert equal_bytes(out[1], torch.zeros(5))
    assert not out.isnan().any()


def test_results_added_downwards_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    results, ids, shares = signs(24, 40, 1, torch.float32), random_ids(6, 9, 4), shares_of(6)
    expected = spelt_out(results, shares)
    monkeypatch.setattr(device_form, "_add_experts_kernel", broken.add_downwards)
    assert not equal_bytes(add_experts(results, ids, shares, torch.empty(6, 40)), expected)


def test_no_rows_give_no_rows() -> None:
    _, weight, _ = drawn("one segment")
    ids = torch.empty(0, CHOSEN, dtype=torch.int32)
    assert multiplied(torch.empty(0, 100), weight, ids).shape == (0, FEATURES)
    assert len(add_experts(torch.empty(0, 5), ids, torch.empty(0, CHOSEN), torch.empty(0, 5))) == 0


def test_the_order_of_experts_is_one_of_the_shape_of_what_a_row_computes() -> None:
    # Of Qwen3-30B-A3B and Mixtral: a change here changes bits, and the kernels' version with it.
    order = ExpertWeight.order_of(2 * 768, 2048, 8)
    assert (order.segment, order.segments, order.pairwise) == (1024, 2, False)
    assert ExpertWeight.order_of(2048, 768, 8).segments == 1
    assert ExpertWeight.order_of(2 * 14336, 4096, 2).segments == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(3, 200)}, "x has 3 rows, expected 2, or 4 for each choice"),
        ({"x": torch.zeros(2, 8)}, r"x is .* \[2, 8\], expected .* \['any', 200\]"),
        ({"x": torch.zeros(2, 200).half()}, "x is torch.float16"),
        ({"out": torch.zeros(4, 9)}, r"out is .* \[4, 9\]"),
        ({"out": torch.zeros(4, FEATURES).half()}, "out is torch.float16"),
        ({"work": work_of(random_ids(2, 6, 2), 6)}, "the weight has 5 experts, the work 6"),
        ({"tiles": LinearTiles(False, 64, 32, 16)}, "tiles have 32 rows, expected 16"),
        ({"tiles": LinearTiles(True, 64, 16, 16)}, "not to be split"),
        ({"tiles": LinearTiles(False, 64, 16, 128)}, "depth is 128"),
    ],
)
def test_unfit_arguments_are_named(change: dict[str, Any], message: str) -> None:
    _, weight, ids = drawn("ascending", rows=2)
    fit: dict[str, Any] = {
        "x": torch.zeros(2, 200),
        "weight": weight,
        "work": work_of(ids, EXPERTS),
        "out": torch.zeros(4, FEATURES),
    }
    with pytest.raises(ValueError, match=message):
        expert_linear(**(fit | change))


@pytest.mark.parametrize(
    ("values", "order", "message"),
    [
        (torch.zeros(4, 8), SumOrder(8, 8), r"expected \[experts, out_features, 8\]"),
        (torch.zeros(2, 4, 8).double(), SumOrder(8, 8), "values are torch.float64"),
        (torch.zeros(2, 8, 4).transpose(1, 2), SumOrder(8, 8), "not contiguous"),
        (torch.zeros(2, 4, 64), SumOrder(64, 8, pairwise=True), "the order is pairwise"),
    ],
)
def test_unfit_weights_are_named(values: torch.Tensor, order: SumOrder, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ExpertWeight(values, order)


def test_with_memory_given_nothing_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.tests.test_linear import Launches, Operators
    from spectrie_kernels.device.experts import choice

    kernels = [Launches() for _ in range(4)]
    monkeypatch.setattr(choice, "_choose_kernel", kernels[0])
    monkeypatch.setattr(choice, "_group_kernel", kernels[1])
    monkeypatch.setattr(device_form, "_expert_linear_kernel", kernels[2])
    monkeypatch.setattr(device_form, "_add_experts_kernel", kernels[3])
    weight = ExpertWeight(torch.zeros(128, 96, 64).half(), SumOrder(64, 64))
    memory = torch.zeros(ExpertWork.words(4, 128, 8), dtype=torch.int32)
    ids, shares = torch.zeros(4, 8, dtype=torch.int32), torch.zeros(4, 8)
    sizes = {"rows": 4, "num_experts": 128, "num_chosen": 8, "element_bytes": 2}
    scores, tokens = torch.zeros(4, 128), torch.zeros(4, dtype=torch.int32)
    x, results, out = torch.zeros(4, 64).half(), torch.zeros(32, 96).half(), torch.zeros(4, 96)

    def everything() -> None:
        spectrie_kernels.choose_experts(scores, tokens, ids, shares, normalised=True)
        work = ExpertWork.within(memory, **sizes)
        spectrie_kernels.group_choices(ids, work)
        expert_linear(x, weight, work, results)
        add_experts(results, ids, shares, out)

    with Operators() as operators:
        everything()
    # Views of the memory for the work.
    assert operators.seen == 4
    assert [kernel.grids for kernel in kernels] == [[(4,)], [(128,)], [(34, 2)], [(4, 1)]]
