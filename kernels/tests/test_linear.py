"""Products: near their reference, and the same bytes for a row whatever stands beside it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import spectrie_kernels
from kernels.tests.ascending import chain_dot, product, sensitive, signs
from spectrie_kernels import LinearTiles, LinearWeight, SumOrder, add_rank_sums, linear, reference
from spectrie_kernels.device import linear as device_form

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="the interpreter's product is replaced; see device"
)

FEATURES = 40  # the last tile of features is not full
COUNTS = [1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 70]
ORDERS = {
    "ascending": SumOrder(200, 64),  # the last segment is short
    "ascending, segments padded": SumOrder(150, 40),
    "one segment": SumOrder(100, 100),
    "pairwise": SumOrder(8 * 64, 64, pairwise=True),
    "pairwise, segments padded": SumOrder(8 * 24, 24, pairwise=True),
}
FORMS = [
    LinearTiles(split=True, features=64, rows=16, depth=32),
    LinearTiles(split=True, features=32, rows=64, depth=16, warps=8),
    LinearTiles(split=False, features=32, rows=16, depth=16, stages=1),
    LinearTiles(split=False, features=64, rows=64, depth=64, warps=8),
]


@pytest.fixture
def ascending_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime.interpreter import InterpreterBuilder

    monkeypatch.setattr(InterpreterBuilder, "create_dot", chain_dot)


def drawn(order: SumOrder, dtype: torch.dtype = torch.float32, rows: int = 70) -> Any:
    """Rows, and a weight with a bias, on whose sums the order shows."""
    values = sensitive(FEATURES, order.in_features, 1, dtype)
    weight = LinearWeight(values, order, sensitive(1, FEATURES, 2, dtype)[0])
    return signs(rows, order.in_features, 3, dtype), weight


def equal_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same bytes: unlike `torch.equal`, 0 is not -0."""
    assert one.dtype == other.dtype and one.shape == other.shape
    kind = torch.int32 if one.dtype == torch.float32 else torch.int16
    return torch.equal(one.view(kind), other.view(kind))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["ascending, segments padded", "pairwise"])
@pytest.mark.parametrize("rows", [1, 17, 70])
def test_is_near_the_reference_on_random_numbers(rows: int, name: str, dtype: torch.dtype) -> None:
    order = ORDERS[name]
    generator = torch.Generator().manual_seed(rows)
    values = torch.randn(FEATURES, order.in_features, generator=generator).to(dtype)
    bias = torch.randn(FEATURES, generator=generator).to(dtype)
    x = torch.randn(rows, order.in_features, generator=generator).to(dtype)
    weight = LinearWeight(values, order, bias)
    exact = x.double() @ values.double().T + bias.double()
    expected = reference.linear(x, weight, torch.empty(rows, FEATURES))
    actual = linear(x, weight, torch.empty(rows, FEATURES))
    # Sums of some hundred terms near 1, in float32.
    assert (expected.double() - exact).abs().max() < 1e-4
    assert (actual.double() - exact).abs().max() < 1e-4
    rounded = linear(x, weight)
    assert rounded.dtype == dtype
    assert equal_bytes(rounded, actual.to(dtype))


@pytest.mark.usefixtures("ascending_dot")
@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("rows", COUNTS)
def test_a_row_has_the_same_bytes_alone_and_in_a_batch(rows: int, name: str) -> None:
    x, weight = drawn(ORDERS[name])
    expected = product(x, weight.values, weight.order, weight.bias)
    assert equal_bytes(linear(x[:rows], weight), expected[:rows])
    assert equal_bytes(linear(x[70 - rows :], weight), expected[70 - rows :])


@pytest.mark.usefixtures("ascending_dot")
@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("tiles", FORMS, ids=str)
def test_no_tile_and_no_form_changes_a_byte(tiles: LinearTiles, name: str) -> None:
    x, weight = drawn(ORDERS[name])
    expected = product(x, weight.values, weight.order, weight.bias)
    for rows in (1, 17, 70):
        assert equal_bytes(linear(x[:rows], weight, tiles=tiles), expected[:rows])


@pytest.mark.usefixtures("ascending_dot")
@pytest.mark.parametrize("tiles", [None, FORMS[3]], ids=str)
def test_half_precision_is_rounded_once_after_the_bias(tiles: LinearTiles | None) -> None:
    x, weight = drawn(ORDERS["pairwise"], torch.bfloat16)
    expected = product(x, weight.values, weight.order, weight.bias)
    assert equal_bytes(linear(x, weight, tiles=tiles), expected.to(torch.bfloat16))
    head = torch.empty(70, FEATURES)
    assert equal_bytes(linear(x, weight, head, tiles=tiles), expected)


