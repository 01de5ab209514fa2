"""Attention on a device: a row's bytes in every step, which the interpreter cannot show."""

from __future__ import annotations

import random

import pytest
import torch

from kernels.tests.attention.steps import (
    Content,
    Shape,
    alone,
    attended,
    chunk_of,
    drawn,
    equal_bytes,
)
from spectrie_kernels import AttentionTiles, tree_attention

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
SHAPES = [
    (32, 8, 128),
    (9, 3, 64),
    (14, 2, 64),
    (28, 4, 128),
    (12, 2, 128),
    (16, 1, 128),
    (2, 2, 80),
    (16, 2, 256),
]
# Around ends of units and changes of the split: with 8 key-value heads at 1,152, with 2 at 2,176.
LENGTHS = [1, 40, 63, 64, 100, 127, 128, 190, 255, 1_023, 1_100, 1_140, 2_170, 5_000, 9_000]


def branching(rows: int, seed: int) -> list[int]:
    source = random.Random(seed)
    spine = max(1, rows * 2 // 3)
    return [*range(-1, spine - 1), *(source.randrange(row) for row in range(spine, rows))]


def on_device(step: list[Content], shape: Shape) -> list[torch.Tensor]:
    return attended(step, shape, device="cuda")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("window", [None, 100, 1_000])
@pytest.mark.parametrize("heads", SHAPES, ids=str)
def test_a_row_of_a_tree_has_the_bytes_that_it_has_alone(
    heads: tuple[int, int, int], window: int | None, dtype: torch.dtype
) -> None:
    shape = Shape(*heads, window, dtype)
    for kv_len in LENGTHS:
        rows = random.Random(kv_len).choice([2, 16, 17, 64])
        tree = drawn(kv_len, branching(rows, kv_len), shape, kv_len)
        together = on_device([tree, drawn(77, branching(9, 2), shape, 1)], shape)[0]
        nodes = sorted({0, 1, rows // 2, rows * 2 // 3 - 1, rows - 1})
        # One step of one row each, then all of them as requests of one step.
        lone = [on_device([alone(tree, node)], shape)[0][0] for node in nodes]
        company = on_device([alone(tree, node) for node in nodes], shape)
        for node, one, other in zip(nodes, lone, company, strict=True):
            assert equal_bytes(together[node], one), (kv_len, node)
            assert equal_bytes(other[0], one), (kv_len, node)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("window", [None, 100, 1_000])
@pytest.mark.parametrize("heads", SHAPES, ids=str)
def test_a_row_of_a_prompt_has_the_same_bytes_wherever_it_is_cut(
    heads: tuple[int, int, int], window: int | None, dtype: torch.dtype
) -> None:
    shape = Shape(*heads, window, dtype)
    length = 3_000
    text = drawn(0, list(range(-1, length - 1)), shape, 5)
    whole = on_device([chunk_of(text, 0, length)], shape)[0]
    for size in (1_000, 333, 64, 63):
        # The last 2,000 rows, and of short chunks the last ones.
        begin = max(1_000, length - 12 * size)
        pieces = [
            on_device([chunk_of(text, first, min(first + size, length))], shape)[0]
            for first in range(begin, length, size)
        ]
        assert equal_bytes(torch.cat(pieces), whole[begin:]), size
    for position in (0, 1, 63, 64, 127, 128, 129, 1_151, 1_152, 2_175, 2_176, 2_999):
        lone = on_device([chunk_of(text, position, position + 1)], shape)[0][0]
        assert equal_bytes(lone, whole[position]), position


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_captured_graph_gives_the_bytes_of_a_launch(dtype: torch.dtype) -> None:
    from kernels.tests.forests import chunk, layout_of, rows_of, tensors_of, tree

    source = random.Random(0)
    rows = rows_of([tree(1_500, 17, source), chunk(300, 100), tree(9, 1, source)], 16, source)
    query, keys, values = (one.cuda() for one in tensors_of(rows, 32, 8, 128, dtype, 0))
    layout = layout_of(rows, 32, 8, None, "cuda", AttentionTiles.of(128, dtype.itemsize))
    expected = tree_attention(query, keys, values, layout, 0.1)
    out = torch.zeros_like(expected)
    workspace = torch.empty(layout.work[None].workspace(32, 128), device="cuda")

    def launch() -> None:
        tree_attention(query, keys, values, layout, 0.1, out=out, workspace=workspace)

    launch()
    out.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    graph.replay()
    torch.cuda.synchronize()
    assert equal_bytes(out.cpu(), expected.cpu())
