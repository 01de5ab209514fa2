"""On the real model no answer depends on speculation, company, chunks or preemption."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.exactness.matrix import (
    COVERING,
    FULL,
    NUM_PROMPTS,
    Combination,
    Outcome,
    cases,
    run,
)

pytestmark = [pytest.mark.model, pytest.mark.timeout(1800)]


def differences(got: Outcome, expected: Outcome) -> list[str]:
    """The cases whose answers are not identical, with the first token that differs."""
    found = []
    for name, answer in expected.answers.items():
        other = got.answers[name]
        if other != answer:
            pairs = zip(other.token_ids, answer.token_ids, strict=False)
            first = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
            found.append(f"{name}: token {first}: {other} instead of {answer}")
    return found


def check(model: Path, dtype: str, combination: Combination, expected: Outcome) -> None:
    """Runs a combination and compares every answer."""
    got = run(model, dtype, combination, cases())
    assert differences(got, expected) == []
    # Without these the comparison would have compared nothing.
    assert (got.accepted_tokens > 0) == (combination.speculation != "off")
    assert (got.preemptions > 0) == combination.preempts


def test_reference_has_every_prompt_and_every_way_to_end(
    dtype: str, reference: Callable[[str], Outcome]
) -> None:
    answers = reference(dtype).answers
    assert len(answers) == 2 * NUM_PROMPTS >= 48
    assert {answer.finish_reason for answer in answers.values()} == {"stop", "length"}
    assert all(0 < len(answer.token_ids) <= 48 for answer in answers.values())
    greedy = {name.split()[0]: a for name, a in answers.items() if name.endswith("greedy")}
    seeded = {name.split()[0]: a for name, a in answers.items() if name.endswith("seeded")}
    assert sum(greedy[name].token_ids != seeded[name].token_ids for name in greedy) > 12


@pytest.mark.parametrize("combination", COVERING, ids=str)
def test_answers_equal_the_reference(
    combination: Combination, dtype: str, model: Path, reference: Callable[[str], Outcome]
) -> None:
    check(model, dtype, combination, reference(dtype))


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("combination", FULL, ids=str)
def test_answers_equal_the_reference_in_the_full_product(
    combination: Combination, dtype: str, model: Path, reference: Callable[[str], Outcome]
) -> None:
    check(model, dtype, combination, reference(dtype))
