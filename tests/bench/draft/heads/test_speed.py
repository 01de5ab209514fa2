"""Results of earlier runs stay, each with its commit, where the machine is the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.draft.heads.speed import measured_before
from bench.support import report

FACTS = {"cpu": "a", "cores": 2, "torch": "2", "commit": "new"}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of results of an earlier commit."""
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    path = tmp_path / "draft" / "head_speed_many.json"
    path.parent.mkdir()
    found = {
        "edits, 8": {"ratio": 1.0},
        "routing, 8": {"ratio": 1.1, "commit": "older"},
        "edits, 1": {"ratio": 1.2},
        "unknown, 8": {"ratio": 1.3},
    }
    path.write_text(json.dumps({"machine": FACTS | {"commit": "old"}, "results": found}))
    return path


def test_what_an_earlier_run_measured_has_its_commit(results: Path) -> None:
    assert measured_before("head_speed_many", FACTS) == {
        ("edits", 8): {"ratio": 1.0, "commit": "old"},
        ("routing", 8): {"ratio": 1.1, "commit": "older"},
    }


@pytest.mark.parametrize("fact", [{"cpu": "b"}, {"cores": 4}, {"torch": "3"}])
def test_what_another_machine_measured_is_left_out(results: Path, fact: dict[str, object]) -> None:
    assert measured_before("head_speed_many", FACTS | fact) == {}


def test_where_nothing_was_measured_nothing_is_kept(results: Path) -> None:
    assert measured_before("head_speed", FACTS) == {}
