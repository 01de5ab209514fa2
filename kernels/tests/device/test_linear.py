"""Products on a device: what the interpreter cannot show, as its product is not the device's."""

from __future__ import annotations

import pytest
import torch

from kernels.tests.ascending import sensitive, signs
from spectrie_kernels import LinearTiles, LinearWeight, SumOrder, add_rank_sums, linear

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ROWS = [1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 127, 128, 129, 255, 256, 512]
SHAPES = {
    "135M qkv": (960, 576, False),
    "135M output": (576, 576, True),
    "0.5B down": (896, 4864, True),
    "8B qkv": (6144, 4096, False),
    "8B down": (4096, 14336, True),
}
DTYPES = [torch.bfloat16, torch.float16, torch.float32]


def drawn(name: str, dtype: torch.dtype) -> tuple[torch.Tensor, LinearWeight]:
    """512 rows and a weight; half of the features on order-sensitive numbers."""
    out_features, in_features, row_parallel = SHAPES[name]
    order = SumOrder.of(out_features, in_features, row_parallel=row_parallel)
    generator = torch.Generator().manual_seed(out_features)
    values = torch.randn(out_features, in_features, generator=generator).to(dtype)
    if dtype != torch.float16:  # its largest number is 65504
        values[::2] = sensitive(-(-out_features // 2), in_features, 1, dtype)
    bias = torch.randn(out_features, generator=generator).to(dtype)
    x = signs(512, in_features, 3, dtype)
    x[::2] = torch.randn(256, in_features, generator=generator).to(dtype)
    return x.cuda(), LinearWeight(values.cuda(), order, bias.cuda())


def equal_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.view(torch.int32), other.view(torch.int32))


def summed(x: torch.Tensor, weight: LinearWeight, tiles: LinearTiles | None = None) -> torch.Tensor:
    out = torch.empty(x.shape[0], weight.out_features, device="cuda")
    return linear(x.contiguous(), weight, out, tiles=tiles)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHAPES)
def test_a_row_has_the_same_bytes_in_every_batch(name: str, dtype: torch.dtype) -> None:
    x, weight = drawn(name, dtype)
    whole = summed(x, weight)
    wrong = [
        rows
        for rows in ROWS
        if not equal_bytes(summed(x[:rows], weight), whole[:rows])
        or not equal_bytes(summed(x[512 - rows :], weight), whole[512 - rows :])
    ]
    assert wrong == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHAPES)
def test_a_row_is_near_a_sum_in_double(name: str, dtype: torch.dtype) -> None:
    x, weight = drawn(name, dtype)
    assert weight.bias is not None
    # Each second row and feature are plain random numbers.
    exact = x[::2].double() @ weight.values[1::2].double().T + weight.bias[1::2].double()
    gap = (summed(x, weight)[::2, 1::2].double() - exact).abs().max()
    assert float(gap) < 1e-5 * weight.in_features


@pytest.mark.parametrize("name", SHAPES)
def test_tiles_of_one_instruction_give_the_same_bytes(name: str) -> None:
    x, weight = drawn(name, torch.bfloat16)
    whole = summed(x[:64], weight)
    forms = [
        LinearTiles(split, features, rows, depth, warps)
        for split in (False, True)
        for features in (64, 128)
        for rows, warps in ((16, 4), (64, 4), (64, 8))
        for depth in (16, 32)
    ]
    assert [form for form in forms if not equal_bytes(summed(x[:64], weight, form), whole)] == []


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape[2]])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_that_share_the_terms_give_the_bytes_of_one(ranks: int, name: str) -> None:
    x, weight = drawn(name, torch.bfloat16)
    sums = [
        summed(own_x, LinearWeight(own.contiguous(), weight.order.shard(ranks)))
        for own_x, own in zip(x.chunk(ranks, dim=1), weight.values.chunk(ranks, dim=1), strict=True)
    ]
    out = torch.empty(512, weight.out_features, device="cuda")
    assert equal_bytes(add_rank_sums(torch.stack(sums), weight.bias, out), summed(x, weight))


def test_a_captured_graph_gives_the_bytes_of_a_launch() -> None:
    x, weight = drawn("8B down", torch.bfloat16)
    x = x[:64].contiguous()
    expected = linear(x, weight)
    out = torch.zeros_like(expected)
    workspace = torch.empty(weight.order.segments * 64 * weight.out_features, device="cuda")
    linear(x, weight, out, workspace=workspace)
    out.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        linear(x, weight, out, workspace=workspace)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out.view(torch.int16), expected.view(torch.int16))
