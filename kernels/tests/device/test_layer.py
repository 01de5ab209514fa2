"""What stands around products and attention, on a device: the bytes of the plain forms on the CPU.

Without a device the same tests run in the interpreter.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch

import spectrie_kernels
from kernels.tests.layer import test_compact_slots as walks
from kernels.tests.layer.test_move_slots import CASES, cache, one_by_one
from kernels.tests.layer.test_rotate_write import Case, case, of_sums
from kernels.tests.layer.test_take_drawn import DRAWN, TAKEN, TOKENS
from kernels.tests.layer.test_unpack import ARRAYS, SECTIONS, packed
from spectrie_kernels import PartialSums, StepArrays, reference

ON_GPU = pytest.param(
    "cuda",
    marks=[
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ],
)
# Where there is a device, no kernel runs in the interpreter.
IN_INTERPRETER = pytest.param(
    "cpu", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="runs in the interpreter")
)
EVERYWHERE = pytest.mark.parametrize("device", [IN_INTERPRETER, ON_GPU])
HALF_AND_FULL = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.cpu().contiguous().view(torch.uint8), other.view(torch.uint8))


def moved(value: Any, device: str) -> Any:
    """A tensor, or what holds tensors, on a device."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, tuple):
        return tuple(moved(one, device) for one in value)
    if isinstance(value, PartialSums):
        values, bias = (moved(one, device) for one in (value.values, value.bias))
        return PartialSums(values, bias, value.pairwise)
    if isinstance(value, Case):
        named = {one.name: moved(getattr(value, one.name), device) for one in fields(value)}
        return replace(value, **named)
    return value


@EVERYWHERE
@HALF_AND_FULL
@pytest.mark.parametrize("parts", [None, 1, 3, 8])
def test_rotation_and_cache_write(device: str, dtype: torch.dtype, parts: int | None) -> None:
    given = case(4, 2, 64, 64, dtype=dtype)
    if parts is not None:
        given = of_sums(parts, given, pairwise=parts != 3)
    there = moved(given, device)
    keys, values, query = (one.to(device) for one in given.fresh())
    spectrie_kernels.rotate_write(
        *(there.qkv, there.positions, there.slots, keys, values, query),
        rotation=there.rotation,
        norms=there.norms,
        epsilon=1e-5,
    )
    for actual, expected in zip((keys, values, query), given.expected(), strict=True):
        # But for the sign of zero: a sum of nothing but -0 is 0 in a kernel alone.
        assert torch.equal(actual.cpu(), expected)


@EVERYWHERE
@HALF_AND_FULL
@pytest.mark.parametrize("parts", [None, 3])
def test_gate(device: str, dtype: torch.dtype, parts: int | None) -> None:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(parts or 1, 5, 2 * 1030, generator=generator) * 4
    product = values[0].to(dtype) if parts is None else PartialSums(values, None, False)
    actual = spectrie_kernels.gate(
        moved(product, device), torch.empty(5, 1030, dtype=dtype, device=device)
    )
    expected = reference.gate(product, torch.empty(5, 1030, dtype=dtype))
    tolerance = torch.finfo(dtype).eps
    torch.testing.assert_close(actual.cpu(), expected, rtol=4 * tolerance, atol=tolerance)


@EVERYWHERE
@HALF_AND_FULL
def test_rows_by_their_numbers(device: str, dtype: torch.dtype) -> None:
    table = torch.randn(7, 1030, generator=torch.Generator().manual_seed(2)).to(dtype)
    rows = torch.tensor([6, -1, 0, 6], dtype=torch.int32)
    there, numbers = table.to(device), rows.to(device)
    taken = spectrie_kernels.gather_rows(there, numbers, there.new_empty(4, 1030))
    embedded = spectrie_kernels.embed(numbers, there, torch.empty(4, 1030, device=device))
    expected = torch.where(rows[:, None] < 0, 0, table[rows])
    assert same_bytes(taken, expected.to(dtype))
    assert same_bytes(embedded, expected.float())


