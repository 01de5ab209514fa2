"""Second levels that are computed once the first is asked: tokens that text names are scored before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.fake_device import WORK_MS
from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.model.launch.drafts.levels.beams import Beams
from spectrie.model.plan import StepPlan
from spectrie.model.step.wanted import Wanted
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.session import same
from tests.model.launch.drafts.beamed import (
    ALL,
    asked_of_beams,
    both,
    named_level,
    second_level,
)
from tests.model.launch.drafts.followed import accept, drafts_of, likeliest, roots
from tests.model.launch.drafts.scenes import written
from tests.model.launch.drafts.test_ahead import (
    device_of,
    first_level,
    load,
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


@pytest.mark.parametrize("kind", ["eagle3", "eagle3_of_target", "eagle3_low_rank", "mtp"])
def test_answers_of_beams_behind_scored_tokens_are_the_same_bytes(
    kind: str, tiny: Path, tmp_path: Path
) -> None:
    runner = load(*written(kind, tiny, tmp_path))
    requests = requests_of(runner)
    for named in (True, False):
        found, used = both(runner, requests, ALL, named_before=True, named=named)
        assert used == len(ALL)
        assert same(*found)
        assert len(found[0][0].scored) == (3 if named else 0)


def test_beams_are_launched_behind_scored_tokens_and_no_answer_to_these_waits_for_them(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    requests = requests_of(runner)
    asked_of_beams(runner, requests, named=True)
    device = device_of(runner)
    device.wait()
    counts, before_beams = device.counts, []
    launch = Beams.launch

    def noting(*given: Any, **options: Any) -> None:
        before_beams.append(dict(counts))
        launch(*given, **options)

    monkeypatch.setattr(Beams, "launch", noting)
    counts.clear()
    counted = Operations()
    with counted.kernels():
        launched = runner.launch(StepPlan.joined([one.tree for one in requests]), Wanted.LIKELIEST)
        launched.wait()
        # The step, and one level behind it.
        assert counts == {"wait": 2, "copy": 4, "replay": 2, "event": 2}
        assert launched.followed_ms == 2 * WORK_MS
        accept(requests)
        counts.clear()
        first = runner.draft(named_level(requests, roots(requests), named=True))
        # Behind the scoring, its copies and its event, and before the host waits for that.
        assert before_beams == [{"wait": 1, "copy": 2, "replay": 1, "event": 1}]
        assert counts == {"wait": 2, "copy": 3, "replay": 2, "event": 2}
        # The second level is still to be computed.
        assert device.is_busy
        assert counted.counts["draft_beams"] == 0
        # Where the next step begins: behind the first level, what scored its tokens, and the second one.
        assert launched.followed_ms == (2 + 3 + 2) * WORK_MS
        assert counted.counts["draft_beams"] == 1
        counts.clear()
        runner.draft(second_level(requests, first, ALL, scored=[]))
        assert counts == {"wait": 1}
    assert not set(counted.counts) & MEMORY


@pytest.mark.parametrize("other", ["token", "many scored", "another step"])
def test_no_beams_are_launched_behind_a_first_level_that_is_computed(
    other: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    requests = requests_of(runner)
    asked_of_beams(runner, requests, named=True)
    tree = StepPlan.joined([one.tree for one in requests])
    launched: list[int] = []
    monkeypatch.setattr(Beams, "launch", lambda *given, **options: launched.append(1))
    likeliest(runner, tree)
    tokens = roots(requests)
    accept(requests)
    tokens[0] += other == "token"
    scored = [[1] * 300 if other == "many scored" else [5], *[[]] * (len(requests) - 1)]
    if other == "another step":
        runner.step(StepPlan.single([1], kv_len=0, pages=[120]))
        for one in requests:
            one.request.moves = []
    level = first_level(requests, tokens, scored=scored)
    known = drafts_of(runner).num_ahead
    runner.draft(level)
    assert drafts_of(runner).num_ahead == known
    assert not launched
