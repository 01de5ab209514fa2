"""A runner on a GPU: its arithmetic, what it says about it, and the costs that it measures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.gpu.fake_device import WORK_MS
from bench.gpu.simulated import NAME, run_once, simulated_gpu, small_start
from spectrie.errors import ConfigError
from spectrie.model import Runner, load_runner
from spectrie.model.files.measurements import Measurements
from spectrie.model.launch.launcher import Launched, Launcher
from spectrie.model.plan import PlanArrays, StepPlan, StepResult
from spectrie.model.step.wanted import Wanted
from tests.model.families import save_family
from tests.model.stepping import tokens
from tests.tiny_model import write_tiny_model

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def on_gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def load(folder: Path, **options: Any) -> Runner:
    given: dict[str, Any] = {"dtype": "float32", "threads": 1, "num_pages": 30} | options
    return load_runner(folder, **given)


@pytest.mark.usefixtures("on_gpu")
def test_fast_arithmetic_on_a_gpu_speculates_and_is_not_exact(tiny: Path) -> None:
    runner = load(tiny, gpu_arithmetic="fast")
    assert runner.why_fast is None
    assert runner.device_name == NAME
    assert runner.info.on_gpu
    assert runner.can_speculate
    assert not runner.exact


@pytest.mark.usefixtures("on_gpu")
def test_exact_arithmetic_on_a_gpu_without_its_compiler_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectrie.model.gpu.compiler", lambda: None)
    with pytest.raises(ConfigError, match=r"Triton, which is not installed: choose 'fast'"):
        load(tmp_path / "no model is here", gpu_arithmetic="exact")


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize("name", ["qwen3_moe", "mixtral"])
def test_a_mixture_of_experts_on_a_gpu_is_exact_and_recorded(name: str, tmp_path: Path) -> None:
    save_family(name, tmp_path)
    lines: list[str] = []
    runner = load(tmp_path, max_batch_rows=16, progress=lines.append)
    assert runner.exact
    assert runner.why_fast is None
    assert any("graphs" in line for line in lines)
    assert "checking that rows do not change one another's bits" in lines
    fast = load(tmp_path, max_batch_rows=16, gpu_arithmetic="fast")
    assert not fast.exact
    plan = StepPlan.single(tokens(12, 200), kv_len=0, pages=[3, 7])
    expected = load(tmp_path, device="cpu").forward(plan)
    for one in (runner, fast):
        torch.testing.assert_close(one.forward(plan), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("on_gpu")
def test_exact_arithmetic_on_a_gpu_is_exact_and_checked_at_the_start(tiny: Path) -> None:
    lines: list[str] = []
    runner = load(tiny, gpu_arithmetic="exact", progress=lines.append)
    assert runner.exact
    assert runner.can_speculate
    assert load(tiny).numeric_fingerprint == runner.numeric_fingerprint
    fast = load(tiny, gpu_arithmetic="fast", progress=lines.append)
    assert lines.count("checking that rows do not change one another's bits") == 1
    said = [line for line in lines if re.fullmatch(r"rows have .* in all steps: \d+\.\d s", line)]
    assert len(said) == 1
    assert runner.numeric_fingerprint == fast.numeric_fingerprint.replace("/fast/", "/exact/")


def test_unknown_arithmetic_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="gpu_arithmetic is 'quick'; allowed: auto, exact, fast"):
        load(tmp_path / "no model is here", gpu_arithmetic="quick")


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
def test_a_cpu_is_exact_whatever_is_asked_of_a_gpu(tiny: Path, arithmetic: str) -> None:
    runner = load(tiny, device="cpu", gpu_arithmetic=arithmetic)
    assert runner.exact
    assert runner.can_speculate
    assert not runner.info.on_gpu
    assert runner.numeric_fingerprint == load(tiny, device="cpu").numeric_fingerprint


def test_the_fingerprint_names_the_arithmetic_of_a_gpu(tiny: Path) -> None:
    on_cpu = load(tiny, device="cpu").numeric_fingerprint
    with simulated_gpu(), small_start():
        on_gpu = [load(tiny, gpu_arithmetic=name).numeric_fingerprint for name in ("exact", "fast")]
    assert "/exact/" in on_gpu[0]
    assert "/fast/" in on_gpu[1]
    assert len({on_cpu, *on_gpu}) == 3


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
def test_a_gpu_computes_what_a_cpu_does(tiny: Path, arithmetic: str) -> None:
    plan = StepPlan.single(
        tokens(12, 200), kv_len=0, pages=[3, 7], parents=[-1, 0, 0, 1, 1, 2, 3, 3, 3, 5, 5, 6]
    )
    expected = load(tiny, device="cpu").forward(plan)
    with simulated_gpu():
        computed = load(tiny, gpu_arithmetic=arithmetic).forward(plan)
        torch.testing.assert_close(computed, expected, rtol=1e-4, atol=1e-4)


def sizes_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each step of a GPU from now on, none of which may bring its logits to the host."""
    sizes: list[int] = []
    launch = Launcher.launch

    def counted(launcher: Launcher, plan: PlanArrays, wanted: Wanted, *others: Any) -> Launched:
        assert wanted is Wanted.LIKELIEST
        sizes.append(len(plan.row_token))
        return launch(launcher, plan, wanted, *others)

    monkeypatch.setattr(Launcher, "launch", counted)
    return sizes


