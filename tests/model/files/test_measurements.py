"""Results of measurements outlive a process; rough ones do for busy machines, for a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectrie.model.files.measurements import Measurements


def test_results_are_found_by_the_next_process_beside_those_of_others(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "measurements.json"
    one, other = Measurements(path), Measurements(path)
    one.put("times", [1.0, 2.0])
    other.put("threads", 2)
    found = Measurements(path)
    assert (found.get("times"), found.get("threads"), found.get("none")) == ([1.0, 2.0], 2, None)
    assert found.items("t") == [("threads", 2), ("times", [1.0, 2.0])]
    path.write_text("{")
    assert Measurements(path).get("times") is None


def test_rough_results_do_for_busy_machines_for_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 1000.0
    monkeypatch.setattr("spectrie.model.files.measurements.time.time", lambda: clock)
    path = tmp_path / "measurements.json"
    Measurements(path).put("times", [9.0], is_rough=True)
    # Another process that is busy too; a quiet one measures, and replaces nothing before it has.
    found = Measurements(path)
    assert found.get("times", is_busy=lambda: True) == [9.0]
    assert found.get("times") is None
    assert found.items("times") == []
    clock += 3601.0
    assert found.get("times", is_busy=lambda: True) is None
    clock -= 3602.0
    assert found.get("times", is_busy=lambda: True) is None
    clock = 1000.0
    found.put("times", [1.0])
    found.put("times", [8.0], is_rough=True)
    # Where there is a quiet one, nobody waits for what the machine does now.
    assert Measurements(path).get("times", is_busy=lambda: pytest.fail("asked")) == [1.0]


def test_rough_results_that_cannot_be_read_count_as_none(tmp_path: Path) -> None:
    path = tmp_path / "measurements.json"
    path.write_text('{"while busy: a": 3, "while busy: b": {"answer": 2}}')
    found = Measurements(path)
    assert (
        found.get("a", is_busy=lambda: True) is None
        and found.get("b", is_busy=lambda: True) is None
    )