@pytest.mark.usefixtures("ascending_dot")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 70])
def test_rows_in_half_precision_meet_a_float32_weight_as_they_are(
    rows: int, dtype: torch.dtype
) -> None:
    x, weight = drawn(ORDERS["ascending"])
    expected = product(x, weight.values, weight.order, weight.bias)[:rows]
    given = linear(x[:rows].to(dtype), weight, torch.empty(rows, FEATURES))
    assert equal_bytes(given, expected)


@pytest.mark.usefixtures("ascending_dot")
@pytest.mark.parametrize("tiles", FORMS, ids=str)
def test_a_sum_of_zeros_has_no_sign(tiles: LinearTiles) -> None:
    weight = LinearWeight(-torch.ones(FEATURES, 200), SumOrder(200, 64))
    assert equal_bytes(linear(torch.zeros(3, 200), weight, tiles=tiles), torch.zeros(3, FEATURES))


@pytest.mark.usefixtures("ascending_dot")
@pytest.mark.parametrize("name", ["pairwise", "pairwise, segments padded"])
@pytest.mark.parametrize("rows", [1, 70])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_ranks_that_share_the_terms_give_the_bytes_of_one(ranks: int, rows: int, name: str) -> None:
    x, weight = drawn(ORDERS[name])
    assert equal_bytes(
        by_ranks(x[:rows], weight, ranks),
        product(x, weight.values, weight.order, weight.bias)[:rows],
    )


def by_ranks(x: torch.Tensor, weight: LinearWeight, ranks: int) -> torch.Tensor:
    """Each rank holds neighbouring segments and sends one float32 sum."""
    sums = []
    shards = weight.values.chunk(ranks, dim=1)
    for own_x, own in zip(x.chunk(ranks, dim=1), shards, strict=True):
        part = LinearWeight(own.contiguous(), weight.order.shard(ranks))
        sums.append(linear(own_x.contiguous(), part, torch.empty(x.shape[0], FEATURES)))
    return add_rank_sums(torch.stack(sums), weight.bias, torch.empty(x.shape[0], FEATURES))


@pytest.mark.usefixtures("ascending_dot")
def test_features_shared_by_ranks_keep_their_bytes() -> None:
    x, weight = drawn(ORDERS["ascending"])
    whole = linear(x, weight)
    assert weight.bias is not None
    part = LinearWeight(weight.values[24:].contiguous(), weight.order, weight.bias[24:])
    assert equal_bytes(linear(x, part), whole[:, 24:].contiguous())