SIZES = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]


@pytest.mark.usefixtures("on_gpu")
def test_costs_on_a_gpu_reach_to_the_largest_step(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectrie.model.runner.costs.CostTimer._times", run_once)
    sizes = sizes_of(monkeypatch)
    rows, times = load(tiny, num_pages=32, gpu_arithmetic="fast").measure_costs()
    assert rows == SIZES
    assert set(sizes) == set(SIZES)
    assert times == sorted(times)


@pytest.mark.usefixtures("on_gpu")
def test_a_step_is_timed_by_the_devices_clock_and_not_the_hosts(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What other tests measured of this model is kept in the folder that they share.
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path))
    for name in ("_COST_SECONDS", "_GAP_SECONDS"):
        monkeypatch.setattr(f"spectrie.model.runner.costs.{name}", 0.0)
    # Each reading of the host's clock is a second after the one before.
    monkeypatch.setattr("spectrie.model.runner.step_timer.time.perf_counter", count().__next__)
    runner = load(tiny, max_batch_rows=16, gpu_arithmetic="fast")
    # A copy, the step, and a copy back.
    by_device_ms, by_host_ms = 3 * WORK_MS, 1000.0
    plan = StepPlan.single([1, 2, 3], kv_len=0, pages=[0])
    assert runner._timer.of_device(plan) == by_device_ms
    assert runner._timer.of_host(plan) == by_host_ms
    rows, times = runner.measure_costs()
    assert times == [by_host_ms] * len(rows)
    assert runner._costs.gap(1) == by_host_ms - by_device_ms
    assert {runner._costs.time(size, 0.0) for size in rows} == {by_device_ms}


@pytest.mark.usefixtures("on_gpu")
def test_a_step_is_timed_while_the_host_has_nothing_to_do_with_it(tiny: Path) -> None:
    runner = load(tiny, max_batch_rows=16, gpu_arithmetic="fast")
    device = runner._decoder._device  # type: ignore[attr-defined]
    plan = StepPlan.single([1, 2, 3], kv_len=0, pages=[0])
    before = Counter(device.counts)
    runner._timer.of_device(plan)
    # Two steps: the second was launched before the first was waited for, and has its whole time.
    assert device.counts - before == Counter(replay=2, copy=4, event=2, wait=4)


def test_a_gpu_computes_every_size_before_it_serves(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = sizes_of(monkeypatch)
    with simulated_gpu():
        load(tiny, num_pages=32, gpu_arithmetic="fast").warm_up()
    assert sizes == SIZES
    load(tiny, device="cpu").warm_up()
    assert sizes == SIZES


@pytest.mark.usefixtures("on_gpu")
def test_requests_of_a_gpu_are_timed_on_pages_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectrie.model.runner.costs._COST_SECONDS", 0.0)
    folder = write_tiny_model(tmp_path / "long", max_context=1024)
    with small_start():
        loaded = load(folder, num_pages=8 * 64)
    plain: list[PlanArrays] = []

    class Recording:
        def forward(self, plan: PlanArrays, /) -> StepResult:
            if len(plan.request_kv_len) > 1:
                plain.append(plan)
            return loaded.step(plan)

        def set_threads(self, threads: int, /) -> None:
            loaded.set_threads(threads)

    runner = Runner(Recording(), loaded.info, Measurements(None), threads=1)
    cost = runner.measure_context_cost()
    # Tiles of 16 rows in float32, and two query heads of a node in each.
    assert cost.tile_rows == 8
    assert {len(plan.request_kv_len) for plan in plain} == {8}
    assert all(len(set(plan.page_ids.tolist())) == len(plan.page_ids) for plan in plain)
