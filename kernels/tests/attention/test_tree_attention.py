"""The Triton tree attention against its plain-torch reference, on random forests."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

import spectrie_kernels
from kernels.tests.forests import TREE, Request, ancestor_words, chunk, layout_of, tensors_of, tree
from spectrie_kernels import TreeLayout, reference
from spectrie_kernels.device import tree_attention as device_form
from spectrie_kernels.reference.tree_attention import visible

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, TreeLayout, float], torch.Tensor]


def difference(
    requests: list[Request],
    *,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 16,
    page_size: int = 16,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    attention: Attention = spectrie_kernels.tree_attention,
) -> float:
    """Largest absolute difference between `attention` and the reference; NaN counts as infinite."""
    layout = layout_of(requests, page_size, random.Random(seed))
    query, keys, values = tensors_of(layout, heads, kv_heads, head_dim, dtype, seed)
    scale = head_dim**-0.5
    expected = reference.tree_attention(query, keys, values, layout, scale)
    actual = attention(query, keys, values, layout, scale)
    assert actual.shape == expected.shape and actual.dtype == dtype
    gap = (actual.float() - expected.float()).abs().nan_to_num(nan=float("inf"))
    return float(gap.max())


def mixed(seed: int) -> list[Request]:
    """Decode, chain, tree, first chunk and later chunk in one step."""
    source = random.Random(seed)
    return [
        tree(source.randrange(1, 70), 1, source),
        tree(source.randrange(0, 90), source.randrange(2, 20), source),
        chunk(0, source.randrange(1, 30)),
        chunk(source.randrange(1, 60), source.randrange(1, 20)),
        Request(source.randrange(0, 40), TREE, [-1, 0, 1, 2, 3]),
    ]


@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_reference_on_random_forests(seed: int, page_size: int) -> None:
    assert difference(mixed(seed), page_size=page_size, seed=seed) < TOLERANCE[torch.float32]


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim"),
    [(2, 2, 16), (9, 3, 64), (8, 2, 32), (7, 1, 24), (8, 1, 128), (40, 2, 80)],
)
def test_equals_the_reference_for_head_shapes(heads: int, kv_heads: int, head_dim: int) -> None:
    gap = difference(mixed(7), heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    assert gap < TOLERANCE[torch.float32]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_equals_the_reference_in_half_precision(dtype: torch.dtype) -> None:
    assert difference(mixed(3), dtype=dtype) < TOLERANCE[dtype]


def test_largest_tree_uses_every_bit_of_its_word() -> None:
    source = random.Random(1)
    chain = Request(5, TREE, [row - 1 for row in range(64)])
    gap = difference([tree(33, 64, source), chain], heads=8, kv_heads=2)
    assert gap < TOLERANCE[torch.float32]


@pytest.mark.parametrize("kv_len", [255, 256, 257, 600])
def test_split_boundaries_lose_no_key(kv_len: int) -> None:
    source = random.Random(kv_len)
    requests = [tree(kv_len, 6, source), tree(2, 3, source)]
    assert difference(requests) < TOLERANCE[torch.float32]


def test_request_of_one_row_and_no_cache_copies_its_value() -> None:
    layout = layout_of([chunk(0, 1)], 16, random.Random(0))
    query, keys, values = tensors_of(layout, 2, 2, 16, torch.float32, 0)
    slot = int(layout.page_ids[0]) * 16
    output = spectrie_kernels.tree_attention(query, keys, values, layout, 1.0)
    torch.testing.assert_close(output[0], values[slot])


def test_chain_as_a_tree_gives_the_bits_of_a_chunk() -> None:
    parents = [row - 1 for row in range(20)]
    results = []
    for kind in (0, TREE):
        layout = layout_of([Request(37, kind, parents)], 16, random.Random(5))
        query, keys, values = tensors_of(layout, 4, 2, 16, torch.float32, 5)
        results.append(spectrie_kernels.tree_attention(query, keys, values, layout, 0.25))
    assert torch.equal(results[0], results[1])


def test_split_size_depends_on_the_own_length_alone() -> None:
    lengths = torch.tensor([1, 8192, 8193, 16385, 131072], dtype=torch.int32)
    together = device_form.split_tokens(lengths)
    alone = torch.cat([device_form.split_tokens(lengths[i : i + 1]) for i in range(5)])
    assert torch.equal(together, alone)
    assert together.tolist() == [256, 256, 512, 1024, 4096]
    assert int(((lengths + together - 1) // together).max()) <= device_form.MAX_SPLITS


def test_reference_rule_is_the_ancestor_path() -> None:
    """The reference itself, against a walk to the root."""
    request = tree(3, 12, random.Random(2))
    layout = layout_of([request], 16, random.Random(2))
    seen = visible(layout, 0)
    for row in range(12):
        path, node = set(), row
        while node >= 0:
            path.add(node)
            node = request.parents[node]
        assert {int(i) - 3 for i in seen[row].nonzero() if i >= 3} == path
        assert bool(seen[row, :3].all())


def wrong_mask(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    layout: TreeLayout,
    scale: float,
) -> torch.Tensor:
    """A broken kernel: every node sees every other node of its tree."""
    words = torch.full_like(layout.row_ancestors, -1)
    return device_form.tree_attention(query, keys, values, replaced(layout, words), scale)


def lost_first_key(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    layout: TreeLayout,
    scale: float,
) -> torch.Tensor:
    """A broken kernel: the row's own bit is forgotten for node 0."""
    words = layout.row_ancestors & ~1
    return device_form.tree_attention(query, keys, values, replaced(layout, words), scale)


def replaced(layout: TreeLayout, words: torch.Tensor) -> TreeLayout:
    fields = {name: getattr(layout, name) for name in TreeLayout.__slots__}
    return TreeLayout(**(fields | {"row_ancestors": words}))


@pytest.mark.parametrize("broken", [wrong_mask, lost_first_key])
def test_a_broken_kernel_fails_the_comparison(broken: Attention) -> None:
    assert difference(mixed(0), attention=broken) > 100 * TOLERANCE[torch.float32]


def test_words_mark_only_own_ancestors() -> None:
    assert ancestor_words([-1, 0, 0, 1]) == [0b1, 0b11, 0b101, 0b1011]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 3}, "3 query heads are not a multiple of 2"),
        ({"value_heads": 1}, "value_cache has shape"),
        ({"rows": -1}, "the layout"),
        ({"dtype": torch.float16}, "key_cache is torch.float16"),
    ],
)
def test_unfit_arguments_are_named(change: dict[str, object], message: str) -> None:
    layout = layout_of([chunk(0, 3)], 16, random.Random(0))
    query, keys, values = tensors_of(layout, 4, 2, 16, torch.float32, 0)
    if "heads" in change:
        query = query[:, :3]
    if "value_heads" in change:
        values = values[:, :1]
    if "rows" in change:
        query = query[:-1]
    if "dtype" in change:
        keys = keys.half()
    with pytest.raises(ValueError, match=message):
        spectrie_kernels.tree_attention(query, keys, values, layout, 1.0)
