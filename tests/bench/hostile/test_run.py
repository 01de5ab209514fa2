"""The table of the hostile run says what was counted."""

from __future__ import annotations

from typing import Any

import pytest

from bench.hostile.run import percentile, table


def outcome(**changes: Any) -> dict[str, Any]:
    return {
        "tokens": [[1, 2], [3]],
        "first_ms": [float(value) for value in range(1, 201)],
        "between_ms": [5.0] * 200,
        "draft_budget": 64 << 20,
        "draft_bytes": 64 << 20,
        "rest_bytes_before": 1_000 << 20,
        "rest_bytes": 1_000 << 20,
    } | changes


def verdicts(**changes: Any) -> dict[str, str]:
    return {row[0]: row[-1] for row in table(outcome(), outcome(**changes))}


def test_a_run_like_the_other_meets_every_limit() -> None:
    assert set(verdicts().values()) == {"met", ""}


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({"tokens": [[1, 2], [4]]}, "answers that differ"),
        ({"first_ms": [250.0] * 200}, "first token, p99, ms"),
        ({"between_ms": [5.0] * 190 + [50.0] * 10}, "between tokens, p99, ms"),
        ({"draft_bytes": 128 << 20}, "draft memory at most, MB; ratio to its budget"),
        ({"rest_bytes": 1_101 << 20}, "resident memory without it, most over start"),
    ],
)
def test_each_limit_can_be_missed(changes: dict[str, Any], row: str) -> None:
    found = verdicts(**changes)
    assert found[row] == "missed"
    assert [verdict for verdict in found.values() if verdict == "missed"] == ["missed"]


def test_a_percentile_is_exceeded_by_its_part_alone() -> None:
    assert percentile([float(value) for value in range(101)], 99) == pytest.approx(99.0)
