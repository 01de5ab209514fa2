"""First levels that are computed behind a step: the bytes of those that are asked, and nothing where none is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.gpu.fake_device import WORK_MS, FakeDevice
from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.model import Runner, load_runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.launch.launcher import Launcher
from spectrie.model.plan import StepPlan
from spectrie.model.step.wanted import Wanted
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.session import same
from tests.model.launch.drafts import followed
from tests.model.launch.drafts.followed import (
    Followed,
    accept,
    drafts_of,
    levels_behind,
    likeliest,
    owed,
    prefilled,
    roots,
)
from tests.model.launch.drafts.scenes import TOKENS, written
from tests.model.launch.test_graphs import MEMORY, Operations

pytestmark = pytest.mark.usefixtures("own_cache")

LENGTHS = [(59, 3), (62, 0), (62, 1), (63, 0), (61, 2), (127, 1), (130, 3), (5, 2)]
"""Tokens of prompts, and how many drafts of the step behind them are accepted."""
KINDS = [
    "eagle3",
    "eagle3_norms",
    "eagle3_window",
    "eagle3_of_target",
    "eagle3_low_rank",
    "eagle3_deep_window",
    "eagle2",
    "mtp",
]


@pytest.fixture(autouse=True)
def _on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    make_levels_cheap(monkeypatch)
    with simulated_gpu(), small_start((1, 8, 64)):
        yield


def load(target: Path, head: Path | str | Sequence[Path], **options: Any) -> Runner:
    given = {"num_pages": 128, "max_batch_rows": 640} | options
    return load_runner(target, dtype="float32", threads=1, drafter=head, **given)


def requests_of(runner: Runner) -> list[Followed]:
    return followed.requests_of(runner, LENGTHS)


def device_of(runner: Runner) -> FakeDevice:
    device: FakeDevice = runner._decoder._device  # type: ignore[attr-defined]
    return device


def poison(runner: Runner) -> None:
    """Puts NaN where drafts of earlier steps left states, keys and values."""
    device_of(runner).wait()
    trunk = drafts_of(runner)._levels.trunk
    trunk.states.fill_(float("nan"))
    first = runner.num_pages * runner.page_size
    for cache in (trunk.operators._keys, trunk.operators._values):
        cache[:, first:].fill_(float("nan"))


def nearly(one: list[Answers], other: list[Answers]) -> bool:
    return all(
        np.array_equal(a.ids[:, 0], b.ids[:, 0])
        and np.allclose(a.probabilities, b.probabilities, rtol=1e-4)
        and np.allclose(a.scored, b.scored, rtol=1e-4)
        for a, b in zip(one, other, strict=True)
    )


SCORED = [[5, 9, 199], [], [3], [], [8, 8], [], [77], [1, 2]]


@pytest.mark.parametrize(
    ("kind", "recorded"), [*((kind, True) for kind in KINDS), ("eagle3_of_target", False)]
)
def test_answers_are_the_bytes_of_a_level_that_is_asked(
    kind: str, recorded: bool, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not recorded:
        monkeypatch.setattr(Launcher, "record", lambda *_: None)
    runner = load(*written(kind, tiny, tmp_path))
    requests = requests_of(runner)
    for order in (range(8), [6, 2, 5, 0], [4, 3]):
        scored = SCORED[: len(order)]
        found = []
        for is_asked_before in (False, True):
            poison(runner)
            before = drafts_of(runner).num_ahead
            answers = levels_behind(
                runner, requests, order, is_asked_before=is_asked_before, scored=scored
            )
            used = drafts_of(runner).num_ahead - before
            # The level before the step follows that of prompts, behind levels of the scene before.
            assert used == (len(requests) + len(order) if is_asked_before else 0)
            found.append(answers)
            for one in requests:
                one.rewind()
        # Products of torch, which are in place of kernels here, have bits that depend on the number of rows.
        assert same(*found) if recorded else nearly(*found)
        assert (found[0][0].probabilities[:, 0] > 0).all()


def stepped(runner: Runner, requests: list[Followed], *, is_asked_before: bool) -> None:
    """Takes requests up to behind a step of trees."""
    prefilled(runner, requests)
    if is_asked_before:
        runner.draft(first_level(requests, [one.truth[0] for one in requests]))
    likeliest(runner, StepPlan.joined([one.tree for one in requests]))
    accept(requests)


def first_level(requests: list[Followed], tokens: list[int], **options: Any) -> LevelPlan:
    moves = owed(requests)
    rows = [(token, requests[i].request.kv_len, i, -1) for i, token in enumerate(tokens)]
    return LevelPlan.of([one.request.asked() for one in requests], rows, moves=moves, **options)


@pytest.mark.parametrize("kind", ["eagle3", "eagle3_of_target", "eagle3_low_rank", "mtp"])
def test_a_level_behind_a_step_is_one_more_launch_and_its_answers_are_there(
    kind: str, tiny: Path, tmp_path: Path
) -> None:
    runner = load(*written(kind, tiny, tmp_path))
    requests = requests_of(runner)
    for scored in ([], [[5, 9]] + [[]] * 6 + [[7]]):
        stepped(runner, requests, is_asked_before=True)
        level = first_level(requests, roots(requests), scored=scored or None)
        device_of(runner).wait()
        counts = device_of(runner).counts
        counts.clear()
        counted = Operations()
        with counted.kernels():
            runner.draft(level)
        few = {"wait": 2, "copy": 2, "replay": 1, "event": 1}
        assert counts == (few if scored else {"wait": 1})
        # Tokens are scored by what the head has found.
        assert not {"linear", "mm", "tree_attention", *MEMORY} & set(counted.counts)
        tree = StepPlan.joined([one.tree for one in requests])
        counts.clear()
        with counted.kernels():
            launched = runner.launch(tree, Wanted.LIKELIEST)
            launched.wait()
            assert launched.followed_ms > 0
        # The step, and the level behind it: a launch, a copy and an event each.
        assert counts == {"wait": 2, "copy": 4, "replay": 2, "event": 2}
        assert not set(counted.counts) & MEMORY
        assert counted.counts["draft_roots"] == counted.counts["root_work"] == 1
        for one in requests:
            one.rewind()


def test_nothing_is_launched_where_no_drafter_was_asked(tiny: Path, tmp_path: Path) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    requests = requests_of(runner)
    stepped(runner, requests, is_asked_before=False)
    counts = device_of(runner).counts
    counts.clear()
    launched = runner.launch(StepPlan.joined([one.tree for one in requests]), Wanted.LIKELIEST)
    launched.wait()
    assert counts == {"wait": 2, "copy": 3, "replay": 1, "event": 1}
    assert launched.followed_ms == 0
    # Nor behind logits, or where few of many were asked.
    runner.draft(first_level(requests[:1], roots(requests[:1])))
    counts.clear()
    runner.launch(StepPlan.joined([one.tree for one in requests]), Wanted.LIKELIEST).wait()
    assert counts["replay"] == 1
    runner.draft(first_level(requests, roots(requests)))
    counts.clear()
    runner.step(StepPlan.joined([one.tree for one in requests]))
    assert counts["replay"] == 1


def test_a_step_is_over_before_the_level_behind_it(tiny: Path, tmp_path: Path) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    requests = requests_of(runner)
    stepped(runner, requests, is_asked_before=True)
    runner.draft(first_level(requests, roots(requests)))
    device = device_of(runner)
    device.wait()
    launched = runner.launch(StepPlan.joined([one.tree for one in requests]), Wanted.LIKELIEST)
    launched.wait()
    # The host may go on: the device has the level before it.
    assert device.is_busy
    # A launch and a copy by the device's clock.
    assert launched.followed_ms == 2 * WORK_MS


@pytest.mark.parametrize("other", ["token", "position", "pages", "moved keys", "features", "again"])
def test_what_a_level_was_not_computed_for_is_computed(
    other: str, tiny: Path, tmp_path: Path
) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    requests = requests_of(runner)[:2]
    found = []
    for is_asked_before in (True, False):
        stepped(runner, requests, is_asked_before=is_asked_before)
        before = drafts_of(runner).num_ahead
        tokens = roots(requests)
        options: dict[str, Any] = {}
        if other == "token":
            tokens[1] += 1
        elif other == "position":
            for one in requests:
                one.request.kv_len -= 1
        elif other == "pages":
            requests[0].request.pages[0] = 120
        elif other == "moved keys":
            options["slots"] = [(2000, 2001)]
        elif other == "features":
            options["copies"] = [(3, requests[0].request.store)]
        level = first_level(requests, tokens, **options)
        used = 0
        if other == "again":
            runner.draft(level)
            used = 2 * is_asked_before
        found.append(runner.draft(level))
        assert drafts_of(runner).num_ahead - before == used
        for number, one in enumerate(requests):
            one.request.pages[0] = 12 * number
            one.rewind()
    assert same(found[:1], found[1:])


def test_features_that_a_level_names_are_kept_by_the_step_behind_it(
    tiny: Path, tmp_path: Path
) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    found = []
    for is_asked_before in (True, False):
        requests = requests_of(runner)
        stepped(runner, requests, is_asked_before=is_asked_before)
        before = drafts_of(runner).num_ahead
        runner.draft(first_level(requests, roots(requests)))
        assert drafts_of(runner).num_ahead - before == (len(requests) if is_asked_before else 0)
        # Rows of a request that did not run in the step between, and one behind the pages of another.
        other = Followed.of(runner, TOKENS[200:220], 0, range(100, 112), seat=9)
        sharing = Followed.of(runner, TOKENS[5:9], 0, range(112, 124), seat=10)
        pages = requests[6].request.kv_len // 16
        sharing.request.hit(pages, requests[6].request)
        sharing.request.pages[:pages] = requests[6].request.pages[:pages]
        chunk = sharing.request.chunk(TOKENS[5:9])
        runner.step(chunk)
        sharing.request.commit(0, 4)
        both = [requests[0], requests[6], sharing]
        del other
        found.append(runner.draft(first_level(both, [3, 4, 5])))
    assert same(found[:1], found[1:])
