"""What a host decides about its engine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import spectrie.model
from spectrie.engine.config import EngineOptions, RunnerOptions
from spectrie.engine.host import EngineHost, overlaps
from spectrie.errors import ConfigError
from spectrie.model import machine
from tests.worker.scripted import CountingRunner

CORES = machine.num_cores()


def runner(device_name: str, threads: int) -> Any:
    return SimpleNamespace(device_name=device_name, threads=threads)


@pytest.mark.parametrize(
    ("wish", "device_name", "threads", "expected"),
    [
        ("auto", "cpu", CORES, False),
        ("auto", "cpu", CORES - 1, True),
        ("auto", "NVIDIA H200", CORES, True),
        ("on", "cpu", CORES, True),
        ("off", "NVIDIA H200", 1, False),
    ],
)
def test_learning_overlaps_where_it_takes_the_model_no_core(
    wish: str, device_name: str, threads: int, expected: bool
) -> None:
    assert overlaps(EngineOptions(overlap=wish), runner(device_name, threads)) is expected


def test_other_wishes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"overlap is .maybe., allowed: auto, on, off"):
        overlaps(EngineOptions(overlap="maybe"), runner("cpu", 1))


@pytest.mark.parametrize("exact", [True, False])
def test_a_model_on_a_gpu_logs_why_it_drafts_nothing(
    exact: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class OnGpu(CountingRunner):
        pass

    OnGpu.exact = exact
    monkeypatch.setattr(spectrie.model, "load_runner", lambda *_, **__: OnGpu(), raising=False)
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path))
    host = EngineHost(
        tmp_path,
        runner=RunnerOptions(),
        engine=EngineOptions(),
        deliver=lambda output: None,
        on_death=lambda error: None,
    )
    host.close()
    assert (machine.PLAIN_ON_GPU in caplog.messages) is not exact
    assert host.speculation == ("auto" if exact else "off")
