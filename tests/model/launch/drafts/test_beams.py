"""Second levels that are computed behind first ones: the bytes of those that are asked, and nothing where none is."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.gpu.fake_device import WORK_MS
from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.model import Runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.launch.drafts.levels.beams import Beams
from spectrie.model.launch.launcher import Launcher
from spectrie.model.plan import StepPlan
from spectrie.model.step.scratch import HeldScratch
from spectrie.model.step.wanted import Wanted
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.session import same
from tests.model.launch.drafts.beamed import (
    ALL,
    asked_of_beams,
    both,
    levels,
    nothing_ahead,
    second_level,
)
from tests.model.launch.drafts.followed import (
    Followed,
    accept,
    drafts_of,
    likeliest,
    prefilled,
    rewind,
    roots,
)
from tests.model.launch.drafts.scenes import written
from tests.model.launch.drafts.test_ahead import (
    KINDS,
    device_of,
    first_level,
    load,
    nearly,
    poison,
    requests_of,
)
from tests.model.launch.test_graphs import MEMORY, Operations

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(autouse=True)
def _on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Sizes that levels have ahead too: products of torch, in place of kernels, have bits by the number of rows.
    make_levels_cheap(monkeypatch)
    with simulated_gpu(), small_start((1, 4, 8, 32, 64)):
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_answers_of_beams_are_the_bytes_of_a_level_that_is_asked(
    kind: str, tiny: Path, tmp_path: Path
) -> None:
    runner = load(*written(kind, tiny, tmp_path))
    requests = requests_of(runner)
    # In another order than the roots, one beam twice, one root without a row.
    for rows in (ALL, [*ALL[::-1], (3, 0)], [(row, 3) for row in range(7)] + [(0, 1), (1, 0)]):
        found, used = both(runner, requests, rows)
        assert used == len(rows)
        assert same(*found)
        assert (found[0][1].probabilities[:, 0] > 0).all()


@pytest.mark.parametrize("kind", ["eagle3", "eagle3_low_rank", "mtp"])
def test_rows_of_a_single_request_are_answered_too(kind: str, tiny: Path, tmp_path: Path) -> None:
    runner = load(*written(kind, tiny, tmp_path))
    requests = requests_of(runner)
    for number in (0, 5, 6):
        rows = [(0, beam) for beam in (2, 0, 3)]
        found, used = both(runner, requests[number : number + 1], rows)
        assert used == 3
        assert same(*found)


def test_levels_that_are_not_recorded_have_the_same_answers(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Launcher, "record", lambda *_: None)
    runner = load(*written("eagle3_of_target", tiny, tmp_path))
    requests = requests_of(runner)
    for named_before in (False, True):
        found, used = both(runner, requests, ALL, named_before=named_before)
        assert used == len(ALL)
        assert nearly(*found)


@pytest.mark.parametrize("kind", ["eagle3", "eagle3_low_rank"])
def test_a_level_with_a_token_that_is_no_beam_is_computed(
    kind: str, tiny: Path, tmp_path: Path
) -> None:
    runner = load(*written(kind, tiny, tmp_path))
    requests = requests_of(runner)
    for wrong in ([0], [5], range(len(ALL))):
        found, used = both(runner, requests, ALL, wrong=wrong)
        assert used == 0
        assert same(*found)


@pytest.mark.parametrize("other", ["moved keys", "pages", "first again", "many scored"])
def test_what_beams_were_not_computed_for_is_computed(
    other: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    requests = requests_of(runner)
    options: dict[str, Any] = {}
    draft = runner.draft

    def otherwise(plan: LevelPlan) -> Answers:
        if other == "pages" and plan.level == 2 and len(plan.scored_token):
            plan.page_ids[0] = 120
        if other == "first again" and plan.level == 1:
            draft(plan)
        return draft(plan)

    monkeypatch.setattr(runner, "draft", otherwise)
    if other == "moved keys":
        options["slots"] = [(2000, 2001)]
    elif other == "many scored":
        options["scored"] = [[1] * 300]
    found, used = both(runner, requests, ALL, **options)
    assert used == 0
    assert same(*found)


def test_beams_are_computed_once_a_second_level_was_asked_of_them(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    requests = requests_of(runner)
    launched = []
    launch = Beams.launch

    def noting(*given: Any, **options: Any) -> None:
        launched.append(1)
        launch(*given, **options)

    monkeypatch.setattr(Beams, "launch", noting)

    def next_step(number: int, wrong: Sequence[int] = (), asked: int = 2) -> int:
        """Asks so many levels, of so many requests in the second, and returns how many second ones a step launches."""
        prefilled(runner, requests)
        if asked:
            first = runner.draft(first_level(requests, [one.truth[0] for one in requests]))
        if asked == 2:
            rows = [(row, 0) for row in range(number)]
            runner.draft(second_level(requests, first, rows, wrong=wrong))
        launched.clear()
        likeliest(runner, StepPlan.joined([one.tree for one in requests]))
        rewind(requests)
        return len(launched)

    assert next_step(8, asked=0) == 0
    assert next_step(8, asked=1) == 0
    assert next_step(8) == 1
    assert next_step(8, wrong=[3]) == 0
    # A quarter of the requests, and fewer.
    assert next_step(2) == 1
    assert next_step(1) == 0


def test_more_roots_than_have_room_have_no_beams(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectrie.model.launch.drafts.memory._MAX_BEAM_ROWS", 16)
    runner = load(*written("eagle3", tiny, tmp_path))
    requests = requests_of(runner)
    found, used = both(runner, requests, ALL)
    assert used == 0
    assert same(*found)
    found, used = both(runner, requests[:4], ALL[:8])
    assert used == 8
    assert same(*found)


def test_a_second_level_is_one_more_launch_behind_what_the_host_waits_for(
    tiny: Path, tmp_path: Path
) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    requests = requests_of(runner)
    asked_of_beams(runner, requests)
    device = device_of(runner)
    device.wait()
    device.counts.clear()
    counted = Operations()
    with counted.kernels():
        launched = runner.launch(StepPlan.joined([one.tree for one in requests]), Wanted.LIKELIEST)
        launched.wait()
        # The step, and two levels behind it: a launch, a copy and an event each, and what is read of a step.
        assert device.counts == {"wait": 2, "copy": 5, "replay": 3, "event": 3}
        accept(requests)
        device.counts.clear()
        first = runner.draft(first_level(requests, roots(requests)))
        # The second level is still to be computed.
        assert device.counts == {"wait": 1}
        assert device.is_busy
        assert launched.followed_ms == 4 * WORK_MS
        device.counts.clear()
        runner.draft(second_level(requests, first, ALL, scored=[]))
        assert device.counts == {"wait": 1}
        assert not device.is_busy
    assert not set(counted.counts) & MEMORY
    assert counted.counts["draft_roots"] == counted.counts["draft_beams"] == 1
    assert counted.counts["root_work"] == 2


def test_beams_hold_the_memory_that_they_recorded(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    drafts = drafts_of(runner)
    made: list[weakref.ref[HeldScratch]] = []

    class Watched(HeldScratch):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(weakref.ref(self))

    monkeypatch.setattr("spectrie.model.launch.drafts.levels.beams.HeldScratch", Watched)
    # A graph knows addresses, and keeps nothing alive.
    monkeypatch.setattr(device_of(runner), "record", lambda work: SimpleNamespace())
    drafts._ahead.record(drafts._ahead._fixed, drafts._levels.scratch)
    gc.collect()
    assert [one() is not None for one in made] == [True]


def test_features_that_levels_name_are_kept_over_two_of_them_and_two_steps(
    tiny: Path, tmp_path: Path
) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    requests = requests_of(runner)
    with nothing_ahead():
        expected, used = two_steps(runner, requests)
    assert used == 0
    rewind(requests)
    poison(runner)
    found, used = two_steps(runner, requests)
    assert used == 2 * len(ALL)
    assert same(found, expected)


def two_steps(runner: Runner, requests: list[Followed]) -> tuple[list[Answers], int]:
    """Answers of two levels each behind a step of trees and one of single rows, and how many were there ahead."""
    prefilled(runner, requests)
    ask(runner, requests, [one.truth[0] for one in requests])
    likeliest(runner, StepPlan.joined([one.tree for one in requests]))
    accept(requests)
    before = drafts_of(runner).num_beams
    found = ask(runner, requests, roots(requests))
    chunks = [
        StepPlan.single(
            [token],
            kv_len=one.request.kv_len,
            pages=one.request.pages[: one.request.kv_len // 16 + 1],
            feature=one.request.store,
        )
        for one, token in zip(requests, roots(requests), strict=True)
    ]
    result = likeliest(runner, StepPlan.joined(chunks))
    assert result.tokens is not None
    for row, one in enumerate(requests):
        one.request.commit(row, 1)
    found += ask(runner, requests, result.tokens.tolist())
    return found, drafts_of(runner).num_beams - before


def ask(runner: Runner, requests: list[Followed], tokens: list[int]) -> list[Answers]:
    """Answers of two levels, each of which moves features: the second copies one that the first moved."""
    first = runner.draft(first_level(requests, tokens))
    kept = [(one.request.store, one.kept + 50) for one in requests[:2]]
    return [first, runner.draft(second_level(requests, first, ALL, copies=kept))]


def test_no_answer_is_given_for_another_step(tiny: Path, tmp_path: Path) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    requests = requests_of(runner)
    levels(runner, requests, ALL)
    prefilled(runner, requests)
    before = runner.draft(first_level(requests, [one.truth[0] for one in requests]))
    # Beams of this level are not asked, and none are computed behind the step.
    likeliest(runner, StepPlan.joined([one.tree for one in requests]))
    accept(requests)
    used = drafts_of(runner).num_beams
    first = runner.draft(first_level(requests, roots(requests)))
    runner.draft(second_level(requests, first, ALL))
    assert drafts_of(runner).num_beams == used
    assert not same([before], [first])
