"""Recorded levels, and recorded steps beside a drafter, on a fake device: what they launch and do not."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.model import Runner, load_runner
from spectrie.model.drafters import LevelPlan
from spectrie.model.launch.drafts.words import LevelArrays
from spectrie.model.plan import StepPlan
from spectrie.model.step.wanted import Wanted
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.session import Request, feed
from tests.model.launch.drafts.scenes import GUESSES, SCORED, TOKENS, written
from tests.model.launch.test_graphs import MEMORY, Operations

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(autouse=True)
def _on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    make_levels_cheap(monkeypatch)
    with simulated_gpu(), small_start((1, 8, 64)):
        yield


def load(target: Path, head: Path | str, **options: Any) -> Runner:
    return load_runner(
        target, dtype="float32", threads=1, num_pages=64, drafter=head, max_batch_rows=64, **options
    )


def device_counts(runner: Runner) -> Counter[str]:
    counts: Counter[str] = runner._decoder._device.counts  # type: ignore[attr-defined]
    return counts


def first_level(request: Request) -> LevelPlan:
    plan = LevelPlan.of(
        [request.asked()],
        [(GUESSES[0], request.kv_len, 0, -1)],
        scored=[SCORED],
        moves=request.moves,
    )
    request.moves = []
    return plan


def later_level(request: Request) -> LevelPlan:
    at = request.kv_len + 1
    rows = [(GUESSES[1], at, 0, 0), (GUESSES[2], at, 0, 0)]
    return LevelPlan.of([request.asked()], rows, level=2, row_index=1, scored=[SCORED, SCORED])


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        "eagle3",
        "eagle3_of_target",
        "eagle3_low_rank",
        "eagle3_deep",
        "eagle2",
        "mtp",
        "dflash",
        "dflash2",
        "peagle",
    ],
)
def test_a_recorded_level_is_one_launch_two_copies_one_wait_and_no_memory(
    kind: str, exact: bool, tiny: Path, tmp_path: Path
) -> None:
    runner = load(*written(kind, tiny, tmp_path), gpu_arithmetic="exact" if exact else "fast")
    request = Request(runner, range(8))
    feed(request, TOKENS[:40], 40)
    for level in (first_level(request), later_level(request)):
        counts = device_counts(runner)
        counts.clear()
        counted = Operations()
        with counted.kernels():
            runner.draft(level)
        # The first wait is for the last use of its pinned memory, long over.
        assert counts == {"wait": 2, "copy": 2, "replay": 1, "event": 1}
        assert not set(counted.counts) & MEMORY
        # Later levels of blocks have a head alone.
        products = 1 if kind in ("dflash", "dflash2", "peagle") and level.level > 1 else 2
        assert counted.counts["linear"] + counted.counts["mm"] >= products
    # So that the line above says something: a level of more scored tokens than recorded ones have room for.
    wide = LevelPlan.of([request.asked()], [(1, 40, 0, -1)], scored=[list(range(200))])
    counted = Operations()
    with counted.kernels():
        runner.draft(wide)
    assert set(counted.counts) & MEMORY


@pytest.mark.parametrize(
    "kind",
    ["eagle3", "eagle3_deep", "eagle2", "eagle2_deep", "mtp", "dflash", "peagle", "model_itself"],
)
def test_a_recorded_step_beside_a_drafter_allocates_nothing_and_waits_once(
    kind: str, tiny: Path, tmp_path: Path
) -> None:
    runner = load(*written(kind, tiny, tmp_path))
    request = Request(runner, range(8))
    feed(request, TOKENS[:40], 40)
    tree = StepPlan.single(
        TOKENS[40:45],
        kv_len=40,
        pages=request.pages[:3],
        parents=[-1, 0, 0, 1, 1],
        feature=request.store,
        feature_moves=[(0, request.store)],
    )
    plain = load(tiny, "off")
    found = []
    for one in (runner, plain):
        one.launch(tree, Wanted.LIKELIEST).wait()
        counts = device_counts(one)
        counts.clear()
        counted = Operations()
        with counted.kernels():
            one.launch(tree, Wanted.LIKELIEST).wait()
        assert not set(counted.counts) & MEMORY
        found.append(counted.counts)
        reads = kind != "model_itself" and one is runner
        assert counts == {"wait": 2, "copy": 3 if reads else 2, "replay": 1, "event": 1}
    more = found[0] - found[1]
    if kind == "model_itself":
        # Its keys move with the model's, and nothing else is done.
        assert more == {"move_slots": 1}
    else:
        layers = {"eagle3_deep": 3, "eagle2_deep": 2, "dflash": 2, "peagle": 4}.get(kind, 1)
        assert more["rotate_write"] == layers
        assert more["compact_slots"] == 1
        # Of the last layer only keys and values; of DFLASH of all, and no vectors of tokens.
        is_block = kind == "dflash"
        assert more["embed"] == (not is_block)
        assert more["tree_attention"] == more["gate"] == (0 if is_block else layers - 1)
        assert not {"top_k", "row_argmax"} & set(more)


def test_levels_and_steps_beside_a_drafter_are_recorded_by_rows(tiny: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    runner = load(*written("eagle3", tiny, tmp_path), progress=lines.append)
    # First and later levels of 1, 8 and 64 rows, first ones behind a step, and second ones behind 1 and 8 of these.
    assert "recorded 11 levels of drafts" in lines
    request = Request(runner, range(8))
    feed(request, TOKENS[:30], 30)
    for rows, is_recorded in ((1, True), (9, True), (64, True)):
        plan = LevelPlan.of([request.asked()], [(row, 30, 0, -1) for row in range(rows)])
        counts = device_counts(runner)
        counts.clear()
        runner.draft(plan)
        assert (counts["replay"] == 1) == is_recorded
        assert (counts["launch"] == 0) == is_recorded


def test_more_moves_than_recorded_steps_have_room_for_are_made_all_the_same(
    tiny: Path, tmp_path: Path
) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    request = Request(runner, range(8))
    feed(request, TOKENS[:20], 20)
    expected = runner.draft(first_level(request))
    feed(request, TOKENS[20:21], 1)
    request = Request(runner, range(8, 16), seat=1)
    feed(request, TOKENS[:20], 20)
    copies = [(request.store, request.store)] * 1100
    step = StepPlan.single(
        [1],
        kv_len=0,
        pages=[30],
        feature_moves=request.moves,
        feature_copies=copies,
    )
    request.moves = []
    runner.launch(step, Wanted.LIKELIEST).wait()
    found = runner.draft(first_level(request))
    assert (found.ids[:, :1] == expected.ids[:, :1]).all()


def test_levels_hold_the_memory_that_they_recorded(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    levels: Any = runner._decoder.drafts[0]._levels  # type: ignore[attr-defined]
    made: list[weakref.ref[LevelArrays]] = []

    class Watched(LevelArrays):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(weakref.ref(self))

    monkeypatch.setattr("spectrie.model.launch.drafts.levels.levels.LevelArrays", Watched)
    # A graph knows addresses, and keeps nothing alive.
    monkeypatch.setattr(levels._device, "record", lambda work: SimpleNamespace())
    levels.record()
    gc.collect()
    assert made and all(one() is not None for one in made)
    assert levels.scratch.bytes > 0
