"""The result file of a device holds every result as soon as there is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.running.record import Record


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def test_every_row_is_on_the_disk_before_the_next(tmp_path: Path) -> None:
    record = Record(tmp_path / "new", "NVIDIA H100 80GB", "smoke", "abc")
    assert record.path.name == "gpu-nvidia-h100-80gb.json"
    assert read(record.path)["stages"] == [{"stage": "smoke", "commit": "abc", "rows": []}]
    record.add("forms", "a", "ok", seconds=0.25, values={"registers": 3})
    row = {"check": "forms", "name": "a", "state": "ok", "seconds": 0.25}
    assert read(record.path)["stages"][0]["rows"] == [row | {"values": {"registers": 3}}]
    record.add("forms", "b", "fault", error="it failed")
    assert [one["name"] for one in read(record.path)["stages"][0]["rows"]] == ["a", "b"]
    assert [fault["error"] for fault in record.faults] == ["it failed"]


def test_a_stage_replaces_its_own_rows_alone_and_facts_stay(tmp_path: Path) -> None:
    first = Record(tmp_path, "d", "smoke", "1")
    first.add("device", "facts", "ok", values={"name": "d"})
    first.add("device", "copy", "fault", values={"rate": 1}, error="no")
    Record(tmp_path, "d", "other", "1").add("x", "y", "ok")
    again = Record(tmp_path, "d", "smoke", "2")
    content = read(again.path)
    assert content["device"] == {"name": "d"}
    assert [(one["stage"], one["commit"], len(one["rows"])) for one in content["stages"]] == [
        ("other", "1", 1),
        ("smoke", "2", 0),
    ]


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_file_that_is_no_result_is_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "gpu-unknown.json").write_text(content, encoding="utf-8")
    record = Record(tmp_path, "", "smoke", None)
    assert read(record.path)["stages"] == [{"stage": "smoke", "commit": None, "rows": []}]
