"""The table "where to change what" of CONTRIBUTING covers the usual changes and names real files."""

from __future__ import annotations

import re

import pytest

from tests.docs.markdown import ROOT, tables

TABLE = tables((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))[-1]


def test_the_last_table_says_what_to_open() -> None:
    assert TABLE[0] == ["to change", "open"]


@pytest.mark.parametrize("row", TABLE[1:], ids=lambda row: row[0])
def test_each_file_to_open_exists(row: list[str]) -> None:
    files = re.findall(r"`([^`]+)`", row[1])
    assert files
    assert [file for file in files if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize(
    "change",
    [
        "a sampling option",
        "preempted",
        "a draft source",
        "a field of `/v1/chat/completions`",
        "how a page is evicted",
        "a model family",
    ],
)
def test_usual_changes_are_in_the_table(change: str) -> None:
    assert any(change in row[0] for row in TABLE[1:])
