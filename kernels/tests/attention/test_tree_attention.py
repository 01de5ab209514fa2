"""The Triton tree attention against its plain-torch reference, on random forests."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import spectrie_kernels
from kernels.tests.forests import (
    TREE,
    Request,
    ancestor_words,
    chunk,
    layout_of,
    rows_of,
    tensors_of,
    tree,
)
from spectrie_kernels import AttentionRows, reference
from spectrie_kernels.device import tree_attention as device_form
from spectrie_kernels.reference.tree_attention import visible

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def difference(
    requests: list[Request],
    *,
    heads: int = 2,
    kv_heads: int = 1,
    head_dim: int = 16,
    page_size: int = 16,
    window: int | None = None,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    broken: Callable[[AttentionRows], AttentionRows] = lambda rows: rows,
) -> float:
    """Largest difference from the reference in double precision; NaN counts as infinite."""
    rows = rows_of(requests, page_size, random.Random(seed))
    query, keys, values = tensors_of(rows, heads, kv_heads, head_dim, dtype, seed)
    scale = head_dim**-0.5
    exact = query.double(), keys.double(), values.double()
    expected = reference.tree_attention(*exact, rows, scale, window)
    layout = layout_of(broken(rows), heads, kv_heads, window)
    actual = spectrie_kernels.tree_attention(query, keys, values, layout, scale, window=window)
    assert actual.shape == expected.shape and actual.dtype == dtype
    gap = (actual.double() - expected).abs().nan_to_num(nan=float("inf"))
    return float(gap.max())


def mixed(seed: int) -> list[Request]:
    """Decode, chain, tree, first chunk and later chunk, and a prompt in one step."""
    source = random.Random(seed)
    return [
        tree(source.randrange(1, 70), 1, source),
        tree(source.randrange(0, 150), source.randrange(2, 12), source),
        chunk(0, source.randrange(1, 10)),
        chunk(source.randrange(1, 60), source.randrange(1, 10)),
        Request(source.randrange(0, 40), TREE, [-1, 0, 1, 2, 3]),
        chunk(source.randrange(0, 160), source.randrange(65, 90)),
    ]


@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("seed", range(2))
def test_equals_the_reference_on_random_forests(seed: int, page_size: int) -> None:
    assert difference(mixed(seed), page_size=page_size, seed=seed) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("window", [1, 16, 100])
def test_windows_equal_the_reference(window: int) -> None:
    assert difference(mixed(window), window=window) < TOLERANCE[torch.float32]


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim"),
    [(2, 2, 16), (9, 3, 64), (8, 2, 32), (7, 1, 24), (8, 1, 128), (40, 2, 80), (16, 1, 256)],
)
def test_equals_the_reference_for_head_shapes(heads: int, kv_heads: int, head_dim: int) -> None:
    gap = difference(mixed(7), heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    assert gap < TOLERANCE[torch.float32]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_equals_the_reference_in_half_precision(dtype: torch.dtype) -> None:
    assert difference(mixed(3), dtype=dtype) < TOLERANCE[dtype]


def test_tree_of_64_rows_beside_a_chain_of_64() -> None:
    source = random.Random(4)
    chain = Request(20, TREE, [row - 1 for row in range(64)])
    gap = difference([tree(33, 64, source), chain])
    assert gap < TOLERANCE[torch.float32]


@pytest.mark.parametrize("kv_len", [63, 64, 127, 128, 255, 256, 257, 600])
def test_boundaries_lose_no_key(kv_len: int) -> None:
    source = random.Random(kv_len)
    requests = [tree(kv_len, 6, source), tree(2, 3, source), chunk(kv_len - 40, 66)]
    assert difference(requests) < TOLERANCE[torch.float32]


def test_request_of_one_row_and_no_cache_copies_its_value() -> None:
    rows = rows_of([chunk(0, 1)], 16, random.Random(0))
    query, keys, values = tensors_of(rows, 2, 2, 16, torch.float32, 0)
    slot = int(rows.page_ids[0]) * 16
    output = spectrie_kernels.tree_attention(query, keys, values, layout_of(rows, 2, 2), 1.0)
    torch.testing.assert_close(output[0], values[slot], rtol=1e-6, atol=0)


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_scores_of_any_size_stay_finite(size: float) -> None:
    rows = rows_of(mixed(5), 16, random.Random(5))
    query, keys, values = tensors_of(rows, 2, 2, 16, torch.float32, 5)
    layout = layout_of(rows, 2, 2)
    output = spectrie_kernels.tree_attention(query * size, keys * size, values, layout, 1.0)
    assert output.isfinite().all()
    assert output.abs().max() <= values.nan_to_num().abs().max() * 1.0001


def test_reference_rule_is_the_ancestor_path() -> None:
    """The reference itself, against a walk to the root."""
    request = tree(3, 12, random.Random(2))
    rows = rows_of([request], 16, random.Random(2))
    seen, windowed = visible(rows, 0), visible(rows, 0, 3)
    for row in range(12):
        path, node = [], row
        while node >= 0:
            path.append(3 + node)
            node = request.parents[node]
        assert {int(i) for i in seen[row].nonzero()} == {0, 1, 2, *path}
        assert {int(i) for i in windowed[row].nonzero()} == set([*path, 2, 1, 0][:3])


def wrong_mask(rows: AttentionRows) -> AttentionRows:
    """A broken plan: a node's parent is lost, and another node is there in its place."""
    words = rows.row_ancestors.copy()
    words[2] = 0b110
    return replace(rows, row_ancestors=words)


