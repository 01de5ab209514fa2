"""Bigrams in idle time: how much at once, when the engine hears of them, and what is kept."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spectrie import _core
from spectrie.engine import idle_bigrams
from spectrie.engine.idle_bigrams import NUM_PARTS, IdleBigrams, slice_tokens, waited_s
from spectrie.model.files.bigram_files import bigrams_file
from tests.worker.scripted import VOCABULARY_SIZE, CountingRunner


class RecordingEngine:
    """Keeps how many rows the tables had that it was given."""

    def __init__(self) -> None:
        self.known: list[int] = []

    def feature_plan(self) -> None:
        """There is no drafter."""

    def scratch_pages(self, count: int) -> list[int]:
        return list(range(count))

    def set_bigrams(self, table: _core.Bigrams) -> None:
        self.known.append(table.num_known)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path))
    # Independent of other load on this machine.
    monkeypatch.setattr(idle_bigrams, "waited_s", lambda: 0.0)


def start(engine: RecordingEngine, runner: CountingRunner | None = None) -> IdleBigrams:
    any_engine: Any = engine
    any_runner: Any = runner or CountingRunner()
    return IdleBigrams(any_engine, any_runner)


def stored() -> _core.Bigrams | None:
    path = bigrams_file(CountingRunner.model_hash)
    if path is None or not path.exists():
        return None
    return _core.Bigrams.open(path, CountingRunner.model_hash)


@pytest.mark.parametrize(
    ("milliseconds", "tokens"),
    [
        ([10.0, 11.0, 12.0, 20.0], 63),
        ([10.0, 11.0, 50.0, 90.0], 15),
        ([30.0, 40.0, 60.0, 90.0], 8),
        ([30.0, 49.0, 55.0, 90.0], 3),
        ([300.0, 310.0, 320.0, 400.0], 1),
    ],
)
def test_a_slice_takes_fifty_milliseconds_or_holds_one_token(
    milliseconds: list[float], tokens: int
) -> None:
    assert slice_tokens([1, 2, 16, 64], milliseconds) == tokens


def test_a_slice_has_no_more_rows_than_were_measured() -> None:
    assert slice_tokens([1, 2, 4, 8], [1.0, 1.0, 1.0, 1.0]) == 7


def test_the_engine_is_given_the_growing_table_and_the_whole_one_is_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(idle_bigrams, "SLICE_MS", 0.0)
    caplog.set_level(logging.INFO)
    engine = RecordingEngine()
    idle = start(engine)
    slices = 0
    while idle.step():
        slices += 1
    assert slices == VOCABULARY_SIZE
    part = -(-VOCABULARY_SIZE // NUM_PARTS)
    assert engine.known == [*range(part, VOCABULARY_SIZE, part), VOCABULARY_SIZE]
    idle.close()
    table = stored()
    assert table is not None and table.num_known == VOCABULARY_SIZE
    lines = [record.message for record in caplog.records]
    assert lines[0] == f"computing the model's bigrams in idle time, {VOCABULARY_SIZE} tokens"
    assert lines[1].startswith("computed the model's bigrams in ")
    assert len(lines) == 2


def test_slices_that_hold_others_up_are_followed_by_longer_and_longer_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now=100.0, waited=0.0)
    times = SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr(idle_bigrams, "time", times)
    monkeypatch.setattr(idle_bigrams, "waited_s", lambda: clock.waited)
    runner = CountingRunner()
    share = 0.5

    def take_a_second() -> None:
        clock.now += 1.0
        clock.waited += share

    runner.gate = take_a_second
    idle = start(RecordingEngine(), runner)
    monkeypatch.setattr(idle, "_slice_tokens", 1)

    def rest() -> float:
        began: float = clock.now
        while not idle.step():
            clock.now += 0.25
        return float(clock.now) - 1.0 - began

    assert [rest() for _ in range(7)] == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 16.0]
    share = 0.1
    assert [rest() for _ in range(6)] == [16.0, 8.0, 4.0, 2.0, 1.0, 0.0]


def test_time_without_a_core_is_told_and_never_falls() -> None:
    first = waited_s()
    assert first >= 0.0
    assert waited_s() >= first


def test_what_was_computed_is_kept_at_the_end_and_drafted_from_at_the_next_start() -> None:
    first = start(RecordingEngine())
    assert first.step()
    first.close()
    assert not first.step()
    table = stored()
    assert table is not None and 0 < table.num_known < VOCABULARY_SIZE
    engine = RecordingEngine()
    start(engine).close()
    assert engine.known == [table.num_known]


def test_a_complete_table_leaves_nothing_to_compute() -> None:
    first = start(RecordingEngine())
    while first.step():
        pass
    first.close()
    runner = CountingRunner()
    runner.gate = lambda: pytest.fail("computed again")
    engine = RecordingEngine()
    assert not start(engine, runner).step()
    assert engine.known == [VOCABULARY_SIZE]


def test_a_damaged_file_is_told_in_one_line_and_computed_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = bigrams_file(CountingRunner.model_hash)
    assert path is not None
    path.parent.mkdir()
    path.write_bytes(b"SPBIGRAM and no more")
    idle = start(RecordingEngine())
    (line,) = [record.message for record in caplog.records]
    assert line.startswith("the model's bigrams are computed again") and str(path) in line
    while idle.step():
        pass
    idle.close()
    table = stored()
    assert table is not None and table.num_known == VOCABULARY_SIZE


def test_a_forward_that_fails_ends_the_computing_alone(caplog: pytest.LogCaptureFixture) -> None:
    runner = CountingRunner()
    engine = RecordingEngine()
    idle = start(engine, runner)
    assert idle.step()

    def broken() -> None:
        raise RuntimeError("no memory left")

    runner.gate = broken
    idle.step()
    assert "not computed any further" in caplog.text
    assert not idle.step()
    idle.close()
    table = stored()
    assert table is not None and table.num_known == 15


def test_a_folder_that_cannot_be_written_costs_the_file_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "bigrams").write_text("in the way")
    engine = RecordingEngine()
    idle = start(engine)
    while idle.step():
        pass
    idle.close()
    assert engine.known[-1] == VOCABULARY_SIZE
    assert "a restart computes them again" in caplog.text
