"""Frozen traces come back as they were written, and a changed one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.draft import trace
from bench.draft.trace import Request


def test_requests_come_back_as_written(tmp_path: Path) -> None:
    requests = [
        Request([1, 2], [3], [4, 5], topk=[([6, 7], [0.5, 0.25])] * 3),
        Request([8], [9, 10]),
    ]
    trace.write(tmp_path / "a.jsonl.xz", requests)
    assert trace.read(tmp_path / "a.jsonl.xz") == requests


def test_changed_missing_and_added_traces_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        trace.write(tmp_path / f"{name}.jsonl.xz", [Request([1], [2])])
    trace.write_sums(tmp_path)
    trace.verify(tmp_path)
    (tmp_path / "a.jsonl.xz").unlink()
    trace.write(tmp_path / "b.jsonl.xz", [Request([1], [3])])
    trace.write(tmp_path / "c.jsonl.xz", [Request([1], [2])])
    with pytest.raises(ValueError, match=r"a\.jsonl\.xz, b\.jsonl\.xz, c\.jsonl\.xz differ"):
        trace.verify(tmp_path)


def test_committed_traces_are_those_that_were_frozen() -> None:
    trace.verify()
    size = sum(path.stat().st_size for path in trace.TRACES.iterdir())
    assert size <= 2_000_000
