"""What a host decides about its engine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import spectrie.model
from spectrie.engine.host import EngineHost, overlaps
from spectrie.engine.limits import chunk_tokens, draft_threads, max_running
from spectrie.engine.options import EngineOptions
from spectrie.errors import ConfigError
from spectrie.model import machine
from tests.worker.scripted import CountingRunner

CORES = machine.num_cores()


def runner(device_name: str, threads: int) -> Any:
    return SimpleNamespace(device_name=device_name, threads=threads)


@pytest.mark.parametrize(
    ("device_name", "rows", "pages", "running", "chunk"),
    [
        ("cpu", 512, 100_000, 64, 256),
        ("cpu", 512, 100, 6, 256),
        ("NVIDIA H200", 4096, 100_000, 256, 2048),
        ("NVIDIA H200", 4096, 100, 6, 2048),
        ("NVIDIA H200", 512, 100_000, 256, 512),
    ],
)
def test_what_is_done_at_once_follows_from_the_device(
    device_name: str, rows: int, pages: int, running: int, chunk: int
) -> None:
    loaded: Any = SimpleNamespace(device_name=device_name, max_batch_rows=rows, num_pages=pages)
    assert max_running(EngineOptions(), loaded) == running
    assert chunk_tokens(EngineOptions(), loaded) == chunk
    asked = EngineOptions(max_running=3, chunk_tokens=48)
    assert (max_running(asked, loaded), chunk_tokens(asked, loaded)) == (3, 48)


@pytest.mark.parametrize(
    ("device_name", "cores", "expected"),
    [("cpu", 16, 1), ("NVIDIA H200", 1, 1), ("NVIDIA H200", 4, 4), ("NVIDIA H200", 96, 8)],
)
def test_several_threads_draft_where_they_take_the_model_no_core(
    device_name: str, cores: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "num_cores", lambda: cores)
    assert draft_threads(runner(device_name, 1)) == expected


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
    wish: Any, device_name: str, threads: int, expected: bool
) -> None:
    assert overlaps(EngineOptions(overlap=wish), runner(device_name, threads)) is expected


def test_everything_wrong_with_options_is_named_before_a_model_is_loaded(tmp_path: Path) -> None:
    options: Any = {"overlap": "maybe", "dtype": "int8", "threads": 0, "max_depth": 64}
    with pytest.raises(ConfigError) as caught:
        EngineHost(
            tmp_path / "no model is here",
            options=EngineOptions(**options),
            deliver=lambda output: None,
            on_death=lambda error: None,
        )
    assert sorted(str(caught.value).splitlines()) == [
        'dtype is "int8"; allowed: auto, float32, bfloat16, float16',
        "max_depth is 64; allowed: 1 to 63",
        'overlap is "maybe"; allowed: auto, on, off',
        "threads is 0; allowed: 1 or more",
    ]


@pytest.mark.parametrize("exact", [True, False])
def test_a_model_that_is_not_exact_drafts_at_its_measured_costs_and_says_so(
    exact: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    measured: list[str] = []

    class OnGpu(CountingRunner):
        device_name = "some GPU"

        def measure_costs(self) -> tuple[list[int], list[float]]:
            measured.append("rows")
            return super().measure_costs()

    OnGpu.exact = exact
    OnGpu.why_fast = None if exact else "it is some model"
    monkeypatch.setattr(spectrie.model, "load_runner", lambda *_, **__: OnGpu(), raising=False)
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path))
    host = EngineHost(
        tmp_path,
        options=EngineOptions(bigrams="off"),
        deliver=lambda output: None,
        on_death=lambda error: None,
    )
    host.close()
    warning = f"some GPU: {machine.FAST_ON_GPU} (not exact, since it is some model)"
    assert (warning in caplog.messages) is not exact
    assert host.speculation == "auto"
    assert host.can_speculate
    assert measured == ["rows"]


def test_a_model_that_cannot_verify_drafts_decodes_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Plain(CountingRunner):
        can_speculate = False

    monkeypatch.setattr(spectrie.model, "load_runner", lambda *_, **__: Plain(), raising=False)
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path))
    host = EngineHost(
        tmp_path,
        options=EngineOptions(),
        deliver=lambda output: None,
        on_death=lambda error: None,
    )
    host.close()
    assert host.speculation == "off"
