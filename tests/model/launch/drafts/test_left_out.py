"""Requests of which a drafter on a GPU keeps nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.model import Runner, load_runner
from spectrie.model.launch.drafts.levels.roots import StepWalks
from spectrie.model.plan import LEFT_OUT, StepPlan
from tests.model.drafters.session import Request, draft_path, feed, same
from tests.model.launch.drafts.followed import drafts_of
from tests.model.launch.drafts.scenes import TOKENS, written

pytestmark = pytest.mark.usefixtures("own_cache")

GUESSES = [5, 77, 130]
SCORED = [5, 9, 199]


@pytest.fixture(autouse=True)
def _on_gpu() -> Iterator[None]:
    with simulated_gpu(), small_start((1, 8, 64)):
        yield


@pytest.fixture
def runner(tiny: Path, tmp_path: Path) -> Runner:
    target, head = written("eagle3", tiny, tmp_path)
    return load_runner(
        target, dtype="float32", threads=1, drafter=head, num_pages=128, max_batch_rows=640
    )


def left_out(plan: StepPlan) -> StepPlan:
    return replace(plan, request_feature=np.full(1, LEFT_OUT, np.int32))


def test_none_of_their_rows_gets_an_entry_or_a_first_level(runner: Runner) -> None:
    kept, left = Request(runner, range(10)), Request(runner, range(10, 20), seat=1)
    plan = StepPlan.joined([kept.chunk(TOKENS[:7]), left_out(left.chunk(TOKENS[:9]))])
    keeper = drafts_of(runner)._keeper
    assert keeper is not None
    none = np.zeros((0, 2), np.int32)
    sections = keeper.sections(plan, none, StepWalks.none())
    words = np.zeros(sections.words, np.int32)
    sections.write(words)
    origins, slots = (words[begin : begin + 16] for begin in words[:4:2])
    # There is no feature before the first token.
    assert (origins[1:7] >= 0).all() and (slots[1:7] >= 0).all()
    assert (origins[7:] == -1).all() and (slots[7:] == -1).all()
    assert StepWalks(plan).words[:, 0].tolist() == [6]
    whole = StepPlan.joined([kept.chunk(TOKENS[:7]), left.chunk(TOKENS[:9])])
    assert StepWalks(whole).words[:, 0].tolist() == [6, 15]


def test_others_have_the_answers_that_they_have_alone(runner: Runner) -> None:
    ids = TOKENS[:40]
    alone = Request(runner, range(30, 40))
    feed(alone, ids, 8)
    expected = draft_path(alone, GUESSES, SCORED)
    kept, left = Request(runner, range(10)), Request(runner, range(10, 20), seat=1)
    for first in range(0, len(ids), 8):
        chunk = ids[first : first + 8]
        runner.step(StepPlan.joined([kept.chunk(chunk), left_out(left.chunk(chunk))]))
        kept.commit(0, len(chunk))
        left.commit(len(chunk), len(chunk))
    given = draft_path(kept, GUESSES, SCORED)
    for one, other in zip(given, expected, strict=True):
        assert np.array_equal(one.ids, other.ids)
        assert np.allclose(one.probabilities, other.probabilities, rtol=1e-4)
    assert not same(given, draft_path(left, GUESSES, SCORED))
