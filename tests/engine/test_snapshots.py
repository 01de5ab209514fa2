"""Snapshots: when they are taken, and what a failure does."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spectrie import _core
from spectrie.engine.snapshots import Snapshots

WAIT_S = 60.0


class ScriptedEngine:
    """Records calls; `error` is what the next ones raise."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.saved = threading.Semaphore(0)
        self.error: Exception | None = None
        self.damage: str | None = None

    def save(self, folder: str, fingerprint: str) -> Any:
        self.calls.append(f"save {Path(folder).name} {fingerprint}")
        self.saved.release()
        return self._answer()

    def restore(self, folder: str, fingerprint: str) -> Any:
        self.calls.append(f"restore {Path(folder).name} {fingerprint}")
        return self._answer()

    def _answer(self) -> Any:
        if self.error is not None:
            raise self.error
        return SimpleNamespace(
            num_tokens=7,
            num_namespaces=1,
            bytes=100,
            written_bytes=40,
            damaged_runs=0,
            damaged_tokens=0,
            first_damage=self.damage,
        )


def start(engine: ScriptedEngine, folder: Path, every_s: float) -> Snapshots:
    any_engine: Any = engine
    snapshots = Snapshots(any_engine, folder / "draft", "abc", every_s)
    snapshots.start()
    return snapshots


def test_memory_is_restored_first_and_saved_once_at_the_end(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    snapshots = start(engine, tmp_path, 0)
    assert engine.calls == ["restore draft abc"]
    snapshots.close()
    snapshots.close()
    assert engine.calls == ["restore draft abc", "save draft abc"]


def test_memory_is_saved_again_and_again_although_saving_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = ScriptedEngine()
    engine.error = _core.EngineError("no room on the disk")
    snapshots = start(engine, tmp_path, 0.001)
    for _ in range(3):
        assert engine.saved.acquire(timeout=WAIT_S)
    snapshots.close()
    assert engine.calls[-1] == "save draft abc"
    assert "draft memory starts empty: no room on the disk" in caplog.text
    assert "draft memory was not saved" in caplog.text


def test_what_is_lost_and_what_is_written_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = ScriptedEngine()
    engine.damage = "part-00000003: 256 cells from byte 80 on are damaged"
    with caplog.at_level("INFO", logger="spectrie.worker"):
        snapshots = start(engine, tmp_path, 0)
        snapshots.close()
    assert f"first: {engine.damage}" in caplog.text
    assert "restored draft memory: 7 tokens of 1 namespaces" in caplog.text
    assert "7 tokens of 1 namespaces, 40 bytes written" in caplog.text
