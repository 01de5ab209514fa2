"""Whatever an item does, its fault is recorded and the others run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.gpu.check import Check, Settings
from bench.gpu.running.record import Record
from bench.gpu.running.supervisor import Supervisor

ROOT = Path(__file__).resolve().parents[4]
PATHS = [str(ROOT), str(ROOT / "python"), str(ROOT / "kernels")]
SETTINGS = Settings(dry=True, scratch="", model=None, tests=())


def rows_of(tmp_path: Path, function: str, seconds: float) -> Record:
    record = Record(tmp_path, "dry", "smoke", None)
    check = Check("planted", f"tests.bench.gpu.running.planted:{function}")
    with Supervisor(SETTINGS, record, PATHS, item_limit_s=2.0) as supervisor:
        supervisor.run(check, time.monotonic() + seconds)
    return record


def test_an_item_that_ends_its_process_ends_no_check(tmp_path: Path) -> None:
    record = rows_of(tmp_path, "items", seconds=200)
    rows = {row["name"]: row for row in record.rows}
    assert [(row["name"], row["state"]) for row in record.rows] == [
        ("first", "ok"),
        ("raises", "fault"),
        ("contradicts", "fault"),
        ("same process", "ok"),
        ("is killed", "fault"),
        ("exits", "fault"),
        ("hangs", "fault"),
        ("last", "ok"),
    ]
    assert rows["raises"]["error"].startswith("ValueError: planted\n")
    assert rows["contradicts"]["error"] == "planted: 3 rows differ"
    assert rows["contradicts"]["values"] == {"rows": 3}
    assert rows["is killed"]["error"].startswith("its process ended with code -9")
    assert rows["exits"]["error"].startswith("its process ended with code 7")
    assert rows["hangs"]["error"].startswith("no result in 2 seconds")
    assert rows["first"]["values"] == rows["same process"]["values"]
    assert rows["first"]["values"]["process"] != rows["last"]["values"]["process"]


def test_a_check_without_a_first_item_is_a_fault_and_is_not_tried_again(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, "broken", seconds=200).rows
    assert (row["name"], row["state"]) == ("start", "fault")
    assert "planted before any item" in row["error"]


def test_no_item_begins_after_the_end_of_the_stage(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, "items", seconds=0).rows
    assert (row["name"], row["state"]) == ("first", "skipped")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
