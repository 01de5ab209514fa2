"""Whether a drafter is expected to pay, from how often it was right and from what was measured."""

from __future__ import annotations

import dataclasses

import pytest

from spectrie.engine.forecast import forecast
from spectrie.model.drafters.origin import Origin
from spectrie.model.runner.drafting import DraftCosts, DrafterInfo

ROWS = [1, 8, 16]
FORWARD_MS = [10.0, 11.4, 15.0]


def drafter(
    *top_1: float, first_ms: float = 0.8, later_ms: float = 0.5, upkeep_ms: float = 0.1
) -> DrafterInfo:
    return DrafterInfo(
        name="head",
        kind="eagle3",
        hash="0" * 16,
        max_levels=8,
        max_rows=64,
        max_requests=32,
        num_bytes=1,
        costs=DraftCosts([1], [first_ms], [later_ms], upkeep_ms),
        origin=Origin("a", None, "MIT", top_1),
        is_for_model=True,
    )


def test_speed_is_that_of_the_best_number_of_levels() -> None:
    # Level 1: 1.5 tokens in 10.2 + 0.8 + 0.1 ms; level 2: 1.75 in 10.4 + 1.3 + 0.1 ms.
    found = forecast(drafter(0.5, 0.5), ROWS, FORWARD_MS)
    assert found is not None
    assert (found.levels, found.tokens) == (2, 1.75)
    assert found.alone == pytest.approx(1.75 / 11.8 * 10.0)
    assert found.upkeep == pytest.approx(0.1 / 10.1)
    found = forecast(drafter(0.5, 0.01), ROWS, FORWARD_MS)
    assert found is not None
    assert (found.levels, found.tokens) == (1, 1.5)
    assert found.alone == pytest.approx(1.5 / 11.1 * 10.0)


def test_beside_text_it_adds_what_text_leaves() -> None:
    # Text alone: 1.5 tokens in 10.2 ms. Both: 1.75 tokens in 10.4 + 0.8 + 0.1 ms.
    found = forecast(drafter(0.5), ROWS, FORWARD_MS)
    assert found is not None
    assert found.beside == pytest.approx((1.75 / 11.3) / (1.5 / 10.2))
    assert 1.0 < found.beside < found.alone


def test_one_that_does_not_pay_costs_its_upkeep_alone() -> None:
    found = forecast(drafter(0.1, first_ms=3.0), ROWS, FORWARD_MS)
    assert found is not None
    assert found.levels == 0
    assert found.alone == pytest.approx(10.0 / 10.1)
    assert found.beside == pytest.approx(10.2 / 10.3)
    assert "no gain even in text that nothing else predicts" in str(found)
    assert "-1.0 % where it never helps" in str(found)


def test_the_text_says_what_it_rests_on() -> None:
    said = str(forecast(drafter(0.34, 0.4), ROWS, FORWARD_MS))
    assert said.startswith("expected here for one request: 1.2")
    assert "from being right 34 / 40 % of held-out text by level" in said


def test_nothing_is_expected_of_one_that_does_not_say_how_often_it_was_right() -> None:
    assert forecast(drafter(), ROWS, FORWARD_MS) is None
    unknown = dataclasses.replace(drafter(0.5), origin=None)
    assert forecast(unknown, ROWS, FORWARD_MS) is None
    foreign = dataclasses.replace(drafter(0.5), is_for_model=False)
    assert forecast(foreign, ROWS, FORWARD_MS) is None
