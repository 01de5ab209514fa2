"""Rivals whose rule is ours to write draft what the rule says."""

from __future__ import annotations

import numpy as np
import pytest

from bench.draft.rivals.base import Absent, Rival, Setup
from bench.draft.rivals.lookup import Lookup
from bench.draft.rivals.majority import Majority
from bench.draft.rivals.recycling import Recycling
from bench.draft.trace import Request


def _draft(rival: Rival, prompt: list[int]) -> tuple[list[int], list[int]]:
    rival.start(Request(prompt, []))
    return rival.draft(np.asarray(prompt, np.int32))


def test_lookup_prefers_two_tokens_and_takes_the_first_place() -> None:
    text = [1, 2, 3, 4, 1, 2, 5, 6, 1, 2]
    assert _draft(Lookup(Setup(), length=2), text) == ([3, 4], [-1, 0])
    assert _draft(Lookup(Setup(), length=2, latest=True), text) == ([5, 6], [-1, 0])
    # The pair (9, 2) is new: one token decides.
    assert _draft(Lookup(Setup(), length=3), [1, 2, 3, 9, 2]) == ([3, 9, 2], [-1, 0, 1])
    assert _draft(Lookup(Setup()), [1, 2, 3]) == ([], [])


def test_lookup_finds_its_own_output() -> None:
    rival = Lookup(Setup(), length=1)
    rival.start(Request([1, 2], []))
    rival.accept(np.asarray([1, 2, 7, 1, 2], np.int32), 3)
    assert rival.draft(np.asarray([1, 2, 7, 1, 2], np.int32)) == ([7], [-1])


def test_majority_follows_the_longest_matches() -> None:
    # (8, 9) was followed by 1 twice and by 2 once, but (7, 8, 9) only by 2.
    text = [3, 8, 9, 1, 4, 8, 9, 1, 7, 8, 9, 2, 6, 7, 8, 9]
    assert _draft(Majority(Setup(nodes=2)), text) == ([2, 6], [-1, 0])
    assert _draft(Majority(Setup(nodes=1)), [3, 8, 9, 1, 4, 8, 9, 1, 5, 8, 9]) == ([1], [-1])


def test_majority_learns_from_finished_requests_only_when_online() -> None:
    for online, expected in ((True, [3]), (False, [])):
        rival = Majority(Setup(nodes=1, online=online))
        rival.start(Request([1, 2, 3], []))
        rival.finish()
        assert _draft(rival, [1, 2])[0] == expected


def test_majority_keeps_a_corpus_and_forgets_requests() -> None:
    rival = Majority(Setup(nodes=2))
    rival.insert([[4, 5, 6, 7]])
    assert _draft(rival, [9, 1, 2])[0] == []
    assert _draft(rival, [1, 2])[0] == []
    assert _draft(rival, [4, 5])[0] == [6, 7]


def test_recycling_drafts_what_the_model_said_after_earlier_tokens_only() -> None:
    topk = [([2, 5], [0.6, 0.3]), ([1, 7], [0.6, 0.3]), ([4, 4], [0.6, 0.3])]
    rival = Recycling(Setup(nodes=3))
    rival.start(Request([1, 2], [1], topk=topk))
    # After 2 nothing is known yet: what the model gives there is the next step's.
    assert rival.draft(np.asarray([1, 2], np.int32)) == ([], [])
    rival.accept(np.asarray([1, 2, 1], np.int32), 1)
    tokens, parents = rival.draft(np.asarray([1, 2, 1], np.int32))
    assert (tokens, parents) == ([2, 1, 2], [-1, 0, 1])


def test_rivals_without_shared_memory_refuse_a_corpus() -> None:
    for rival in (Lookup(Setup()), Recycling(Setup())):
        with pytest.raises(Absent):
            rival.insert([[1]])
    with pytest.raises(Absent, match="top-k"):
        Recycling(Setup()).start(Request([1], [2]))
