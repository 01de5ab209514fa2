"""Steps of a model with drawn weights: shares and goals follow from its size, and a fallback is a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.gpu.check import Item, Settings, Wrong
from bench.gpu.models.shapes import TINY
from bench.gpu.steps.loaded import LoadedModel, on_device
from bench.gpu.steps.step_speed import items
from spectrie.model.runner import loading
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
    assert goals["exact over fast, to 64 rows"] == goals["exact over fast, more rows"] == 1.0


def test_a_device_that_is_not_exact_is_a_fault_and_is_measured_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "differing_form", lambda *_, **__: "in a tree")
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


def test_a_step_for_a_small_cache_has_as_many_tokens_as_it_holds(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    with on_device(settings):
        runner = LoadedModel(settings, TINY, "fast").runner
        assert decoding_plan(runner, requests=1, rows=4, context=10_000).request_kv_len[0] == 508