def wrong_pages(rows: AttentionRows) -> AttentionRows:
    return replace(rows, page_ids=np.roll(rows.page_ids, 1))


@pytest.mark.parametrize("broken", [wrong_mask, wrong_pages])
def test_a_broken_kernel_fails_the_comparison(
    broken: Callable[[AttentionRows], AttentionRows],
) -> None:
    requests = [Request(20, TREE, [-1, 0, 0, 1, 2])]
    assert difference(requests) < TOLERANCE[torch.float32]
    assert difference(requests, broken=broken) > 100 * TOLERANCE[torch.float32]


def test_words_mark_only_own_ancestors() -> None:
    assert ancestor_words([-1, 0, 0, 1]) == [0b1, 0b11, 0b101, 0b1011]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 3}, "3 query heads are not 2 times 2 key-value heads"),
        ({"value_heads": 1}, "value_cache has shape"),
        ({"rows": -1}, "query has 2 rows, the layout 3"),
        ({"dtype": torch.float16}, "key_cache is torch.float16"),
        ({"window": 7}, "window is 7, the layout was made for None"),
        ({"scale": 0.0}, "scale is 0.0, must be positive"),
        ({"out": torch.zeros(3, 4, 8)}, r"out has shape \[3, 4, 8\]"),
        ({"out": torch.zeros(3, 4, 32)[:, :, ::2]}, "out is not contiguous"),
        ({"workspace": torch.zeros(5)}, "workspace has 5 elements, expected"),
    ],
)
def test_unfit_arguments_are_named(change: dict[str, Any], message: str) -> None:
    rows = rows_of([chunk(0, 3)], 16, random.Random(0))
    query, keys, values = tensors_of(rows, 4, 2, 16, torch.float32, 0)
    if "heads" in change:
        query = query[:, :3].contiguous()
    if "value_heads" in change:
        values = values[:, :1]
    if "rows" in change:
        query = query[:-1]
    if "dtype" in change:
        keys = keys.half()
    more = {name: change[name] for name in ("window", "out", "workspace") if name in change}
    layout, scale = layout_of(rows, 4, 2), change.get("scale", 1.0)
    with pytest.raises(ValueError, match=message):
        spectrie_kernels.tree_attention(query, keys, values, layout, scale, **more)


def test_a_launch_given_its_memory_needs_no_operator_and_allocates_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels = {name: Launches() for name in ("part_kernel", "combine_kernel", "prompt_kernel")}
    for name, launches in kernels.items():
        monkeypatch.setattr(device_form, name, launches)
    source = random.Random(0)
    rows = rows_of([tree(650, 17, source), chunk(130, 100)], 16, source)
    query, keys, values = tensors_of(rows, 4, 2, 16, torch.float16, 0)
    layout = layout_of(rows, 4, 2)
    work = layout.work[None]
    out, workspace = torch.empty_like(query), torch.empty(work.workspace(4, 16))
    with Operators() as operators:
        arguments = (query, keys, values, layout, 1.0)
        spectrie_kernels.tree_attention(*arguments, out=out, workspace=workspace)
    # Views of the workspace are no operators of the device.
    assert operators.seen <= {"slice"}
    # A program a split and key-value head, and a tail a row.
    splits = int(work.order.spans(np.array([650])).splits[0])
    assert kernels["part_kernel"].grids == [(2, splits + 17)]
    assert kernels["combine_kernel"].grids == [(17, 4)]
    assert kernels["prompt_kernel"].grids == [(2, work.prompt_items.shape[0])]


class Launches:
    """A kernel that only notes its grids."""

    def __init__(self) -> None:
        self.grids: list[tuple[int, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        self.grids.append(grid)
        return lambda *arguments, **constants: None


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operators that run meanwhile."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))
