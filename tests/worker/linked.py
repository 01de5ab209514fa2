"""A worker that is linked to a scripted router."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spectrie.model
from spectrie.engine.host import EngineHost
from spectrie.engine.options import EngineOptions
from spectrie.worker.config import LinkOptions
from spectrie.worker.link import RouterLink
from tests.worker.scripted import WAIT_S, CountingRunner, Hub

__all__ = ["Gate", "Worker", "folder", "hub", "worker"]


class Worker:
    """A host and its link, without a process around them."""

    def __init__(
        self,
        folder: Path,
        target: str,
        token: str | None = None,
        backoff_s: float = 0.05,
        max_backoff_s: float = 0.1,
    ) -> None:
        self.deaths: list[BaseException] = []
        """What ended the link."""
        self.drains: list[float | None] = []
        """The grace of each drain that the router asked for."""
        options = LinkOptions(
            target=target, token=token, backoff_s=backoff_s, max_backoff_s=max_backoff_s
        )
        self.link = RouterLink(options, "counting", self.deaths.append, self.drains.append)
        self.host = EngineHost(
            folder,
            options=EngineOptions(holdout_every=0),
            deliver=self.link.deliver,
            on_death=lambda error: None,
        )
        self.link.start(self.host)

    @property
    def runner(self) -> Any:
        """What stands in for the model."""
        return self.host.runner

    def close(self) -> None:
        """Hangs up, then ends the host."""
        self.link.close()
        self.host.close()


class Gate:
    """Holds the forward until opened, `steps` at a time."""

    def __init__(self, worker: Worker) -> None:
        self._permits = threading.Semaphore(0)
        self._runner = worker.runner
        self._runner.gate = self._wait

    def _wait(self) -> None:
        assert self._permits.acquire(timeout=WAIT_S)

    def let(self, steps: int) -> None:
        """Lets so many through."""
        for _ in range(steps):
            self._permits.release()

    def open(self) -> None:
        """Lets all through from now on."""
        self._runner.gate = lambda: None
        self.let(1000)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's folder, and a runner that counts instead of its own."""
    monkeypatch.setattr(
        spectrie.model, "load_runner", lambda *_, **__: CountingRunner(), raising=False
    )
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A router."""
    hub = Hub()
    yield hub
    hub.close()


@pytest.fixture
def worker(folder: Path, hub: Hub) -> Iterator[Worker]:
    """A worker that has joined it."""
    worker = Worker(folder, hub.target, token="s3cret")
    assert hub.connected.acquire(timeout=WAIT_S)
    yield worker
    worker.close()
