"""A row of attention has the same bytes in every step, whatever stands beside it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from kernels.tests.attention.steps import (
    Attention,
    Content,
    Shape,
    alone,
    attended,
    chunk_of,
    drawn,
    equal_bytes,
    line_of,
)
from kernels.tests.attention.written_out import last_row
from spectrie_kernels import AttentionLayout, KeyOrder, tree_attention
from spectrie_kernels.device import attention_parts, attention_prompt, attention_unit
from spectrie_kernels.device import tree_attention as device_form

pytestmark = [
    pytest.mark.skipif(
        torch.cuda.is_available(), reason="the interpreter's product is replaced; see device"
    ),
    pytest.mark.usefixtures("ascending_dot"),
]

SHAPE = Shape()
TWO_SPLITS = KeyOrder(2)
# Around the ends of units, and with two splits around the changes of their size.
LENGTHS = [1, 2, 63, 64, 65, 66, 127, 128, 129, 130, 191, 192, 193, 255, 256, 257, 319, 321, 450]


def branching(rows: int, seed: int) -> list[int]:
    """Parents of a tree with one long path, so that its depth crosses units, and branches off it."""
    source = random.Random(seed)
    spine = max(1, rows * 2 // 3)
    parents = list(range(-1, spine - 1))
    return parents + [source.randrange(row) for row in range(spine, rows)]


def as_half(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    layout: AttentionLayout,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    """The form that half precision takes, on numbers of float32: on them the order shows."""
    out = torch.empty_like(query)
    device_form.launch(query, keys, values, layout, scale, window, out, None, half=True)
    return out


FORMS: dict[str, tuple[Attention, int]] = {"float32": (tree_attention, 16), "half": (as_half, 64)}


def by_the_rule(
    content: Content, shape: Shape, order: KeyOrder, step: int, nodes: list[int]
) -> torch.Tensor:
    return torch.stack([last_row(line_of(content, node), shape, order, step) for node in nodes])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.usefixtures("two_splits")
def test_a_row_alone_adds_by_the_rule(length: int, form: str) -> None:
    attention, step = FORMS[form]
    content = drawn(length - 1, [-1], SHAPE, length)
    actual = attended([content], SHAPE, attention=attention)[0]
    expected = by_the_rule(content, SHAPE, TWO_SPLITS, step, [0])
    assert equal_bytes(actual, expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [16, 64])
@pytest.mark.parametrize("kv_len", [0, 40, 63, 64, 100, 127, 250, 430])
@pytest.mark.usefixtures("two_splits")
def test_a_row_of_a_tree_adds_by_the_rule(kv_len: int, rows: int, form: str) -> None:
    attention, step = FORMS[form]
    content = drawn(kv_len, branching(rows, kv_len), SHAPE, rows + kv_len)
    actual = attended([content], SHAPE, attention=attention)[0]
    nodes = list(range(rows)) if rows <= 16 else [0, 1, 20, 40, 41, 42, *range(50, 64)]
    expected = by_the_rule(content, SHAPE, TWO_SPLITS, step, nodes)
    assert equal_bytes(actual[nodes], expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cut", [1, 64, 65, 100, 129, 192, 260])
@pytest.mark.usefixtures("two_splits")
def test_a_row_of_a_prompt_adds_by_the_rule_wherever_it_is_cut(cut: int, form: str) -> None:
    attention, step = FORMS[form]
    text = drawn(0, list(range(-1, 299)), SHAPE, 5)
    chunks = [chunk_of(text, 0, cut), chunk_of(text, cut, 300)]
    pieces = [attended([one], SHAPE, attention=attention)[0] for one in chunks]
    rows = sorted({0, 1, 62, *range(63, 300, 32), cut - 1, cut, 128, 192, 256, 298, 299})
    expected = by_the_rule(text, SHAPE, TWO_SPLITS, step, rows)
    assert equal_bytes(torch.cat(pieces)[rows], expected)


def in_company(shape: Shape, form: str, kv_len: int) -> list[bool]:
    """Whether rows of a step of a tree, a decoded row, two chunks have the bytes that they have alone."""
    attention = FORMS[form][0]
    text = drawn(0, list(range(-1, kv_len + 79)), shape, 2)
    tree = drawn(kv_len, branching(16, 1), shape, 1)
    lone = drawn(kv_len + 3, [-1], shape, 3)
    chunks = [chunk_of(text, kv_len, kv_len + 9), chunk_of(text, kv_len - 2, kv_len + 79)]
    step = [tree, lone, *chunks]
    together = attended(step, shape, attention=attention, seed=1)

    def same(row: torch.Tensor, content: Content, node: int) -> bool:
        single = attended([alone(content, node)], shape, attention=attention, page_size=4, seed=2)
        return equal_bytes(row, single[0][0])

    found = [same(together[0][node], tree, node) for node in (0, 5, 9, 10, 15)]
    found.append(same(together[1][0], lone, 0))
    found += [same(together[2][node], chunks[0], node) for node in (0, 8)]
    return found + [same(together[3][node], chunks[1], node) for node in (0, 40, 80)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("window", [1, 63, 64, 65, 130, 200])
@pytest.mark.usefixtures("two_splits")
def test_windows_keep_the_bytes_of_a_row(window: int, form: str) -> None:
    shape = replace(SHAPE, window=window)
    assert all(in_company(shape, form, 315))
    content = drawn(333, [-1], shape, window)
    actual = attended([content], shape, attention=FORMS[form][0])[0]
    expected = by_the_rule(content, shape, KeyOrder(2, window), FORMS[form][1], [0])
    assert equal_bytes(actual, expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim"),
    [(2, 2, 64), (3, 1, 80), (8, 2, 64), (7, 1, 96), (16, 1, 128), (2, 1, 256), (20, 1, 16)],
)
def test_head_shapes_keep_the_bytes_of_a_row(
    heads: int, kv_heads: int, head_dim: int, form: str
) -> None:
    assert all(in_company(Shape(heads, kv_heads, head_dim), form, 123))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_keeps_the_bytes_of_a_row(dtype: torch.dtype) -> None:
    assert all(in_company(replace(SHAPE, dtype=dtype), "float32", 250))


@pytest.mark.parametrize("kv_len", [64 * 33 - 2, 64 * 65 - 5])
def test_a_tree_across_a_change_of_the_split_keeps_its_bytes(kv_len: int) -> None:
    """Models with few key-value heads: the split grows where a prefix has 32 units more."""
    content = drawn(kv_len, branching(9, 3), SHAPE, 4)
    together = attended([content], SHAPE, attention=as_half)[0]
    for node in (0, 1, 4, 5, 8):
        single = attended([alone(content, node)], SHAPE, attention=as_half)[0]
        assert equal_bytes(together[node], single[0])


def test_a_rank_with_a_share_of_the_heads_gives_their_bytes() -> None:
    content = drawn(400, branching(5, 3), Shape(8, 4), 4)
    whole = attended([content], Shape(8, 4))[0]

    def of_a_rank(*tensors: torch.Tensor, window: int | None) -> torch.Tensor:
        query, keys, values, layout, scale = tensors
        share = query[:, 2:4].contiguous(), keys[:, 1:2].contiguous(), values[:, 1:2].contiguous()
        return tree_attention(*share, layout, scale, window=window)  # type: ignore[arg-type]

    assert equal_bytes(attended([content], Shape(8, 4), attention=of_a_rank)[0], whole[:, 2:4])


def test_what_is_too_small_for_exact_rescaling_is_zero_in_every_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Numbers that only faint keys have: their share of the sum is below the least float32."""
    text = drawn(0, list(range(-1, 449)), SHAPE, 6)
    values = torch.zeros_like(text.values)
    values[:250] = 2.0**-20 * torch.randn(values[:250].shape, generator=torch.manual_seed(0))
    # Along both heads' query the scores rise by 60 powers of two twice, and at the last key, so that
    # nothing but that key is in the sum of weights.
    query = text.query.clone()
    query[:] = direction = text.query[449, :1]
    steps = (torch.arange(450) // 128 * 60.0).clamp(max=120.0)[:, None, None]
    steps[-1] = 180.0
    keys = steps * direction / direction.square().sum() * SHAPE.head_dim**0.5 / 1.4427
    text = replace(text, query=query, keys=keys, values=values)

    def both() -> list[torch.Tensor]:
        ends = [chunk_of(text, 350, 450), chunk_of(text, 449, 450)]
        return [attended([one], SHAPE)[0][-1] for one in ends]

    zero = torch.zeros(2, SHAPE.head_dim)
    assert all(equal_bytes(one, zero) for one in both())
    monkeypatch.setattr(attention_unit, "_LEAST", 0.0)
    one, other = both()
    assert 0 < one.abs().max() < 2.0**-126
    assert not equal_bytes(one, other), "the numbers are not small enough"


def split_by_drafts(patch: pytest.MonkeyPatch) -> None:
    """The split follows from the cached keys and the drafts together."""
    right = KeyOrder.spans

    def spans(self: KeyOrder, positions: Any) -> Any:
        return replace(right(self, positions), split=right(self, positions + 40).split)

    patch.setattr(KeyOrder, "spans", spans)


def tail_in_another_order(patch: pytest.MonkeyPatch) -> None:
    """The keys of a path stand as the tree has them, not by position."""
    from spectrie_kernels import AttentionRows

    right = AttentionRows.paths

    def paths(self: AttentionRows) -> Any:
        begins, slots = right(self)
        slots = slots.copy()
        for begin, end in zip(begins, [*begins[1:], len(slots)], strict=True):
            slots[begin:end] = slots[begin:end][::-1]
        return begins, slots

    patch.setattr(AttentionRows, "paths", paths)


@triton.jit
def inexact(exponent):  # type: ignore[no-untyped-def]
    return tl.exp2(tl.maximum(exponent, -127.0))


@triton.jit
def as_it_is(x):  # type: ignore[no-untyped-def]
    return x + tl.zeros_like(x)


def maxima_not_rounded(patch: pytest.MonkeyPatch) -> None:
    """Sums are rescaled by numbers that are no powers of two."""
    for module in (attention_unit, attention_parts, attention_prompt):
        patch.setattr(module, "power_of_two", inexact)
    patch.setattr(attention_unit, "rounded_up", as_it_is)


def combined_downwards(patch: pytest.MonkeyPatch) -> None:
    """The last split is added first."""

    class Downwards:
        def __getitem__(self, grid: Any) -> Any:
            def launch(*arguments: Any, **constants: Any) -> None:
                *parts, _, combined, counts = arguments
                for _, first, splits, _ in combined.tolist():
                    slots = first + torch.arange(splits) * int(counts[1])
                    for sums, width in zip(parts, (SHAPE.head_dim, 1, 1), strict=True):
                        by_slot = sums.view(-1, SHAPE.heads * width)
                        by_slot[slots] = by_slot[slots.flip(0)]
                right[grid](*arguments, **constants)

            return launch

    right = attention_parts.combine_kernel
    patch.setattr(device_form, "combine_kernel", Downwards())


BROKEN = {
    "split by drafts": split_by_drafts,
    "tail in another order": tail_in_another_order,
    "maxima not rounded": maxima_not_rounded,
    "combined downwards": combined_downwards,
}


@pytest.mark.parametrize("name", [None, *BROKEN])
@pytest.mark.usefixtures("four_splits")
def test_a_broken_order_fails(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree against the rule, and the rows of a prompt against those of a shorter chunk."""
    tree = drawn(350, branching(16, 1), SHAPE, 1)
    text = drawn(0, list(range(-1, 379)), SHAPE, 2)
    if name is not None:
        BROKEN[name](monkeypatch)
    found = attended([tree], SHAPE)[0]
    of_prompt = attended([chunk_of(text, 300, 380)], SHAPE)[0]
    of_chunk = attended([chunk_of(text, 330, 380)], SHAPE)[0]
    monkeypatch.undo()
    expected = by_the_rule(tree, SHAPE, KeyOrder(4), 16, list(range(16)))
    same = equal_bytes(found, expected) and equal_bytes(of_prompt[30:], of_chunk)
    assert same == (name is None)
