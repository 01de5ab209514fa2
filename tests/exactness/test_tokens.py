"""On the real model no answer depends on speculation, batch, chunks, pages, threads, ranks or overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.cores import require_cores
from tests.exactness.cases import FORMS, NEW_TOKENS, NUM_PROMPTS, Case
from tests.exactness.comparison import differences
from tests.exactness.matrix import COVERING, FULL, Combination, Outcome, run
from tests.exactness.runners import Runners

pytestmark = [pytest.mark.model, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module", autouse=True)
def no_ranks_left(runners: Runners) -> Iterator[None]:
    """Another module's models may need several ranks too, and a process has them for one at a time."""
    yield
    runners.close()


def check(
    runners: Runners, combination: Combination, chosen: Sequence[Case], expected: Outcome
) -> None:
    """Runs a combination and compares every answer."""
    require_cores(combination.tensor_parallel)
    got = run(runners, combination, chosen)
    assert differences(got, expected) == []
    # Without these the comparison would have compared nothing.
    assert bool(got.accepted_by_source) == (combination.speculation != "off")
    assert ("grammar" in got.accepted_by_source) == (combination.speculation == "auto")
    assert (got.preemptions > 0) >= combination.must_preempt(len(chosen))
    if not combination.may_preempt:
        assert got.preemptions == 0
        choices = sum(map(len, got.answers.values()))
        most = min(combination.concurrency, choices)
        # With small chunks the first ones end while the prompts of the last ones are read.
        assert most / 3 <= got.most_requests <= most
    assert got.cached_tokens > 0


def test_reference_has_every_form_and_every_way_to_end(
    dtype: str, reference: Callable[[str], Outcome]
) -> None:
    answers = reference(dtype).answers
    choices = [choice for one in answers.values() for choice in one]
    assert {name.split()[-1] for name in answers} == set(FORMS)
    assert len(choices) > len(answers) >= 2 * NUM_PROMPTS >= 48
    assert {choice.finish_reason for choice in choices} == {"stop", "length"}
    assert all(0 < len(choice.token_ids) <= NEW_TOKENS for choice in choices)
    greedy = {name.split()[0]: one[0] for name, one in answers.items() if name.endswith("greedy")}
    seeded = {name.split()[0]: one[0] for name, one in answers.items() if name.endswith("seeded")}
    assert sum(greedy[name].token_ids != seeded[name].token_ids for name in greedy) > 12
    told = [choice for choice in choices if choice.logprobs is not None]
    assert all(len(choice.logprobs or ()) == len(choice.token_ids) for choice in told)
    assert len(told) >= 8


@pytest.mark.parametrize(("combination", "chosen"), COVERING, ids=[str(c) for c, _ in COVERING])
def test_answers_equal_the_reference(
    combination: Combination,
    chosen: tuple[Case, ...],
    runners: Runners,
    reference: Callable[[str], Outcome],
) -> None:
    check(runners, combination, chosen, reference(combination.dtype))


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("combination", "chosen"), FULL, ids=[str(c) for c, _ in FULL])
def test_answers_equal_the_reference_in_the_full_product(
    combination: Combination,
    chosen: tuple[Case, ...],
    runners: Runners,
    reference: Callable[[str], Outcome],
) -> None:
    check(runners, combination, chosen, reference(combination.dtype))
