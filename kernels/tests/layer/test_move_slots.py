"""Moves inside the cache: one after the other, whatever is made at once."""

from __future__ import annotations

import random

import pytest
import torch

import spectrie_kernels
from kernels.tests.layer import broken
from spectrie_kernels import reference
from spectrie_kernels.device import move_slots as device_form

SLOTS = 12

Moves = list[tuple[int, int]]


def cache(layers: int = 2, kv_heads: int = 3, head_dim: int = 5) -> tuple[torch.Tensor, ...]:
    shape = (layers, SLOTS, kv_heads, head_dim)
    keys = torch.arange(layers * SLOTS * kv_heads * head_dim, dtype=torch.float32).view(shape)
    return keys, -keys


def moved(moves: Moves, count: int | None = None) -> tuple[torch.Tensor, ...]:
    keys, values = cache()
    arguments = torch.tensor(moves, dtype=torch.int32).view(-1, 2)
    number = torch.tensor([len(moves) if count is None else count], dtype=torch.int32)
    spectrie_kernels.move_slots(keys, values, arguments, number)
    return keys, values


def one_by_one(moves: Moves) -> tuple[torch.Tensor, ...]:
    keys, values = cache()
    for source, destination in moves:
        keys[:, destination] = keys[:, source].clone()
        values[:, destination] = values[:, source].clone()
    return keys, values


def equal(one: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


CHAIN = [(0, 1), (1, 2), (2, 3)]
CASES = {
    "none": [],
    "one": [(3, 7)],
    "walk": [(3, 1), (5, 2), (6, 3), (9, 4)],
    "chain": CHAIN,
    "same destination": [(1, 5), (2, 5)],
    "to itself": [(4, 4), (5, 4)],
    "several rounds": [(i % SLOTS, (i * 5 + 1) % SLOTS) for i in range(21)],
}


@pytest.mark.parametrize("width", [5, 600])
@pytest.mark.parametrize("name", CASES)
def test_rows_of_a_matrix_move_as_slots_do(name: str, width: int) -> None:
    x = torch.arange(SLOTS * width, dtype=torch.float32).view(SLOTS, width)
    expected = x.clone()
    for source, destination in CASES[name]:
        expected[destination] = expected[source].clone()
    # One move behind those that count.
    moves = torch.tensor([*CASES[name], (0, 11)], dtype=torch.int32)
    spectrie_kernels.move_rows(x, moves, torch.tensor([len(CASES[name])], dtype=torch.int32))
    assert torch.equal(x, expected)


@pytest.mark.parametrize("name", CASES)
def test_moves_are_made_one_after_the_other(name: str) -> None:
    assert equal(moved(CASES[name]), one_by_one(CASES[name]))


def test_random_moves_are_made_one_after_the_other() -> None:
    source = random.Random(1)
    for length in range(30):
        moves = [(source.randrange(SLOTS), source.randrange(SLOTS)) for _ in range(length)]
        assert equal(moved(moves), one_by_one(moves))


def test_the_reference_makes_them_so_too() -> None:
    for moves in CASES.values():
        keys, values = cache()
        arguments = torch.tensor(moves, dtype=torch.int32).view(-1, 2)
        reference.move_slots(keys, values, arguments, torch.tensor([len(moves)]))
        assert equal((keys, values), one_by_one(moves))


def test_moves_behind_the_count_are_not_made() -> None:
    assert equal(moved([*CHAIN, (9, 9), (-1, -1)], 2), one_by_one(CHAIN[:2]))
    assert equal(moved(CHAIN, 0), cache())


def test_moves_that_need_one_another_made_at_once_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_form, "_clashes", broken.never)
    assert equal(moved(CASES["walk"]), one_by_one(CASES["walk"]))
    assert not equal(moved(CHAIN), one_by_one(CHAIN))


def test_unfit_arguments_are_named() -> None:
    keys, values = cache()
    count = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(ValueError, match=r"moves is torch\.int64"):
        spectrie_kernels.move_slots(keys, values, torch.zeros(2, 2, dtype=torch.int64), count)
    with pytest.raises(ValueError, match=r"values is .*\[1, "):
        spectrie_kernels.move_slots(keys, values[:1], count.view(-1, 1), count)
