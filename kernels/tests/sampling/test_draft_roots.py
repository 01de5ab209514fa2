"""The rows that follow the walks of a step: token, position, and what each continues."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

import spectrie_kernels
from kernels.tests.layer.test_unpack import packed
from kernels.tests.sampling import small_kernels
from spectrie_kernels import RootPlaces, RootRows, RootSections, reference
from spectrie_kernels.device.sampling import draft_roots as device_form

SECTIONS = RootSections(tokens=1, parents=2, pages=3)
PLACES = RootPlaces(
    first_feature=1000,
    first_slot=500,
    first_state=64,
    dump=99,
    max_context=400,
    embedded=300,
)
# Two trees, the last row of a prompt's chunk, and a row without drafts.
TOKENS = [7, 20, 21, 22, 23, 5, 5, 30, 31, 30, 8]
PARENTS = [-1, 0, 0, 2, 2, -1, 0, -1, 0, 0, -1]
WALKS = [[0, 5, 2, 100, 0], [6, 1, 7, 41, 7], [7, 3, 8, 64, 9], [10, 1, 11, 3, 20]]
DRAWN = [77, 78, 21, 0, 23, 1, 40, 5, 31, 31, 31, 299]
ROOTS = [(40, 103, 4), (5, 42, 6), (31, 66, 8), (299, 4, 10)]
"""Token, position and row of the step."""
Form = Callable[..., Any]
FORMS = [spectrie_kernels.draft_roots, reference.draft_roots]


def found(
    form: Form,
    walks: list[list[int]],
    drawn: list[int],
    *,
    count: int | None = None,
    places: RootPlaces = PLACES,
    tokens: list[int] = TOKENS,
    parents: list[int] = PARENTS,
) -> RootRows:
    """Roots among rows that held something else."""
    room = len(walks)
    rows = RootRows.empty(room, "cpu")
    for one in fields(rows):
        getattr(rows, one.name).fill_(-7)
    words = packed([[3], tokens, parents, list(range(40))])
    number = torch.tensor([room if count is None else count], dtype=torch.int32)
    given = (torch.tensor(walks, dtype=torch.int32), number)
    form(words, SECTIONS, *given, torch.tensor(drawn, dtype=torch.int32), places, rows)
    return rows


@pytest.mark.parametrize("form", FORMS)
def test_a_row_follows_the_token_that_is_drawn_last(form: Form) -> None:
    rows = found(form, WALKS, DRAWN)
    assert rows.found.tolist() == [[*root, 0] for root in ROOTS]
    assert rows.tokens.tolist() == [token for token, _, _ in ROOTS]
    assert rows.positions.tolist() == [position for _, position, _ in ROOTS]
    assert rows.slots.tolist() == [500, 501, 502, 503]
    assert rows.origins.tolist() == [1000 + row for _, _, row in ROOTS]
    assert rows.places.tolist() == [64, 65, 66, 67]
    begin = int(packed([[3], TOKENS, PARENTS, list(range(40))])[2 * SECTIONS.pages])
    assert rows.pages.tolist() == [begin + walk[4] for walk in WALKS]


@pytest.mark.parametrize("form", FORMS)
def test_rows_stand_for_nothing_where_there_is_no_root(form: Form) -> None:
    drawn = [*DRAWN[:7], -1, *DRAWN[8:]]
    rows = found(form, WALKS, drawn, count=3, places=replace(PLACES, max_context=103))
    # The first is at the context's end, the second drew nothing, the fourth does not count.
    assert rows.found[:, 0].tolist() == [-1, -1, 31, -1]
    assert rows.tokens.tolist() == [-1, -1, 31, -1]
    assert rows.positions.tolist() == [0, 0, 66, 0]
    assert rows.slots.tolist() == [-1, -1, 502, -1]
    assert rows.origins.tolist() == [-1, -1, 1008, -1]
    assert rows.places.tolist() == [99, 99, 66, 99]
    assert rows.pages[[0, 1, 3]].tolist() == [0, 0, 0]


@pytest.mark.parametrize("form", FORMS)
def test_tokens_without_a_vector_are_found_all_the_same(form: Form) -> None:
    rows = found(form, WALKS, DRAWN, places=replace(PLACES, embedded=299))
    assert rows.tokens.tolist()[-1] == -1
    assert rows.found.tolist()[-1] == [299, 4, 10, 0]


def test_random_trees_give_what_plain_torch_does() -> None:
    source = random.Random(5)
    for _ in range(20):
        tokens: list[int] = []
        parents: list[int] = []
        walks: list[list[int]] = []
        drawn = [3]
        for index in range(source.randrange(1, 6)):
            rows = source.choice([1, 2, 5, 64])
            walks.append([len(tokens), rows, len(drawn), source.randrange(300), index])
            parents += [-1, *(source.randrange(max(0, row - 3), row) for row in range(1, rows))]
            tokens += [source.randrange(3) for _ in range(rows)]
            drawn += [source.randrange(-1, 3) for _ in range(rows)]
        both = [found(form, walks, drawn, tokens=tokens, parents=parents) for form in FORMS]
        for one in fields(RootRows):
            assert torch.equal(*(getattr(rows, one.name) for rows in both)), one.name


def test_a_walk_that_goes_on_to_any_child_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_form, "_last_row", small_kernels.any_child)
    rows = found(spectrie_kernels.draft_roots, WALKS, DRAWN)
    assert rows.found.tolist() != [[*root, 0] for root in ROOTS]


def test_unfit_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="walks is"):
        found(spectrie_kernels.draft_roots, [[1, 2, 3]], DRAWN)
    with pytest.raises(ValueError, match="slots is"):
        rows = RootRows.empty(1, "cpu")
        spectrie_kernels.draft_roots(
            packed([[1], TOKENS, PARENTS, [1]]),
            SECTIONS,
            torch.zeros(1, 5, dtype=torch.int32),
            torch.zeros(1, dtype=torch.int32),
            torch.zeros(9, dtype=torch.int32),
            PLACES,
            replace(rows, slots=rows.slots.long()),
        )
