"""Every kernel against its reference on a GPU, over the forms that serving launches.

Without a GPU they run in the interpreter, where they show nothing that the other tests do not. The first
parameters of each test are the smallest.
"""

from __future__ import annotations

import random

import pytest
import torch

import spectrie_kernels
from kernels.tests.forests import Request, chunk, layout_of, rows_of, tensors_of, tree
from spectrie_kernels import AttentionTiles, reference

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}

# Query heads, key-value heads, size of a head.
HEADS = [
    (4, 2, 16),
    (9, 3, 64),
    (14, 2, 64),
    (12, 2, 128),
    (28, 4, 128),
    (32, 8, 128),
    (16, 2, 256),
]
SOURCE = random.Random(1)
STEPS = {
    "one row": [tree(30, 1, SOURCE)],
    "a tree and a chunk": [tree(37, 20, SOURCE), chunk(10, 13)],
    "16 requests": [tree(17 * i, 1, SOURCE) for i in range(16)],
    "64 nodes": [tree(700, 64, SOURCE), tree(255, 3, SOURCE)],
    "long contexts": [tree(9_000, 17, SOURCE), tree(33_000, 1, SOURCE), chunk(3_000, 300)],
}


def skip_in_the_interpreter() -> None:
    if DEVICE.type == "cpu":
        pytest.skip("too slow in the interpreter")


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize("step", STEPS)
def test_tree_attention_equals_its_reference(
    step: str, window: int | None, dtype: torch.dtype, heads: tuple[int, int, int]
) -> None:
    requests: list[Request] = STEPS[step]
    if heads != HEADS[0] or sum(one.kv_len for one in requests) > 500:
        skip_in_the_interpreter()
    rows = rows_of(requests, 16, random.Random(2))
    query, keys, values = tensors_of(rows, *heads, dtype, 3)
    scale = heads[2] ** -0.5
    exact = query.float(), keys.float(), values.float()
    expected = reference.tree_attention(*exact, rows, scale, window)
    query, keys, values = (one.to(DEVICE) for one in (query, keys, values))
    layout = layout_of(
        rows, *heads[:2], window, DEVICE, AttentionTiles.of(heads[2], dtype.itemsize)
    )
    actual = spectrie_kernels.tree_attention(query, keys, values, layout, scale, window=window)
    assert actual.device == query.device
    torch.testing.assert_close(
        actual.float().cpu(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )


@pytest.mark.parametrize("rows", [1, 16, 64])
@pytest.mark.parametrize("vocabulary", [352, 49_152, 151_936])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_row_argmax_equals_its_reference(dtype: torch.dtype, vocabulary: int, rows: int) -> None:
    if rows * vocabulary > 100_000:
        skip_in_the_interpreter()
    # Few different values, so that many rows have several largest ones.
    logits = torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(rows))
    logits = logits.mul(4).round().to(dtype)
    expected = reference.row_argmax(logits, torch.empty(rows, dtype=torch.int32))
    assert torch.equal(spectrie_kernels.row_argmax(logits.to(DEVICE)).cpu(), expected)


@pytest.mark.parametrize("rows", [1, 16, 64])
def test_verify_greedy_equals_its_reference(rows: int) -> None:
    source = random.Random(rows)
    trees = [tree(0, rows, source).parents for _ in range(8)]
    parents = torch.tensor([parent for one in trees for parent in one], dtype=torch.int32)
    tokens, argmax = torch.randint(
        4, (2, 8 * rows), dtype=torch.int32, generator=torch.Generator().manual_seed(rows)
    )
    starts = torch.arange(8, dtype=torch.int32) * rows
    arguments = (argmax, tokens, parents, starts, torch.full_like(starts, rows))
    expected = reference.verify_greedy(*arguments)
    actual = spectrie_kernels.verify_greedy(*(one.to(DEVICE) for one in arguments))
    for one, other in zip(actual, expected, strict=True):
        assert torch.equal(one.cpu(), other)
