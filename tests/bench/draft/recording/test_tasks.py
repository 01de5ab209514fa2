"""The tasks of test and tuning split are fixed and disjoint."""

from __future__ import annotations

import pytest

from bench import routing as bench_routing
from bench.draft.recording.tasks import FAMILIES, ROUTED, routing, tasks


@pytest.mark.parametrize("family", FAMILIES)
def test_splits_share_no_task(family: str) -> None:
    test, tune = tasks(family, "test"), tasks(family, "tune")
    # Newer interpreters have fewer modules to take edits from; the traces are frozen anyway.
    assert len(test) == ROUTED if family == "routing" else 12 <= len(test) <= 24
    assert not {repr(task) for task in test} & {repr(task) for task in tune}
    assert len({repr(task) for task in test}) == len(test)


def test_warming_requests_are_none_of_the_measured_ones() -> None:
    more = routing("test", ROUTED + bench_routing.WARMING)
    assert more[:ROUTED] == tasks("routing", "test")
    said = [task.messages[-1]["content"] for task in more if task.messages]
    assert len(set(said)) == len(more)


def test_only_edits_carry_a_prediction() -> None:
    for family in FAMILIES:
        predicted = [task.prediction is not None for task in tasks(family, "test")]
        assert all(predicted) == any(predicted) == (family == "edits")
