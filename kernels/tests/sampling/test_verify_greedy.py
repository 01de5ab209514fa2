"""Greedy verification: the Triton walk against the reference, and the reference against a rule."""

from __future__ import annotations

import random

import pytest
import torch

import spectrie_kernels
from kernels.tests.forests import tree
from spectrie_kernels import reference
from spectrie_kernels.device.sampling import verify_greedy as device_form

Arguments = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def forest(seed: int, vocabulary: int = 4) -> Arguments:
    """Random trees of 1 to 64 rows; few tokens, so that walks go deep and siblings repeat."""
    source = random.Random(seed)
    argmax: list[int] = []
    tokens: list[int] = []
    parents: list[int] = []
    starts: list[int] = []
    counts: list[int] = []
    for rows in [1, 64, *(source.randrange(1, 40) for _ in range(6))]:
        starts.append(len(tokens))
        counts.append(rows)
        parents += tree(0, rows, source).parents
        tokens += [source.randrange(vocabulary) for _ in range(rows)]
        argmax += [source.randrange(vocabulary) for _ in range(rows)]
    as_int = [torch.tensor(one, dtype=torch.int32) for one in (argmax, tokens, parents)]
    extents = [torch.tensor(one, dtype=torch.int32) for one in (starts, counts)]
    return as_int[0], as_int[1], as_int[2], extents[0], extents[1]


@pytest.mark.parametrize("seed", range(12))
def test_equals_the_reference_on_random_forests(seed: int) -> None:
    arguments = forest(seed)
    expected = reference.verify_greedy(*arguments)
    actual = spectrie_kernels.verify_greedy(*arguments)
    for one, other in zip(actual, expected, strict=True):
        assert torch.equal(one, other)
    assert int(expected[0].max()) > 1


def test_walk_follows_the_model_and_emits_its_own_token() -> None:
    #   node 0 (7) -> 1 (5) -> 2 (9);  0 -> 3 (6) -> 4 (8)
    argmax = torch.tensor([6, 9, 1, 8, 2], dtype=torch.int32)
    tokens = torch.tensor([7, 5, 9, 6, 8], dtype=torch.int32)
    parents = torch.tensor([-1, 0, 1, 0, 3], dtype=torch.int32)
    extent = torch.tensor([0], dtype=torch.int32), torch.tensor([5], dtype=torch.int32)
    for form in (reference.verify_greedy, device_form.verify_greedy):
        counts, path, emitted = form(argmax, tokens, parents, *extent)
        assert counts.tolist() == [3]
        assert path[0, :4].tolist() == [0, 3, 4, -1]
        assert emitted[0, :4].tolist() == [6, 8, 2, -1]


def test_row_without_drafts_emits_one_token() -> None:
    one = torch.tensor([0], dtype=torch.int32)
    counts, path, emitted = spectrie_kernels.verify_greedy(
        torch.tensor([42], dtype=torch.int32), one, one - 1, one, one + 1
    )
    assert (counts.tolist(), path[0, 0].item(), emitted[0, 0].item()) == ([1], 0, 42)


def test_a_broken_walk_fails_the_comparison() -> None:
    """A kernel that ignores the parents accepts tokens from foreign branches."""
    argmax, tokens, parents, starts, counts = forest(3)
    broken = device_form.verify_greedy(argmax, tokens, parents.clamp_max(0), starts, counts)
    assert not torch.equal(
        broken[0], reference.verify_greedy(argmax, tokens, parents, starts, counts)[0]
    )


def test_unequal_rows_are_named() -> None:
    argmax, tokens, parents, starts, counts = forest(0)
    with pytest.raises(ValueError, match="row_token has shape"):
        spectrie_kernels.verify_greedy(argmax, tokens[:-1], parents, starts, counts)
