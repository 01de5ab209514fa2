"""Measured costs of forwards, and where they are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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


Time = Callable[[StepPlan], float]


class Timer:
    """Times that were agreed on; notes the rows of each step by whose clock it was timed."""

    def __init__(self, of_host: Time, of_device: Time | None = None) -> None:
        self._of_host = of_host
        self._of_device = of_device
        self.by_host: list[int] = []
        self.by_device: list[int] = []

    @property
    def has_device_clock(self) -> bool:
        return self._of_device is not None

    def of_host(self, plan: StepPlan, /) -> float:
        self.by_host.append(len(plan.row_token))
        return self._of_host(plan)

    def of_device(self, plan: StepPlan, /) -> float:
        self.by_device.append(len(plan.row_token))
        assert self._of_device is not None
        return self._of_device(plan)

    def recorded_rows(self) -> Sequence[int]:
        return (1, 8, 64)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_COST_SECONDS", "_GAP_SECONDS"):
        monkeypatch.setattr(f"spectrie.model.runner.costs.{name}", 0.0)
    monkeypatch.setattr("spectrie.model.machine.Competition.is_there", lambda _: False)


def test_steps_as_large_as_prompts_are_timed_without_drawing_all_their_rows() -> None:
    timer = CostTimer(INFO, Measurements(None), Timer(lambda plan: 0.0))
    assert timer.plan(512).sample_rows.tolist() == list(range(512))
    prompts = timer.plan(2048)
    assert len(prompts.row_token) == len(prompts.top_rows) == 2048
    # The last row of each request.
    assert prompts.sample_rows.tolist() == list(range(63, 2048, 64))


def by_rows_and_keys(plan: StepPlan) -> float:
    return 1.0 + len(plan.row_token) / 64 + 1e-3 * float(plan.request_kv_len.sum())


def test_costs_by_the_hosts_clock_are_kept_for_one_kind_of_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(host: str) -> int:
        monkeypatch.setattr("spectrie.model.machine.cpu_class", lambda: host)
        timer = Timer(by_rows_and_keys)
        costs = CostTimer(INFO, Measurements(tmp_path / "measurements.json"), timer)
        costs.forwards(1)
        after = len(timer.by_host)
        costs.context(1)
        assert (after > 0) == (len(timer.by_host) > after)
        return len(timer.by_host)

    assert measured("fast") > 0
    assert measured("fast") == 0
    assert measured("slow") > 0


def test_times_of_a_device_are_its_own_and_what_the_host_adds_is_one_number() -> None:
    host_ms = iter(range(100, 200))
    timer = Timer(lambda plan: float(next(host_ms)), by_rows_and_keys)
    costs = CostTimer(INFO, Measurements(None), timer)
    rows, times = costs.forwards(1)
    device_ms = [by_rows_and_keys(costs.plan(n)) for n in rows]
    assert rows == [1, 8, 64, 128, 256, 512, 1024, 2048]
    # The first forward of the host warms up, the next one is the fastest.
    gap_ms = 101.0 - device_ms[0]
    assert times == [one + gap_ms for one in device_ms]
    assert set(timer.by_host) == {1}
    assert set(timer.by_device) == set(rows)


def test_cached_tokens_of_a_device_are_priced_by_its_own_clock() -> None:
    timer = Timer(lambda plan: pytest.fail("the host's clock was read"), by_rows_and_keys)
    cost = CostTimer(INFO, Measurements(None), timer).context(1)
    assert cost.ms_per_key + cost.ms_per_read == pytest.approx(1e-3)


def test_a_host_that_is_no_slower_than_the_device_adds_nothing() -> None:
    timer = Timer(lambda plan: 0.5, by_rows_and_keys)
    assert CostTimer(INFO, Measurements(None), timer).gap(1) == 0.0


def test_times_of_a_device_are_kept_for_it_and_what_the_host_adds_for_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(device: str, host: str) -> tuple[bool, bool]:
        """Whether anything was timed by the device's clock, and by the host's."""
        monkeypatch.setattr("spectrie.model.machine.cpu_class", lambda: host)
        timer = Timer(lambda plan: 9.0 + by_rows_and_keys(plan), by_rows_and_keys)
        info = replace(INFO, arithmetic=f"{device}/exact")
        costs = CostTimer(info, Measurements(tmp_path / "measurements.json"), timer)
        costs.forwards(1)
        costs.context(1)
        # The gap needs both.
        return set(timer.by_device) > {1}, bool(timer.by_host)

    assert measured("H100", "fast") == (True, True)
    assert measured("H100", "fast") == (False, False)
    assert measured("H100", "slow") == (False, True)
    assert measured("H200", "slow") == (True, True)
