"""Results of earlier runs stay, each with its commit, where all else is the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.draft.heads.speed import measured_before
from bench.support import report

FACTS = {
    "cpu": "a",
    "drafter": "auto",
    "date": "today",
    "commit": "new",
    "uncommitted_changes": False,
}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of results of an earlier commit."""
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    path = tmp_path / "draft" / "head_speed_many.json"
    path.parent.mkdir()
    write(path)
    return path


def write(path: Path, **facts: object) -> None:
    found = {"edits, 8": {"ratio": 1.0}, "routing, 8": {"ratio": 1.1, "commit": "older"}}
    then = FACTS | {"commit": "old", "date": "yesterday"} | facts
    path.write_text(json.dumps({"machine": then, "results": found}))


def test_what_an_earlier_run_measured_has_its_commit(results: Path) -> None:
    assert measured_before("head_speed_many", FACTS) == {
        "edits, 8": {"ratio": 1.0, "commit": "old"},
        "routing, 8": {"ratio": 1.1, "commit": "older"},
    }


@pytest.mark.parametrize("fact", [{"cpu": "b"}, {"drafter": "other"}, {"engines": 3}])
def test_what_was_measured_elsewhere_or_otherwise_is_left_out(
    results: Path, fact: dict[str, object]
) -> None:
    assert measured_before("head_speed_many", FACTS | fact) == {}


def test_what_a_tree_with_changes_gave_is_left_out(results: Path) -> None:
    write(results, uncommitted_changes=True)
    assert measured_before("head_speed_many", FACTS | {"uncommitted_changes": True}) == {}


def test_where_nothing_was_measured_nothing_is_kept(results: Path) -> None:
    assert measured_before("head_speed", FACTS) == {}
