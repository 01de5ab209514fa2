"""Every drafter is walked the same way: counts checked by hand."""

from __future__ import annotations

import pytest

from bench.draft.rivals.base import Absent, Draft, Rival, Setup, Tokens, chain
from bench.draft.trace import Request
from bench.draft.walk import accepted_tokens, replay


class _Scripted(Rival):
    """Drafts what it was given, step by step, and notes what it received."""

    def __init__(self, drafts: list[Draft]) -> None:
        self.drafts = drafts
        self.contexts: list[list[int]] = []
        self.accepted: list[list[int]] = []
        self.finished = 0

    def insert(self, documents: list[list[int]]) -> None:
        raise Absent("knows nothing")

    def start(self, request: Request) -> None:
        pass

    def draft(self, context: Tokens) -> Draft:
        self.contexts.append(context.tolist())
        return self.drafts.pop(0)

    def accept(self, context: Tokens, count: int) -> None:
        self.accepted.append(context[-count:].tolist())

    def finish(self) -> None:
        self.finished += 1


def test_walk_counts_drafted_and_accepted_and_goes_one_token_on() -> None:
    # Step 1: 3 right, 4 wrong: emits 3 4. Step 2: nothing. Step 3: both right, nothing is left.
    rival = _Scripted([chain([3, 9]), ([], []), ([7, 6, 7], [-1, -1, 1])])
    outcome = replay(rival, [Request([1, 2], [3, 4, 5, 6, 7])], Setup(nodes=4))
    assert rival.contexts == [[1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5]]
    assert rival.accepted == [[3, 4], [5], [6, 7]]
    assert rival.finished == 1
    assert (outcome.steps, outcome.drafted, outcome.accepted, outcome.emitted) == (3, 5, 3, 5)
    report = outcome.report()
    assert report["accepted_per_step"] == 1.0
    assert report["accepted_per_drafted"] == pytest.approx(0.6)


def test_a_path_counts_only_as_far_as_it_equals_the_text() -> None:
    #      5 - 6 - 9
    # root
    #      7 - 8
    tokens, parents = [5, 7, 6, 8, 9], [-1, -1, 0, 1, 2]
    assert accepted_tokens(tokens, parents, [5, 6, 7]) == 2
    assert accepted_tokens(tokens, parents, [7, 8]) == 2
    assert accepted_tokens(tokens, parents, [6]) == 0
    assert accepted_tokens(tokens, parents, [5]) == 1
    assert accepted_tokens(tokens, parents, []) == 0


def test_more_than_the_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="3 tokens drafted, at most 2"):
        replay(_Scripted([chain([1, 2, 3])]), [Request([1], [2])], Setup(nodes=2))
