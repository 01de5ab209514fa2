"""What others make of recorded answers, on answers small enough to draft by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bench.draft.heads.contenders import BlockTree, HeadChain, HeadTree, NgramElse
from bench.draft.recording.head_file import HeadAnswers
from bench.draft.rivals.base import NO_DRAFT, Absent, Rival, Setup
from bench.draft.rivals.lookup import Lookup
from bench.draft.trace import Request
from bench.draft.walk import replay

REQUEST = Request([1, 2], [10, 11, 12])
ANSWERS: HeadAnswers = [
    [
        [[10, 20], [0.6, 0.3], [], []],
        [[21, 11], [0.5, 0.4], [], []],
        [[22, 12], [0.9, 0.1], [], []],
    ],
    [[[11, 20], [0.6, 0.3], [], []], [[12, 21], [0.7, 0.2], [], []]],
    [[[30, 12], [0.6, 0.3], [], []]],
]


def draft(rival: Rival, emitted: int) -> list[tuple[int, int]]:
    rival.start(REQUEST)
    context = REQUEST.prompt_ids + REQUEST.output_ids[:emitted]
    tokens, parents = rival.draft(np.array(context, dtype=np.int32))
    return list(zip(tokens, parents, strict=True))


def test_a_tree_takes_the_largest_products_of_what_its_beams_say() -> None:
    # 10 .6, 20 .3; behind 10: 21 .3, 11 .24, behind 20: 21 .15, 11 .12; behind 21: 22 .27; behind 11: 22 .216.
    tree = draft(HeadTree(Setup(nodes=6), [ANSWERS]), 0)
    assert tree == [(10, -1), (20, -1), (21, 0), (11, 0), (22, 2), (22, 3)]
    # What comes behind a wrong token is not known, and competes all the same.
    assert draft(HeadTree(Setup(nodes=5), [ANSWERS]), 0) == tree[:5]
    assert draft(HeadTree(Setup(nodes=5), [ANSWERS], levels=1), 0) == [(10, -1), (20, -1)]
    # One beam of one child: 21 is not what comes, so nothing is known behind it.
    assert draft(HeadTree(Setup(), [ANSWERS], breadth=1), 0) == [(10, -1), (21, 0)]


def test_a_tree_of_a_block_says_the_same_at_a_depth_behind_every_token() -> None:
    # 10 .6, 20 .3; at depth 2 behind 10: 21 .3, 11 .24, behind 20: 21 .15, 11 .12; at depth 3 behind 10 21: 22 .27,
    # behind 10 11: 22 .216, behind 20 21: 22 .135. Of equals the one thought of first.
    tree = draft(BlockTree(Setup(nodes=8), [ANSWERS]), 0)
    assert tree == [
        (10, -1),
        (20, -1),
        (21, 0),
        (22, 2),
        (11, 0),
        (22, 4),
        (21, 1),
        (22, 6),
    ]
    assert draft(BlockTree(Setup(nodes=2), [ANSWERS]), 0) == tree[:2]
    assert draft(BlockTree(Setup(), [ANSWERS], levels=1), 0) == [(10, -1), (20, -1)]
    outcome = replay(BlockTree(Setup(), [ANSWERS]), [REQUEST], Setup())
    assert (outcome.steps, outcome.accepted) == (1, 3)


def test_a_chain_goes_on_behind_a_wrong_token_and_pays_for_it() -> None:
    assert [parent for _, parent in draft(HeadChain(Setup(), [ANSWERS], levels=3), 0)] == [-1, 0, 1]
    outcome = replay(HeadChain(Setup(), [ANSWERS], levels=3), [REQUEST], Setup())
    # 10 and not 11; then 12 is what the step emits.
    assert (outcome.steps, outcome.accepted, outcome.drafted) == (2, 1, 6)


def test_a_tree_accepts_what_a_chain_misses() -> None:
    outcome = replay(HeadTree(Setup(), [ANSWERS]), [REQUEST], Setup())
    assert (outcome.steps, outcome.accepted) == (1, 3)


def test_a_head_is_asked_where_n_grams_find_nothing() -> None:
    setup = Setup(nodes=4)
    # Where 1 2 came before, text is copied.
    request = Request([1, 2, 7, 8, 1, 2], [7, 9, 5])
    answers: HeadAnswers = [[], [], [[[5], [0.9], [], []]]]
    rival = NgramElse(
        Lookup(setup, longest=2, latest=True, length=None), HeadTree(setup, [answers])
    )
    rival.start(request)
    assert rival.draft(np.array(request.prompt_ids, dtype=np.int32))[0][0] == 7
    context = np.array([*request.prompt_ids, 7, 9], dtype=np.int32)
    rival.accept(context, 2)
    assert rival.draft(context) == ([5], [-1])
    with pytest.raises(Absent):
        rival.insert([[1, 2]])


def test_nothing_recorded_is_nothing_drafted() -> None:
    for make in (HeadTree, BlockTree, HeadChain):
        rival = make(Setup(), [[[], [], []]])
        assert draft(rival, 0) == []
    assert NO_DRAFT == ([], [])
