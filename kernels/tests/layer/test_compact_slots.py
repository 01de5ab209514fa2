"""Walks along drawn tokens leave every accepted key where plain decoding would have put it."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import spectrie_kernels
from kernels.tests.layer import broken
from spectrie_kernels import reference
from spectrie_kernels.device import move_slots as device_form

SLOTS = 200

Caches = tuple[torch.Tensor, torch.Tensor]


def cache(kv_heads: int = 3, head_dim: int = 5) -> Caches:
    shape = (2, SLOTS, kv_heads, head_dim)
    keys = torch.arange(2 * SLOTS * kv_heads * head_dim, dtype=torch.float32).view(shape)
    return keys, -keys


class Forest:
    """Random trees of a step, and where the walk along each goes."""

    def __init__(self, seed: int, trees: int = 3) -> None:
        source = random.Random(seed)
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.slots: list[int] = []
        self.drawn: list[int] = [9, 9]
        self.walks: list[list[int]] = []
        self.paths: list[list[int]] = []
        free = source.sample(range(SLOTS), SLOTS)
        for _ in range(trees):
            self._add(source, free)
            # The row of a request without drafts.
            self.tokens.append(1)
            self.parents.append(-1)
            self.slots.append(free.pop())
            self.drawn.append(1)

    def _add(self, source: random.Random, free: list[int]) -> None:
        rows = source.choice([2, 3, 9, 30])
        first = len(self.tokens)
        self.walks.append([first, rows, len(self.drawn), 0])
        parents = [-1, *(source.randrange(max(0, row - 4), row) for row in range(1, rows))]
        # Siblings carry different tokens.
        tokens = [100 + 7 * row for row in range(rows)]
        children = [[c for c in range(rows) if parents[c] == row] for row in range(rows)]
        path, drawn = [0], [5] * rows
        for row in range(rows):
            if children[row] and source.random() < 0.8:
                drawn[row] = tokens[source.choice(children[row])]
        while drawn[path[-1]] in (here := [tokens[c] for c in children[path[-1]]]):
            path.append(children[path[-1]][here.index(drawn[path[-1]])])
        self.tokens += tokens
        self.parents += parents
        self.slots += [free.pop() for _ in range(rows)]
        self.drawn += drawn
        self.paths.append(path)

    def arguments(self, count: int | None = None) -> tuple[Any, ...]:
        def numbers(values: Any) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.int32)

        rows = numbers(self.tokens), numbers(self.parents), numbers(self.slots)
        number = numbers([len(self.walks) if count is None else count])
        return numbers(self.drawn), rows, numbers(self.walks), number

    def expected(self, caches: Caches, count: int | None = None) -> Caches:
        """The accepted rows, side by side."""
        found = tuple(one.clone() for one in caches)
        for (first, *_), path in list(zip(self.walks, self.paths, strict=True))[:count]:
            for depth, row in enumerate(path):
                for one, before in zip(found, caches, strict=True):
                    one[:, self.slots[first + depth]] = before[:, self.slots[first + row]]
        return found[0], found[1]


def equal(one: Caches, other: Caches) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("form", [spectrie_kernels, reference], ids=["kernel", "reference"])
def test_accepted_rows_stand_side_by_side(form: Any, seed: int) -> None:
    forest = Forest(seed)
    caches = cache()
    form.compact_slots(*caches, *forest.arguments())
    assert equal(caches, forest.expected(cache()))


def test_some_walks_move_rows() -> None:
    # Guards the test above.
    out_of_place = [
        row != depth
        for seed in range(12)
        for path in Forest(seed).paths
        for depth, row in enumerate(path)
    ]
    assert sum(out_of_place) > 10
    assert out_of_place.count(False) > 10


def test_trees_behind_the_count_are_left_alone() -> None:
    for count in range(3):
        forest = Forest(5)
        caches = cache(head_dim=300)
        spectrie_kernels.compact_slots(*caches, *forest.arguments(count))
        assert equal(caches, forest.expected(cache(head_dim=300), count))


def test_a_row_without_a_drawn_token_ends_the_walk() -> None:
    forest = Forest(2, trees=1)
    forest.drawn = [-1] * len(forest.drawn)
    caches = cache()
    spectrie_kernels.compact_slots(*caches, *forest.arguments())
    assert equal(caches, cache())


def test_a_walk_to_any_child_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_form, "_move_along", broken.to_any_child)
    wrong = 0
    for seed in range(6):
        forest = Forest(seed)
        caches = cache()
        spectrie_kernels.compact_slots(*caches, *forest.arguments())
        wrong += not equal(caches, forest.expected(cache()))
    assert wrong > 0


def test_unfit_arguments_are_named() -> None:
    drawn, rows, walks, count = Forest(1).arguments()
    keys, values = cache()
    with pytest.raises(ValueError, match=r"walks is torch\.int32 .*, expected .*4\]"):
        spectrie_kernels.compact_slots(keys, values, drawn, rows, walks[:, :3].contiguous(), count)
    with pytest.raises(ValueError, match="parents is"):
        others = rows[0], rows[1][:1], rows[2]
        spectrie_kernels.compact_slots(keys, values, drawn, others, walks, count)
