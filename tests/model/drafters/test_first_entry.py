"""Requests that a drafter follows from further on than their first token."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spectrie.model import Runner, load_runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.plan import LEFT_OUT, StepPlan
from tests.model.drafters.heads import VOCABULARY, head_tensors, write_head
from tests.model.drafters.kinds import write_drafter, write_model
from tests.model.drafters.session import Request, draft_path, feed, same
from tests.model.stepping import tokens
from tests.tiny_model import VOCABULARY_SIZE

pytestmark = pytest.mark.usefixtures("own_cache")

TOKENS = tokens(90, VOCABULARY, seed=5)
GUESSES = [5, 77, 130]
SCORED = [5, 9, 199]
FIRST = 32

KINDS = ["eagle3", "eagle3_two_layers", "eagle2", "mtp", "peagle", "dflash", "dflash2"]
STANDING_ALONE = {"eagle3", "eagle2", "mtp"}
"""Of one layer: their entries depend on no other entries."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def runner(kind: str, tmp_path: Path) -> Runner:
    model = write_model(tmp_path / "model")
    folder = tmp_path / "drafter"
    if kind == "eagle3_two_layers":
        tensors = head_tensors(2)
        del tensors["t2d"]
        head = write_head(folder, tensors, vocab_size=VOCABULARY_SIZE, num_hidden_layers=2)
    else:
        head = write_drafter(kind, model, folder)
    return load_runner(model, dtype="float32", num_pages=64, drafter=head, threads=2)


def begin(runner: Runner, first: int = FIRST) -> Request:
    """A request in poisoned memory: what is read before it is written shows."""
    assert runner.native is not None
    runner.native.poison_drafter(float("nan"))
    request = Request(runner, range(10, 20))
    request.first = first
    return request


def answers(runner: Runner, first: int = FIRST) -> list[Answers]:
    """Of a request that was computed at once."""
    request = begin(runner, first)
    feed(request, TOKENS, 512)
    found = draft_path(request, GUESSES, SCORED)
    assert all(np.isfinite(one.probabilities).all() for one in found)
    return found


@pytest.mark.parametrize("size", [1, 7, 16, 48])
def test_chunks_do_not_matter(runner: Runner, size: int) -> None:
    expected = answers(runner)
    request = begin(runner)
    feed(request, TOKENS, size)
    assert same(draft_path(request, GUESSES, SCORED), expected)


def test_it_is_known_whose_entries_depend_on_others(runner: Runner, kind: str) -> None:
    drafter = runner.drafter
    assert drafter is not None
    expected = kind in STANDING_ALONE or kind.startswith("dflash")
    assert drafter.entries_stand_alone == expected


def test_what_lies_before_is_not_seen(runner: Runner, kind: str) -> None:
    expected = answers(runner)
    assert not same(answers(runner, 0), expected)
    # All entries are there, and those before are passed over as the levels say.
    request = begin(runner, 0)
    feed(request, TOKENS, 512)
    request.first = FIRST
    is_same = same(draft_path(request, GUESSES, SCORED), expected)
    assert is_same or kind not in STANDING_ALONE


@pytest.mark.parametrize("num_left_out", [1, 16, 20, 31])
def test_one_that_was_left_out_is_followed_from_the_next_page_on(
    runner: Runner, num_left_out: int
) -> None:
    expected = answers(runner)
    request = begin(runner)
    plan = request.chunk(TOKENS[:num_left_out])
    runner.step(replace(plan, request_feature=np.full(1, LEFT_OUT, np.int32)))
    request.commit(0, num_left_out)
    # The feature before its next row is gone.
    request.moves = []
    plan = request.chunk(TOKENS[num_left_out:FIRST])
    runner.step(replace(plan, request_feature=np.full(1, -1, np.int32)))
    request.commit(0, FIRST - num_left_out)
    feed(request, TOKENS[FIRST:], 9)
    assert same(draft_path(request, GUESSES, SCORED), expected)


def test_company_does_not_matter(runner: Runner) -> None:
    expected = answers(runner)
    late = begin(runner)
    whole = Request(runner, range(30, 40), seat=1)
    runner.step(StepPlan.joined([whole.chunk(TOKENS[:50]), late.chunk(TOKENS)]))
    whole.commit(0, 50)
    late.commit(50, len(TOKENS))
    both = LevelPlan.of(
        [whole.asked(), late.asked()],
        [(GUESSES[0], 50, 0, -1), (GUESSES[0], len(TOKENS), 1, -1)],
        scored=[SCORED, SCORED],
        moves=whole.moves + late.moves,
        firsts=[0, FIRST],
    )
    found = runner.draft(both)
    assert np.array_equal(found.ids[1], expected[0].ids[0])
    assert np.array_equal(found.probabilities[1], expected[0].probabilities[0])


def test_the_models_rows_are_the_same(runner: Runner) -> None:
    plan = begin(runner).chunk(TOKENS)
    late = runner.forward(plan).numpy()
    assert np.array_equal(late, runner.forward(begin(runner, 0).chunk(TOKENS)).numpy())


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (-1, r"request_first\[0\] is -1, expected 0\.\.=20"),
        (21, r"request_first\[0\] is 21, expected 0\.\.=20"),
    ],
)
def test_levels_from_where_no_token_is_are_refused(
    runner: Runner, first: int, message: str
) -> None:
    request = begin(runner, 0)
    feed(request, TOKENS[:20], 20)
    level = LevelPlan.of([request.asked()], [(1, 20, 0, -1)], moves=request.moves, firsts=[first])
    with pytest.raises(ValueError, match=message):
        runner.draft(level)
    short = replace(level, request_first=np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="request_first has 2 elements, expected 1"):
        runner.draft(short)
    right = replace(level, request_first=np.zeros(1, np.int32))
    assert (runner.draft(right).ids >= 0).all()


def test_forwards_that_contradict_themselves_are_refused(runner: Runner) -> None:
    plan = begin(runner, -1).chunk(TOKENS)
    with pytest.raises(ValueError, match=r"request_first\[0\] is -1, expected 0 or more"):
        runner.step(plan)
    short = replace(plan, request_first=np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="request_first has 2 elements, expected 1"):
        runner.step(short)
