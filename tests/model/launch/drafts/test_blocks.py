"""Blocks on a GPU: what plain torch says, and what bounds them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.model import Runner, load_runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.drafters.head import MAX_LEVELS
from tests.model.drafters import test_dflash as dflash
from tests.model.drafters import test_dflash2 as dflash2
from tests.model.drafters import test_peagle as peagle
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.dflash import BLOCK, DFLASH, DFLASH2, block_tensors
from tests.model.drafters.heads import VOCABULARY, write_head
from tests.model.drafters.peagle import PEAGLE, peagle_tensors
from tests.model.drafters.session import Request, draft_path, feed, same
from tests.model.drafters.test_eagle3 import answered, distance
from tests.model.launch.drafts.scenes import GUESSES, SCORED, TOKENS, written
from tests.model.launch.drafts.test_answers import assert_near, gpu, load
from tests.model.stepping import tokens

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    make_levels_cheap(monkeypatch)


@pytest.fixture
def on_gpu() -> Iterator[None]:
    with gpu():
        yield


def at_every_length(runner: Runner) -> list[list[int]]:
    """The likeliest tokens behind texts whose blocks begin and end on either side of what attention cuts."""
    text = tokens(140, VOCABULARY, seed=9)
    request, found = Request(runner, range(9)), []
    for length in (57, 58, 59, 63, 64, 65, 127, 128, 140):
        feed(request, text[request.kv_len : length], 64)
        found += [answer.ids.tolist() for answer in draft_path(request, GUESSES)]
    return found


def test_dflash_answers_what_plain_torch_says(tiny: Path, tmp_path: Path) -> None:
    head = block_tensors()
    right = dflash.expected(tiny, head)
    wrong = {
        form: dflash.expected(tiny, head, wrong=form)
        for form in ("causal", "context_normed", "raw_context")
    }
    with gpu():
        found = dflash.answered(load(tiny, write_head(tmp_path, head, **DFLASH)), 9)
    assert distance(found, right) < 1e-5
    assert all(distance(found, other) > 1e-3 for other in wrong.values())


def test_dflash2_answers_what_plain_torch_says(tiny: Path, tmp_path: Path) -> None:
    forms = ("sides", "ahead", "static", "by_token", "unprojected")
    paths = (dflash.GUESSES, dflash2.OTHERS)
    right = [dflash2.expected(tiny, guesses) for guesses in paths]
    wrong = [dflash2.expected(tiny, dflash2.OTHERS, wrong=form) for form in forms]
    with gpu():
        runner = load(tiny, write_head(tmp_path, dflash2.head_tensors(), **DFLASH2))
        found = [dflash.answered(runner, 9, guesses) for guesses in paths]
    for one, other in zip(found, right, strict=True):
        assert distance(one, other) < 1e-5
    assert all(distance(found[1], other) > 1e-2 for other in wrong)


def test_peagle_answers_what_plain_torch_says(tiny: Path, tmp_path: Path) -> None:
    right = peagle.by_torch(tiny)
    wrong = [peagle.by_torch(tiny, wrong=form) for form in ("continued", "raw_mask", "in_place")]
    with gpu():
        runner = load(tiny, write_head(tmp_path, peagle_tensors(), **PEAGLE))
        found = answered(runner, 9)
    assert distance(found, right) < 1e-5
    assert all(distance(found, other) > 1e-3 for other in wrong)


@pytest.mark.parametrize("kind", ["dflash", "dflash_causal", "dflash2", "peagle_window"])
def test_blocks_at_every_length_are_those_of_a_cpu(kind: str, tiny: Path, tmp_path: Path) -> None:
    target, head = written(kind, tiny, tmp_path)
    expected = at_every_length(load(target, head))
    with gpu():
        found = at_every_length(load(target, head))
    # Where two tokens are about as likely, either may come first.
    equal = sum(one == other for one, other in zip(found, expected, strict=True))
    assert equal > 0.9 * len(expected)


def test_the_largest_block_is_that_of_a_cpu(tiny: Path, tmp_path: Path) -> None:
    """Its rows reach into the second unit of keys behind the committed ones, all of whose tails are read."""
    head = write_head(tmp_path, block_tensors(), **DFLASH | {"block_size": 63})

    def asked(runner: Runner) -> list[Answers]:
        found = []
        for length in (2, 63, 65, 127):
            request = Request(runner, range(10))
            feed(request, TOKENS[:length], 64)
            found += draft_path(request, [*GUESSES, *range(56)], SCORED)
        return found

    expected = asked(load(tiny, head))
    with gpu():
        assert_near(asked(load(tiny, head)), expected)


@pytest.mark.parametrize("kind", ["dflash", "peagle"])
@pytest.mark.usefixtures("on_gpu")
def test_what_lies_between_changes_no_answer_and_a_block_has_an_end(
    kind: str, tiny: Path, tmp_path: Path
) -> None:
    runner = load(*written(kind, tiny, tmp_path))
    states = {"dflash": BLOCK - 1, "peagle": MAX_LEVELS}[kind]
    found = []
    for guesses in (GUESSES, [GUESSES[0], 9, 9, 9]):
        request = Request(runner, [3, 9, 4, 1])
        feed(request, TOKENS[:39], 39)
        found.append(draft_path(request, guesses, SCORED))
    assert same(*found)
    limit = 39 + states
    with pytest.raises(
        ValueError, match=rf"row_position\[0\] is {limit}, expected below {limit}, within the block"
    ):
        draft_path(request, [GUESSES[0], *[1] * states])


@pytest.mark.parametrize("kind", ["dflash", "dflash2", "peagle"])
def test_blocks_reach_behind_the_context_limit(kind: str, tiny: Path, tmp_path: Path) -> None:
    target, head = written(kind, tiny, tmp_path)

    def at_the_end(runner: Runner) -> Request:
        request = Request(runner, range(3))
        feed(request, TOKENS[:39], 39)
        return request

    expected = draft_path(at_the_end(load(target, head, max_context=40)), GUESSES[:1], SCORED)
    with gpu():
        request = at_the_end(load(target, head, max_context=40))
        assert_near(draft_path(request, GUESSES[:1], SCORED), expected)
        late = LevelPlan.of([request.asked()], [(1, 40, 0, 0)], level=2, row_index=1)
        with pytest.raises(ValueError, match="below the context limit 40"):
            request.runner.draft(late)


@pytest.mark.parametrize("kind", ["dflash", "dflash2", "peagle"])
def test_recorded_blocks_and_others_are_the_same_bytes(
    kind: str, tiny: Path, tmp_path: Path
) -> None:
    target, head = written(kind, tiny, tmp_path)
    found = []
    for buckets in ((1, 8), (1, 4, 64)):
        with simulated_gpu(), small_start(buckets):
            runner = load_runner(
                target, dtype="float32", num_pages=64, threads=1, drafter=head, max_batch_rows=64
            )
            request = Request(runner, range(4))
            feed(request, TOKENS[:39], 39)
            found.append(draft_path(request, GUESSES, SCORED))
    assert same(*found)
