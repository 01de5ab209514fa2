"""The table of the hostile run says what was counted."""

from __future__ import annotations

from typing import Any

import pytest

from bench.hostile.child import Options
from bench.hostile.run import note, percentile, table


def outcome(**changes: Any) -> dict[str, Any]:
    return {
        "tokens": [[1, 2], [3]],
        "first_ms": [float(value) for value in range(1, 201)],
        "between_ms": [5.0] * 200,
        "kv_bytes": 512 << 20,
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


def noted(meanwhile: int, after: int, errors: list[str]) -> str:
    """The note where so many prompts that fill the context were answered before and after the wait."""
    options = Options(
        model="tiny",
        threads=2,
        tenants=200,
        rounds=2,
        seconds=120.0,
        least_answered=1,
        longest_wait_s=600.0,
    )
    answered = {"fills": meanwhile, "constrains": 106, "never-reads": 44}
    hostile = outcome(
        answered_meanwhile=answered,
        answered=answered | {"fills": after},
        waited_s=600.0 if after == 0 else 90.0,
        errors=errors,
    )
    return note(options, outcome(), hostile)


def test_the_note_names_how_many_requests_of_each_hostile_tenant_were_answered() -> None:
    text = noted(3, 3, [])
    assert text.endswith(": 3 of `fills`, 106 of `constrains`, 44 of `never-reads`.")
    assert "went on" not in text


def test_the_note_says_that_the_run_went_on_for_an_answer() -> None:
    text = noted(0, 2, [])
    assert ": 0 of `fills`, 106 of `constrains`" in text
    assert "went on for 90 s" in text
    assert text.endswith(": 2 of `fills`, 106 of `constrains`, 44 of `never-reads`.")


def test_the_note_says_that_an_answer_never_came() -> None:
    text = noted(0, 0, [])
    assert text.endswith("It ended at its bound of 600 s, without enough answers: 0 of `fills`.")
    text = noted(0, 0, ["REFUSED: no room"])
    assert "It ended when requests failed, without enough answers: 0 of `fills`." in text
    assert text.endswith("failed: 1, the first with: REFUSED: no room.")
