"""The bench of the time between forwards runs with the loop and engine as they are; no time is asserted."""

from __future__ import annotations

import pytest

from bench.overlap import SKIPPED, measure

STEPS = SKIPPED + 5


@pytest.mark.parametrize("gives_tokens", [True, False])
def test_the_fake_models_answers_are_drafted_and_accepted(gives_tokens: bool) -> None:
    measured = measure(gives_tokens=gives_tokens, steps=STEPS)
    assert measured["steps"] >= STEPS
    assert measured["drafted_tokens"] >= measured["accepted_tokens"] > 0
    assert measured["commit_us_p50"] > 0


def test_without_speculation_nothing_is_drafted() -> None:
    measured = measure(speculation="off", overlap=False, steps=STEPS)
    assert measured["steps"] >= STEPS
    assert measured["drafted_tokens"] == 0
    assert measured["commit_us_p50"] > 0