@EVERYWHERE
@pytest.mark.parametrize("name", CASES)
def test_moves(device: str, name: str) -> None:
    keys, values = (one.to(device) for one in cache())
    moves = torch.tensor(CASES[name], dtype=torch.int32, device=device).view(-1, 2)
    count = torch.tensor([len(CASES[name])], dtype=torch.int32, device=device)
    spectrie_kernels.move_slots(keys, values, moves, count)
    for actual, expected in zip((keys, values), one_by_one(CASES[name]), strict=True):
        assert same_bytes(actual, expected)


@EVERYWHERE
@pytest.mark.parametrize("seed", range(3))
def test_accepted_rows_stand_side_by_side(device: str, seed: int) -> None:
    forest = walks.Forest(seed)
    keys, values = (one.to(device) for one in walks.cache())
    drawn, rows, trees, count = forest.arguments()
    there = [one.to(device) for one in rows]
    spectrie_kernels.compact_slots(
        keys,
        values,
        drawn.to(device),
        (there[0], there[1], there[2]),
        trees.to(device),
        count.to(device),
    )
    for actual, expected in zip((keys, values), forest.expected(walks.cache()), strict=True):
        assert same_bytes(actual, expected)


@EVERYWHERE
def test_rows_are_lifted_in_place(device: str) -> None:
    x = torch.randn(9, 5000, generator=torch.Generator().manual_seed(2))
    rows = torch.tensor([1, 2, 3, 7, 8], dtype=torch.int32)
    lifted = x.clone().to(device)
    spectrie_kernels.lift_rows(lifted, rows.to(device))
    assert same_bytes(lifted[:5], x[rows])


@EVERYWHERE
@pytest.mark.parametrize("width", [8, 64])
@pytest.mark.parametrize("vocabulary", [5, 4097, 9000])
def test_likeliest_tokens(device: str, vocabulary: int, width: int) -> None:
    logits = torch.randn(3, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
    logits[0, 2], logits[1, 1:3], logits[2] = float("nan"), 9.0, float("-inf")
    room = torch.empty(3, width, dtype=torch.int32, device=device)
    ids, probabilities = spectrie_kernels.top_k(logits.to(device), room)
    expected = (torch.empty(3, width, dtype=torch.int32), torch.empty(3, width))
    reference.top_k(logits, *expected)
    assert ids.cpu().tolist() == expected[0].tolist()
    torch.testing.assert_close(probabilities.cpu(), expected[1], rtol=1e-5, atol=1e-7)


@EVERYWHERE
@HALF_AND_FULL
def test_logits_of_single_tokens_alone_and_beside_others(device: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(3, 2500, generator=generator).to(dtype)
    weight = torch.randn(5, 2500, generator=generator).to(dtype)
    rows, tokens = torch.tensor([[2, 0, -1, 1], [4, 0, 3, -1]], dtype=torch.int32)
    expected = reference.token_logits(x, rows, weight, tokens, torch.empty(4))
    x, rows, weight, tokens = (one.to(device) for one in (x, rows, weight, tokens))
    found = torch.empty(4, device=device)
    spectrie_kernels.token_logits(x, rows, weight, tokens, found)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-3)
    for index in range(4):
        one = slice(index, index + 1)
        alone = torch.empty(1, device=device)
        spectrie_kernels.token_logits(x, rows[one], weight, tokens[one], alone)
        assert same_bytes(alone, found[one].cpu())


@EVERYWHERE
def test_sections_are_copied_counted_and_filled(device: str) -> None:
    arrays = StepArrays.of([one for one, _, _ in ARRAYS], device)
    spectrie_kernels.unpack(packed(SECTIONS).to(device), arrays)
    for index, (_, words, count) in enumerate(ARRAYS):
        assert arrays[index].tolist() == words
        assert arrays.count(index).tolist() == [count]


@EVERYWHERE
def test_tokens_of_the_step_before_are_taken(device: str) -> None:
    words = packed([[-3, 8], TOKENS]).to(device)
    spectrie_kernels.take_drawn(words, 1, DRAWN.to(device))
    assert same_bytes(words, packed([[-3, 8], TAKEN]))