@pytest.mark.usefixtures("ascending_dot")
@pytest.mark.parametrize("tiles", [FORMS[0], FORMS[2]], ids=str)
@pytest.mark.parametrize("nest", [(1, 1, 8), (1, 2, 4), (2, 1, 4)])
def test_segment_sums_paired_otherwise_fail(
    nest: tuple[int, int, int], tiles: LinearTiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weight = drawn(ORDERS["pairwise"], rows=3)
    expected = product(x, weight.values, weight.order, weight.bias)
    monkeypatch.setattr(SumOrder, "nest", nest)
    assert not equal_bytes(linear(x, weight, tiles=tiles), expected)


@pytest.mark.usefixtures("ascending_dot")
def test_segments_that_depend_on_the_number_of_rows_fail() -> None:
    x, weight = drawn(ORDERS["ascending"])

    def broken(some: torch.Tensor) -> torch.Tensor:
        segment = 32 if some.shape[0] <= 16 else 64
        return linear(some, LinearWeight(weight.values, SumOrder(200, segment), weight.bias))

    assert not equal_bytes(broken(x[:1]), broken(x)[:1])


@pytest.mark.usefixtures("ascending_dot")
def test_one_accumulator_through_all_segments_fails() -> None:
    x, weight = drawn(ORDERS["ascending"], rows=3)
    through = LinearWeight(weight.values, SumOrder(200, 200), weight.bias)
    assert not equal_bytes(linear(x, weight), linear(x, through, tiles=FORMS[2]))


@pytest.mark.parametrize("tiles", [FORMS[0], FORMS[3]], ids=str)
def test_reads_no_old_memory_and_writes_nothing_beside_its_own(tiles: LinearTiles) -> None:
    x, weight = drawn(ORDERS["ascending"], rows=17)
    expected = linear(x, weight, tiles=tiles)
    needed = spectrie_kernels.linear_workspace(17, weight, tiles)
    memory = torch.full((needed + 100,), float("nan"))
    around = torch.full((19, FEATURES), float("nan"))
    given = linear(x, weight, around[1:18], workspace=memory, tiles=tiles)
    assert equal_bytes(given, expected)
    assert around[[0, 18]].isnan().all()
    assert memory[needed:].isnan().all()
    assert needed == 0 or not memory[:needed].isnan().any()


def test_no_rows_give_no_rows() -> None:
    _, weight = drawn(ORDERS["pairwise"])
    assert linear(torch.empty(0, 512), weight).shape == (0, FEATURES)
    assert add_rank_sums(torch.empty(2, 0, 5), None, torch.empty(0, 5)).shape == (0, 5)


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operators of torch, allocations among them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


class Launches:
    """Stands in for a kernel and keeps the grids it is launched with."""

    def __init__(self) -> None:
        self.grids: list[tuple[int, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        self.grids.append(grid)
        return lambda *arguments, **constants: None


@pytest.mark.parametrize(("rows", "launches"), [(1, 2), (64, 2), (65, 1), (4096, 1)])
def test_with_memory_given_it_launches_and_does_nothing_else(
    rows: int, launches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, adding = Launches(), Launches()
    monkeypatch.setattr(device_form, "_linear_kernel", kernel)
    monkeypatch.setattr(device_form, "_add_kernel", adding)
    order = SumOrder.of(128, 2048, row_parallel=True)
    weight = LinearWeight(torch.zeros(128, 2048).half(), order)
    x, out = torch.zeros(rows, 2048).half(), torch.empty(rows, 128).half()
    workspace = torch.empty(spectrie_kernels.linear_workspace(rows, weight))
    with Operators() as operators:
        linear(x, weight, out, workspace=workspace)
    assert operators.seen == 0
    assert len(kernel.grids) + len(adding.grids) == launches
    assert kernel.grids[0] == ((1, 2, 8) if rows <= 64 else (-(-rows // 64), 1, 1))
    with Operators() as operators:
        linear(x, weight)
    assert operators.seen > 0, "the counter counts nothing"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(2, 8)}, r"x has shape \[2, 8\], expected \[rows, 200\]"),
        ({"x": torch.zeros(2, 400)[:, ::2]}, "x has shape .* contiguous"),
        ({"x": torch.zeros(2, 200).double()}, "x is torch.float64"),
        ({"out": torch.zeros(2, 9)}, r"out has shape \[2, 9\]"),
        ({"out": torch.zeros(2, FEATURES).double()}, "out is torch.float64"),
        ({"workspace": torch.zeros(8)}, "workspace has 8 elements, expected 320"),
        ({"workspace": torch.zeros(8).half()}, "workspace is torch.float16"),
        ({"tiles": LinearTiles(True, 64, 16, 128)}, "depth is 128"),
    ],
)
def test_unfit_arguments_are_named(change: dict[str, Any], message: str) -> None:
    _, weight = drawn(ORDERS["ascending"])
    with pytest.raises(ValueError, match=message):
        linear(**({"x": torch.zeros(2, 200), "weight": weight} | change))


@pytest.mark.parametrize(
    ("values", "bias", "message"),
    [
        (torch.zeros(4, 9), None, r"expected \[out_features, 8\]"),
        (torch.zeros(4, 8).double(), None, "values are torch.float64"),
        (torch.zeros(8, 4).T, None, "not contiguous"),
        (torch.zeros(4, 8), torch.zeros(5), r"bias has shape \[5\]"),
    ],
)
def test_unfit_weights_are_named(
    values: torch.Tensor, bias: torch.Tensor | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LinearWeight(values, SumOrder(8, 8), bias)


@pytest.mark.parametrize(
    ("sums", "out", "message"),
    [
        (torch.zeros(2, 3, 4).half(), torch.zeros(3, 4), "sums are torch.float16"),
        (torch.zeros(2, 3, 4), torch.zeros(3, 5), r"out has shape \[3, 5\]"),
        (torch.zeros(3, 3, 4), torch.zeros(3, 4), "pairwise sums have 1, 2, 4 or 8 parts, not 3"),
    ],
)
def test_unfit_rank_sums_are_named(sums: torch.Tensor, out: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        add_rank_sums(sums, None, out)
