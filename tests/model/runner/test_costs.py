"""Measured costs of forwards, and where they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectrie.model.files.measurements import Measurements
from spectrie.model.plan import StepPlan
from spectrie.model.runner.costs import CostTimer
from spectrie.model.runner.info import RunnerInfo

INFO = RunnerInfo(
    vocabulary_size=200,
    eos_token_ids=[],
    bigram_prefix=list,
    max_context=2048,
    num_pages=1024,
    page_size=16,
    max_batch_rows=4096,
    kv_bytes=0,
    dtype_name="bfloat16",
    device_name="a GPU",
    model_hash="",
    arithmetic="a GPU/exact",
    exact=True,
    can_speculate=True,
)


def test_steps_as_large_as_prompts_are_timed_without_drawing_all_their_rows() -> None:
    timer = CostTimer(INFO, Measurements(None), lambda plan: 0.0)
    assert timer.plan(512).sample_rows.tolist() == list(range(512))
    prompts = timer.plan(2048)
    assert len(prompts.row_token) == len(prompts.top_rows) == 2048
    # The last row of each request.
    assert prompts.sample_rows.tolist() == list(range(63, 2048, 64))


def test_costs_are_kept_for_one_kind_of_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectrie.model.runner.costs._COST_SECONDS", 0.0)
    monkeypatch.setattr("spectrie.model.machine.is_busy", lambda: False)
    steps: list[StepPlan] = []

    def time_of(plan: StepPlan) -> float:
        steps.append(plan)
        return 1.0 + 1e-3 * float(plan.request_kv_len.sum())

    def measured(host: str) -> int:
        monkeypatch.setattr("spectrie.model.machine.cpu_class", lambda: host)
        steps.clear()
        timer = CostTimer(INFO, Measurements(tmp_path / "measurements.json"), time_of)
        timer.forwards(1)
        after = len(steps)
        timer.context(1)
        assert (after > 0) == (len(steps) > after)
        return len(steps)

    assert measured("fast") > 0
    assert measured("fast") == 0
    # The host's part of a step is in its time.
    assert measured("slow") > 0
