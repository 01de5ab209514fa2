"""Steps of a model with drawn weights: shares and goals follow from its size, and a fallback is a fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from bench.gpu import simulated
from bench.gpu.check import Item, Settings, Wrong
from bench.gpu.fake_device import FakeDevice
from bench.gpu.models.shapes import TINY
from bench.gpu.steps import step_speed
from bench.gpu.steps.loaded import LoadedModel, on_device
from bench.gpu.steps.step_speed import items
from spectrie.model.runner import self_check
from spectrie.model.runner.step_profile import decoding_plan, profile_step

DEVICE = {"copy_bytes_per_second": 1e9, "matrix_flops_per_second": 1e10}


def settings_of(scratch: Path) -> Settings:
    return Settings(dry=True, scratch=str(scratch), model=None, tests=(), device=DEVICE)


def run_all(settings: Settings) -> dict[str, object]:
    """What each item found, or what was wrong with it."""

    def result(item: Item) -> object:
        try:
            return item.run()
        except Wrong as wrong:
            return str(wrong)

    return {item.name: result(item) for item in items(settings)}


def test_both_arithmetics_are_measured_side_by_side(tmp_path: Path) -> None:
    found = run_all(settings_of(tmp_path))
    assert [name for name, one in found.items() if isinstance(one, str)] == []
    rows = found["tiny fast: rows"]
    assert isinstance(rows, dict)
    # A millisecond a step by the clock of a dry run.
    assert rows["share_of_copy"] == pytest.approx(2 * TINY.weights / 1e6, abs=1e-4)
    goals = {one["of"]: one["value"] for one in rows["goals"]}
    assert goals["bytes to the host a row"] == 4 + 8 * 8
    start = found["tiny exact: start"]
    assert isinstance(start, dict)
    assert {one["of"] for one in start["goals"]} == {"start, seconds", "graph memory, bytes"}
    assert "tiny: start with nothing compiled" in found
    assert goals["exact over fast, to 64 rows"] == goals["exact over fast, more rows"] == 1.0


@pytest.mark.parametrize("count", [1, 64, 96, 192, 512])
def test_a_step_has_the_rows_that_it_is_named_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    asked: list[tuple[int, int]] = []

    def plan(runner: object, *, requests: int, rows: int, context: int) -> None:
        asked.append((requests, rows))

    monkeypatch.setattr(step_speed, "_ROWS", (1, count))
    monkeypatch.setattr(step_speed, "decoding_plan", plan)
    monkeypatch.setattr(step_speed, "_milliseconds", lambda *_: 1.0)
    loaded = mock.Mock(model=TINY)
    settings = replace(settings_of(tmp_path), dry=False)
    step_speed._rows(settings, loaded, step_speed._Times(), "exact")
    requests, rows = asked[-1]
    assert (requests * rows, rows <= 64) == (count, True)


def test_a_device_that_is_not_exact_is_a_fault_and_is_measured_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_check, "differing_form", lambda *_, **__: "in a tree")
    found = run_all(settings_of(tmp_path))
    start = found["tiny exact: start"]
    assert isinstance(start, str) and "served with fast arithmetic, since the logits" in start
    assert isinstance(found["tiny exact: rows"], dict)


def test_a_model_is_loaded_once_and_can_be_loaded_again(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    with on_device(settings):
        loaded = LoadedModel(settings, TINY, "exact")
        runner = loaded.runner
        assert loaded.runner is runner
        assert (loaded.seconds_from("checking") or 0) < loaded.load_seconds
        assert loaded.seconds_from("no stage begins so") is None
        loaded.close()
        assert loaded.runner is not runner


def test_the_kernels_of_a_step_are_counted_by_step(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    with on_device(settings):
        loaded = LoadedModel(settings, TINY, "fast")
        plan = decoding_plan(loaded.runner, requests=2, rows=3, context=20)
        assert (len(plan.row_token), plan.request_kv_len.tolist()) == (6, [20, 20])
        once, more = (profile_step(loaded.runner, plan, steps=steps) for steps in (1, 3))
    launches = [{one.name: one.launches for one in of.kernels} for of in (once, more)]
    assert launches[0]["aten::mm"] == launches[1]["aten::mm"] > 0
    assert once.step_microseconds > 0


class Watched(FakeDevice):
    """A device that is known to the test."""

    last: Watched

    def __init__(self) -> None:
        super().__init__()
        Watched.last = self


@pytest.fixture
def device_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Counter[str]]:
    """What the device was asked for, of the model loaded last."""
    monkeypatch.setattr(simulated, "FakeDevice", Watched)
    return lambda: Watched.last.counts


def test_a_measured_step_is_one_recorded_launch_and_sends_tokens(
    tmp_path: Path, device_of: Callable[[], Counter[str]]
) -> None:
    settings = settings_of(tmp_path)
    with on_device(settings):
        loaded = LoadedModel(settings, TINY, "exact")
        plan = decoding_plan(loaded.runner, requests=2, rows=3, context=20)
        for measure, steps in (
            (lambda: step_speed._milliseconds(settings, loaded, plan), 2),
            (lambda: profile_step(loaded.runner, plan, steps=2), 5),
        ):
            before = Counter(device_of())
            measure()
            # One copy there, one back.
            assert device_of() - before == Counter(
                replay=steps, copy=2 * steps, event=steps, wait=2 * steps
            )


def test_a_step_for_a_small_cache_has_as_many_tokens_as_it_holds(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    with on_device(settings):
        runner = LoadedModel(settings, TINY, "fast").runner
        assert decoding_plan(runner, requests=1, rows=4, context=10_000).request_kv_len[0] == 508
