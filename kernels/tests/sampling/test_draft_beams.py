"""The rows that follow a first level: the likeliest tokens of each root, and what they continue."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

import spectrie_kernels
from kernels.tests.sampling import small_kernels
from spectrie_kernels import RootAnswers, RootPlaces, RootRows, reference
from spectrie_kernels.device.sampling import draft_beams as device_form

PLACES = RootPlaces(
    first_feature=0,
    first_slot=500,
    first_state=64,
    dump=99,
    max_context=400,
    embedded=300,
)
STATES, POSITIONS, PAGES = [16, 17, 99, 19], [103, 42, 0, 7], [30, 37, 0, 50]
IDS = [[3, 1, 7, 0, 5], [8, -1, -1, -1, -1], [3, 1, 7, 0, 5], [2, 4, 6, 8, 9]]
WEIGHTS = [
    [0.5, 0.25, 0.125, 0.0625, 0.03],
    [1.0, 0.0, 0.0, 0.0, 0.0],
    [0.5, 0.25, 0.125, 0.06, 0.03],
    [-8.0, 2.5, -1.0, 2.5, float("-inf")],
]
NAMES = [10 * number for number in range(10)]
BEAMS = 3
ROOTS = [(3, 0), (1, 0), (7, 0), (8, 1), None, None, None, None, None, (4, 3), (8, 3), (6, 3)]
"""Of three beams each: number of the token, and of the root."""
Form = Callable[..., Any]
FORMS = [spectrie_kernels.draft_beams, reference.draft_beams]


def found(
    form: Form,
    *,
    ids: list[list[int]] = IDS,
    weights: list[list[float]] = WEIGHTS,
    states: list[int] = STATES,
    positions: list[int] = POSITIONS,
    names: list[int] | None = NAMES,
    beams: int = BEAMS,
    count: int | None = None,
    places: RootPlaces = PLACES,
) -> tuple[RootRows, int]:
    """Beams among rows that held something else, and how many of them count."""
    number = len(ids)
    roots = RootRows.empty(number, "cpu")
    roots.places.copy_(torch.tensor(states))
    roots.positions.copy_(torch.tensor(positions))
    roots.pages.copy_(torch.tensor((PAGES * number)[:number]))
    rows = RootRows.empty(number * beams, "cpu")
    for one in fields(rows):
        getattr(rows, one.name).fill_(-7)
    answers = RootAnswers(
        torch.tensor(ids, dtype=torch.int32),
        torch.tensor(weights, dtype=torch.float32),
        None if names is None else torch.tensor(names, dtype=torch.int32),
    )
    given = torch.tensor([number if count is None else count], dtype=torch.int32)
    counted = torch.tensor([-7], dtype=torch.int32)
    assert form(roots, answers, given, places, rows, counted) in (rows, None)
    return rows, int(counted)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("names", [NAMES, None])
def test_the_likeliest_tokens_of_a_root_become_its_neighbours(
    names: list[int] | None, form: Form
) -> None:
    rows, number = found(form, names=names)
    assert number == len(STATES) * BEAMS
    token = [None if one is None else one[0] * (1 if names is None else 10) for one in ROOTS]
    root = [None if one is None else one[1] for one in ROOTS]
    expected = [
        [-1, -1, -1, 0] if one is None or which is None else [one, POSITIONS[which] + 1, which, 0]
        for one, which in zip(token, root, strict=True)
    ]
    assert rows.found.tolist() == expected
    assert rows.tokens.tolist() == [row[0] for row in expected]
    assert rows.positions.tolist() == [max(0, row[1]) for row in expected]
    assert rows.slots.tolist() == [-1 if r is None else 500 + i for i, r in enumerate(root)]
    assert rows.origins.tolist() == [-1 if r is None else STATES[r] for r in root]
    assert rows.places.tolist() == [99 if r is None else 64 + i for i, r in enumerate(root)]
    assert rows.pages.tolist() == [0 if r is None else PAGES[r] for r in root]


@pytest.mark.parametrize("form", FORMS)
def test_rows_stand_for_nothing_behind_the_last_root_and_at_the_end(form: Form) -> None:
    rows, number = found(form, count=3, places=replace(PLACES, max_context=104))
    # The first is at the context's end, the third stands for none, the fourth does not count.
    assert number == 3 * BEAMS
    assert rows.found[:, 0].tolist() == [-1] * 3 + [80] + [-1] * 8
    assert rows.places.tolist() == [99] * 3 + [67] + [99] * 8
    assert set(rows.slots.tolist()) == {-1, 503}


@pytest.mark.parametrize("form", FORMS)
def test_tokens_without_a_vector_are_found_all_the_same(form: Form) -> None:
    rows, _ = found(form, places=replace(PLACES, embedded=30))
    assert rows.tokens.tolist()[:4] == [-1, 10, -1, -1]
    assert rows.found[:4, 0].tolist() == [30, 10, 70, 80]


@pytest.mark.parametrize("form", FORMS)
def test_weights_that_are_no_numbers_name_no_token(form: Form) -> None:
    nan, infinite = float("nan"), float("-inf")
    rows, _ = found(form, weights=[[nan, 0.25, infinite, 0.5, nan], *WEIGHTS[1:]])
    assert rows.found[:3, 0].tolist() == [0, 10, -1]


def test_random_answers_give_what_plain_torch_does() -> None:
    source = random.Random(7)
    for width in (8, 64, 5):
        for roots, beams in ((1, 4), (7, 4), (3, 2), (2, 1)):
            ids = [source.sample(range(100), width) for _ in range(roots)]
            weights = [[source.randrange(6) / 4 for _ in range(width)] for _ in range(roots)]
            states = [source.choice([5, 6, 99]) for _ in range(roots)]
            positions = [source.choice([1, 63, 398, 399]) for _ in range(roots)]
            names = source.sample(range(400), 100)
            count = source.randrange(1, roots + 1)
            both = [
                found(
                    form,
                    ids=ids,
                    weights=weights,
                    states=states,
                    positions=positions,
                    names=names,
                    beams=beams,
                    count=count,
                )
                for form in FORMS
            ]
            assert both[0][1] == both[1][1]
            for one in fields(RootRows):
                assert torch.equal(*(getattr(rows, one.name) for rows, _ in both)), one.name


def test_a_choice_of_the_highest_of_equal_tokens_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = small_kernels.greatest_of_highest_id
    monkeypatch.setattr(device_form, "_first_of_greatest", broken)
    rows, _ = found(spectrie_kernels.draft_beams)
    assert rows.found[9:, 0].tolist() == [80, 40, 60]


def test_unfit_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="weights is"):
        found(spectrie_kernels.draft_beams, weights=[row[:4] for row in WEIGHTS])
    rows = RootRows.empty(2, "cpu")
    ids = torch.zeros(2, 8, dtype=torch.int32)
    answers = RootAnswers(ids, ids.float(), None)
    one = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(ValueError, match="multiple of 2"):
        spectrie_kernels.draft_beams(rows, answers, one, PLACES, RootRows.empty(3, "cpu"), one)
    wide = replace(RootRows.empty(4, "cpu"), slots=torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match="slots is"):
        spectrie_kernels.draft_beams(rows, answers, one, PLACES, wide, one)
