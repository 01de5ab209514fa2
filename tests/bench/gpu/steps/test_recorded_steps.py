"""Recorded work, pinned memory and early starts, on a device; without one on what stands in for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bench.gpu.models.random_model import write_random_model
from bench.gpu.models.shapes import TINY
from bench.gpu.simulated import NAME, simulated_gpu, small_start
from spectrie.model import Runner, load_runner
from spectrie.model.launch.launcher import Launcher
from spectrie.model.plan import StepPlan
from spectrie.model.runner.step_profile import decoding_plan
from spectrie.model.step.wanted import Wanted

ON_GPU = pytest.param(
    "cuda",
    marks=[
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ],
)


@pytest.fixture(scope="module", params=["simulated", ON_GPU])
def runner(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Runner]:
    folder = write_random_model(tmp_path_factory.mktemp("model"), TINY, max_context=256)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(tmp_path_factory.mktemp("cache")))
        if request.param == "cuda":
            yield load_runner(folder, device="cuda", num_pages=64)
            return
        with simulated_gpu(), small_start():
            yield load_runner(folder, device="cuda", dtype="float32", num_pages=64)


def launcher_of(runner: Runner) -> Any:
    assert isinstance(runner._decoder, Launcher)
    return runner._decoder


def plans(runner: Runner) -> list[StepPlan]:
    """Of fewer rows than their bucket, and of as many."""
    return [
        decoding_plan(runner, requests=requests, rows=rows, context=20)
        for requests, rows in ((1, 1), (1, 3), (2, 4))
    ]


def test_recorded_work_gives_the_bytes_of_its_launches(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for plan in plans(runner):
        logits = runner.launch(plan, Wanted.LOGITS).wait().logits.clone()
        tokens = runner.launch(plan, Wanted.LIKELIEST).wait().tokens
        with monkeypatch.context() as patch:
            patch.setattr(launcher_of(runner), "_graphs", None)
            eager = runner.launch(plan, Wanted.LOGITS).wait().logits.clone()
        if runner.device_name == NAME:
            # Plain torch rounds a padded step otherwise.
            torch.testing.assert_close(logits, eager, rtol=1e-3, atol=1e-3)
        else:
            assert torch.equal(logits.view(torch.int32), eager.view(torch.int32))
        assert tokens is not None and tokens.tolist() == eager.argmax(dim=1).tolist()


def test_a_step_that_starts_early_takes_the_tokens_of_the_one_before(runner: Runner) -> None:
    first = decoding_plan(runner, requests=1, rows=1, context=20)
    pages = list(range(4))

    def after(token: int) -> StepPlan:
        return StepPlan.single([token], kv_len=21, pages=pages, page_size=runner.page_size)

    launched = runner.launch(first, Wanted.LIKELIEST)
    early = runner.launch(after(-2), Wanted.LIKELIEST, behind=launched)
    tokens = launched.wait().tokens
    assert tokens is not None
    expected = runner.launch(after(int(tokens[0])), Wanted.LIKELIEST).wait().tokens
    taken = early.wait().tokens
    assert taken is not None and expected is not None
    assert np.array_equal(taken, expected)


def test_memory_of_steps_is_pinned_and_events_come(runner: Runner) -> None:
    device = launcher_of(runner)._device
    memory = device.pinned(8)
    assert memory.is_pinned() == torch.cuda.is_available()
    source = torch.arange(8, dtype=torch.int32, device=launcher_of(runner)._operators.device)
    device.copy(memory, source)
    done = device.event()
    done.record()
    done.wait()
    assert done.is_reached and memory.tolist() == list(range(8))


def test_a_step_has_a_time_by_the_devices_clock(runner: Runner) -> None:
    plan = decoding_plan(runner, requests=1, rows=3, context=20)
    assert runner._timer.has_device_clock
    assert 0.0 < runner._timer.of_device(plan) < float("inf")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_launching_a_recorded_step_allocates_nothing_and_waits_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    folder = write_random_model(tmp_path / "model", TINY, max_context=256)
    loaded = load_runner(folder, device="cuda", num_pages=64)

    def allocated() -> int:
        return int(torch.cuda.memory_stats()["allocation.all.allocated"])

    for plan in plans(loaded):
        loaded.launch(plan, Wanted.LIKELIEST).wait()
        before = allocated()
        # Whatever of torch waits for the device raises.
        torch.cuda.set_sync_debug_mode("error")
        try:
            launched = loaded.launch(plan, Wanted.LIKELIEST)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert allocated() == before
        launched.wait()
