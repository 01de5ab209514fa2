"""After hours of random traffic everything is as before it: pages, requests, memory."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from spectrie.engine.options import EngineOptions
from spectrie.llm import LLM
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.heads import write_tiny_head
from tests.soak.traffic import Traffic
from tests.tiny_model import write_tiny_model
from tests.waiting import wait_until

SHORT_S = 15.0
LONG_S = float(os.environ.get("SPECTRIE_SOAK_SECONDS", "1200"))
MEMORY_BYTES = 8 << 20
ENDS_WITHIN_S = 30.0
SCARCE_PAGES = 64
"""1024 tokens: the longest requests of a few callers do not fit side by side."""
GROWTH_BYTES = 16 << 20
"""What memory may differ by after a warm-up: allocators keep some."""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is measured of tiny models stays out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


def resident_bytes() -> int:
    gc.collect()
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    pytest.skip("the system does not tell resident memory")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def settle(llm: LLM) -> None:
    """Waits until the engine has seen that all callers are gone."""
    wait_until(
        lambda: not llm.load().running + llm.load().waiting,
        ENDS_WITHIN_S,
        lambda: "requests still run",
    )


def assert_none_left(before: set[threading.Thread]) -> None:
    """Threads that began since have ended, or do so now: idle time still computes and saves bigrams."""

    def begun() -> list[str]:
        # A thread that is about to begin is listed too, though it cannot be joined yet.
        return [thread.name for thread in set(threading.enumerate()) - before]

    wait_until(lambda: not begun(), ENDS_WITHIN_S, lambda: f"{begun()} still run")


def assert_closed(before: int) -> None:
    """No more files are open than before, once idle work has read what it reads."""
    wait_until(
        lambda: open_files() <= before,
        ENDS_WITHIN_S,
        lambda: f"{open_files()} files are open, {before} before",
    )


def soak(folder: Path, seconds: float, drafter: Path | None = None) -> None:
    # With room for what they will grow by, requests would never lose their pages.
    options = partial(EngineOptions, lookahead_tokens=0)
    with (
        mock.patch("spectrie.llm.settings.EngineOptions", options),
        LLM(
            folder,
            dtype="float32",
            threads=1,
            num_pages=SCARCE_PAGES,
            max_running=12,
            memory_bytes=MEMORY_BYTES,
            # A forward of so small a model takes no longer than a draft.
            drafting_cost_ms=0.0,
            drafter="off" if drafter is None else str(drafter),
        ) as llm,
        LLM(folder, dtype="float32", threads=1, num_pages=64, speculation=False) as alone,
    ):
        traffic = Traffic(llm, alone)
        traffic.run(min(seconds / 4, 60.0))
        settle(llm)
        before, threads, files = resident_bytes(), set(threading.enumerate()), open_files()
        traffic.run(seconds)
        settle(llm)
        grown = resident_bytes() - before
        assert_none_left(threads)
        assert_closed(files)
        load, tally = llm.load(), traffic.tally
    assert tally.wrong == []
    assert tally.failures == []
    assert (load.running, load.waiting, load.pages_used) == (0, 0, 0)
    assert load.memory_bytes <= MEMORY_BYTES
    assert grown <= GROWTH_BYTES
    # Without these nothing would have been tried.
    assert load.preemptions > 0
    assert (load.head_levels > 0) == (drafter is not None)
    assert tally.cached_tokens > 0 and tally.accepted_tokens > 0
    assert all(tally.ends[how] > 0 for how in ("answered", "left", "late", "compared"))


def test_short_traffic_leaves_nothing_behind(folder: Path) -> None:
    soak(folder, SHORT_S)


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_long_traffic_leaves_nothing_behind(folder: Path) -> None:
    soak(folder, LONG_S)


@pytest.fixture(params=["head", "itself"])
def drafter(
    request: pytest.FixtureRequest, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A random head, and the model itself."""
    make_levels_cheap(monkeypatch)
    return folder if request.param == "itself" else write_tiny_head(tmp_path / "head")


def test_short_traffic_with_a_drafter_leaves_nothing_behind(folder: Path, drafter: Path) -> None:
    soak(folder, SHORT_S / 3, drafter)


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_long_traffic_with_a_drafter_leaves_nothing_behind(folder: Path, drafter: Path) -> None:
    soak(folder, LONG_S / 2, drafter)
