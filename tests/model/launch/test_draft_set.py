"""Several drafters beside a model on a GPU: each answers as if it were alone, ahead of its levels too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.model import Runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.launch.drafts.levels.levels import Levels
from spectrie.model.plan import StepPlan
from spectrie.model.step.wanted import Wanted
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.session import same
from tests.model.launch.drafts import followed
from tests.model.launch.drafts.followed import (
    Followed,
    accept,
    drafts_of,
    likeliest,
    owed,
    prefilled,
    rewind,
    roots,
)
from tests.model.launch.drafts.scenes import written
from tests.model.launch.drafts.test_ahead import load, nearly
from tests.model.launch.test_graphs import MEMORY, Operations

pytestmark = pytest.mark.usefixtures("own_cache")

KINDS = ("eagle3", "eagle2_deep", "mtp")
LENGTHS = [(59, 3), (62, 0), (63, 1), (5, 2)]
"""Tokens of prompts, and how many drafts of the step behind them are accepted."""
FAR_SLOTS = [(2001, 2002), (2000, 2001)]
"""Of pages that no request has: copied twice, all would be the same."""


@pytest.fixture(autouse=True)
def _on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    make_levels_cheap(monkeypatch)
    with simulated_gpu(), small_start((1, 8, 64)):
        yield


@pytest.fixture
def heads(tiny: Path, tmp_path: Path) -> list[Path]:
    return [written(kind, tiny, tmp_path / kind)[1] for kind in KINDS]


def requests_of(runner: Runner) -> list[Followed]:
    return followed.requests_of(runner, LENGTHS)


def levels(
    runner: Runner,
    numbers: Sequence[int],
    requests: Sequence[Followed],
    tokens: Sequence[int],
    slots: Sequence[tuple[int, int]] = (),
    scored: Sequence[Sequence[int]] | None = None,
) -> dict[int, Answers]:
    """A first level of each drafter; what moves is in the first that is asked."""
    moves, found = owed(requests), {}
    rows = [(token, requests[i].request.kv_len, i, -1) for i, token in enumerate(tokens)]
    asked = [one.request.asked() for one in requests]
    for number in numbers:
        plan = LevelPlan.of(asked, rows, moves=moves, slots=slots, scored=scored, drafter=number)
        found[number] = runner.draft(plan)
        moves, slots = [], ()
    return found


def stepped(
    runner: Runner, requests: Sequence[Followed], numbers: Sequence[int], *, is_asked: bool
) -> None:
    """Takes requests up to behind a step of trees, before which drafters were asked or not."""
    prefilled(runner, requests)
    if is_asked:
        levels(runner, numbers, requests, [one.truth[0] for one in requests])
    likeliest(runner, StepPlan.joined([one.tree for one in requests]))
    accept(requests)


def alone(target: Path, head: Path, slots: Sequence[tuple[int, int]] = ()) -> Answers:
    """What one drafter without others answers behind a step, asked then."""
    runner = load(target, [head])
    requests = requests_of(runner)
    stepped(runner, requests, [0], is_asked=False)
    return levels(runner, [0], requests, roots(requests), slots, [[5, 9], [], [3], []])[0]


def test_levels_behind_a_step_are_those_of_each_alone_though_one_level_moves_for_all(
    tiny: Path, heads: list[Path]
) -> None:
    runner = load(tiny, heads)
    requests = requests_of(runner)
    for numbers in ([0, 1, 2], [2, 0, 1]):
        for is_asked in (True, False):
            stepped(runner, requests, numbers, is_asked=is_asked)
            before = [drafts_of(runner, number).num_ahead for number in numbers]
            scored = [[5, 9], [], [3], []]
            found = levels(runner, numbers, requests, roots(requests), scored=scored)
            used = [drafts_of(runner, number).num_ahead for number in numbers]
            # Also where another one's level had the moves of features.
            each = len(requests) if is_asked else 0
            assert [now - then for now, then in zip(used, before, strict=True)] == 3 * [each]
            for number in numbers:
                assert same([found[number]], [alone(tiny, heads[number])]), (numbers, number)
            rewind(requests)


def test_a_level_that_moves_keys_leaves_none_that_were_computed_before(
    tiny: Path, heads: list[Path]
) -> None:
    runner = load(tiny, heads)
    requests = requests_of(runner)
    stepped(runner, requests, [0, 1, 2], is_asked=True)
    before = [drafts_of(runner, number).num_ahead for number in range(3)]
    keys = [drafts_of(runner, number)._operators._keys for number in range(3)]
    keys.append(runner._decoder._operators._keys)  # type: ignore[attr-defined]
    for one in keys:
        one[:, 2000], one[:, 2001] = 7.0, 8.0
    scored = [[5, 9], [], [3], []]
    found = levels(runner, [1, 0, 2], requests, roots(requests), FAR_SLOTS, scored)
    assert [drafts_of(runner, number).num_ahead for number in range(3)] == before
    for number, head in enumerate(heads):
        assert same([found[number]], [alone(tiny, head, FAR_SLOTS)]), number
    for one in keys:
        assert (one[:, 2001] == 7.0).all() and (one[:, 2002] == 8.0).all()


def test_one_that_is_taken_away_leaves_what_others_know_of_the_last_step(
    tiny: Path, heads: list[Path]
) -> None:
    runner = load(tiny, heads)
    requests = requests_of(runner)
    stepped(runner, requests, [0, 1, 2], is_asked=True)
    # Its level has the moves, which wait for those of the others.
    levels(runner, [0], requests, roots(requests))
    runner.drop_drafter(0)
    assert [one.name for one in runner.drafters] == ["head#2", "layer"]
    scored = [[5, 9], [], [3], []]
    found = levels(runner, [2, 1], requests, roots(requests), scored=scored)
    for number in (1, 2):
        assert same([found[number]], [alone(tiny, heads[number])]), number
    rewind(requests)
    stepped(runner, requests, [1, 2], is_asked=True)
    again = levels(runner, [1, 2], requests, roots(requests), scored=scored)
    assert [drafts_of(runner, number).num_ahead > 0 for number in (1, 2)] == [True, True]
    assert same([again[1], again[2]], [found[1], found[2]])
    with pytest.raises(ValueError, match="no drafter of number 0"):
        levels(runner, [0], requests, roots(requests))


def test_one_is_taken_away_though_steps_cannot_be_recorded_again(
    tiny: Path, heads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = load(tiny, heads)
    requests = requests_of(runner)
    device: Any = runner._decoder._device  # type: ignore[attr-defined]
    record, levels_record, is_full = device.record, Levels.record, False

    def recording(work: Any) -> Any:
        if is_full:
            raise RuntimeError("out of memory")
        return record(work)

    def recording_levels(self: Levels) -> None:
        nonlocal is_full
        is_full = True
        levels_record(self)

    # Levels find no memory; the steps before them did.
    monkeypatch.setattr(device, "record", recording)
    monkeypatch.setattr(Levels, "record", recording_levels)
    assert runner.starts_early
    runner.drop_drafter(0)
    assert not runner.starts_early
    is_full = False
    stepped(runner, requests, [1, 2], is_asked=False)
    scored = [[5, 9], [], [3], []]
    device.counts.clear()
    found = levels(runner, [1, 2], requests, roots(requests), scored=scored)
    # What was recorded of the second one still has its memory, as its turn has not come.
    assert device.counts["replay"] == 1
    for number in (1, 2):
        # Products of torch, which are in place of kernels here, have bits that depend on the number of rows.
        assert nearly([found[number]], [alone(tiny, heads[number])]), number


def test_a_level_that_names_features_which_are_not_there_changes_nothing(
    tiny: Path, heads: list[Path], tmp_path: Path
) -> None:
    runner = load(tiny, [written("model_itself", tiny, tmp_path)[1], heads[0]])
    requests = requests_of(runner)
    stepped(runner, requests, [1], is_asked=False)
    keys = runner._decoder._operators._keys  # type: ignore[attr-defined]
    keys[:, 2000], keys[:, 2001] = 7.0, 8.0
    asked = [one.request.asked() for one in requests[:1]]
    level = LevelPlan.of(asked, [], slots=[(2000, 2001)], moves=[(9999, 3)])
    with pytest.raises(ValueError, match="feature_moves"):
        runner.draft(level)
    assert (keys[:, 2001] == 8.0).all()


def test_a_step_waits_once_allocates_nothing_and_counts_levels_of_all_behind_it(
    tiny: Path, heads: list[Path]
) -> None:
    runner = load(tiny, heads)
    requests = requests_of(runner)
    stepped(runner, requests, [0, 1, 2], is_asked=True)
    levels(runner, [0, 1, 2], requests, roots(requests))
    tree = StepPlan.joined([one.tree for one in requests])
    device: Any = runner._decoder._device  # type: ignore[attr-defined]
    device.wait()
    device.counts.clear()
    counted = Operations()
    with counted.kernels():
        launched = runner.launch(tree, Wanted.LIKELIEST)
        launched.wait()
    # The step, what each drafter reads of it, and a level of each: a launch, a copy and an event.
    assert device.counts == {"wait": 2, "copy": 8, "replay": 4, "event": 4}
    assert not set(counted.counts) & MEMORY
    behind_one = load(tiny, heads[:1])
    requests = requests_of(behind_one)
    stepped(behind_one, requests, [0], is_asked=True)
    levels(behind_one, [0], requests, roots(requests))
    tree = StepPlan.joined([one.tree for one in requests])
    alone = behind_one.launch(tree, Wanted.LIKELIEST)
    alone.wait()
    assert launched.followed_ms == 3 * alone.followed_ms > 0
