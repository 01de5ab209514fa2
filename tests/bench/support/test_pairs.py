"""The statistics of the benches: ratios, intervals, verdicts; no time is measured here."""

from __future__ import annotations

import itertools

import pytest

from bench.support import pairs
from bench.support.pairs import Comparison, compare, median_interval, shown_interval


def comparison(*ratios: float) -> Comparison:
    return Comparison((10.0,) * len(ratios), tuple(10.0 * r for r in ratios), 0, 0)


def test_interval_holds_the_median_and_repeats() -> None:
    values = [1.0 + 0.01 * i for i in range(21)]
    low, high = median_interval(values)
    assert low < 1.1 < high
    assert (low, high) == median_interval(values)


@pytest.mark.parametrize(
    ("ratios", "floor", "verdict"),
    [
        ([2.0] * 20, 1.8, "met"),
        ([2.0] * 19, 1.8, "not decided"),
        ([1.5] * 20, 1.8, "not met"),
        ([1.0, 3.0] * 10, 1.8, "not decided"),
        ([2.0, 3.0] * 10, 1.8, "met"),
        ([0.99] * 20, 0.98, "met"),
        ([0.9, 1.05] * 10, 0.98, "not decided"),
    ],
)
def test_verdict_needs_a_narrow_interval_that_reaches_the_floor(
    ratios: list[float], floor: float, verdict: str
) -> None:
    assert comparison(*ratios).verdict(floor) == verdict


def test_pairs_alternate_their_order_and_keep_their_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "foreign_cores", lambda action: (action(), 0.0))
    calls: list[str] = []

    def sample(name: str, rate: float) -> float:
        calls.append(name)
        return rate

    base = [lambda: sample("a0", 1.0), lambda: sample("a1", 2.0)]
    ours = [lambda: sample("b0", 3.0), lambda: sample("b1", 4.0)]
    found = compare(base, ours, pairs=4, title="t")
    assert calls == ["a0", "b0", "b1", "a1", "b0", "a0", "a1", "b1"]
    assert found.ratios == (3.0, 2.0, 3.0, 2.0)
    assert found.summary()["ratio"] == 2.5


def test_samples_under_foreign_load_are_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([0.9, 0.0, 0.0, 0.0])
    monkeypatch.setattr(pairs, "foreign_cores", lambda action: (action(), next(loads)))
    found = compare([lambda: 1.0], [lambda: 2.0], pairs=1, title="t")
    assert (found.dropped, found.disturbed) == (2, 0)


def test_a_pair_that_is_always_disturbed_is_kept_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs, "foreign_cores", lambda action: (action(), 0.9))
    found = compare([lambda: 1.0], [lambda: 2.0], pairs=1, title="t")
    assert (found.dropped, found.disturbed) == (4, 1)


def taken(monkeypatch: pytest.MonkeyPatch, num_pairs: int, rates: list[float]) -> int:
    """How many pairs are taken of a contender that gives these rates over and over, beside a rate of 1."""
    monkeypatch.setattr(pairs, "foreign_cores", lambda action: (action(), 0.0))
    ours = itertools.cycle(rates)
    found = compare([lambda: 1.0], [lambda: next(ours)], pairs=num_pairs, title="t")
    return len(found.ratios)


def test_more_pairs_are_taken_where_they_can_narrow_the_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert taken(monkeypatch, 24, [1.0, 1.02]) == 24
    assert 24 < taken(monkeypatch, 24, [0.9, 0.95, 1.0, 1.05, 1.12]) < 100
    assert taken(monkeypatch, 24, [1.0, 3.0]) == 24, "a hundred would not do"
    assert taken(monkeypatch, 6, [0.9, 0.95, 1.0, 1.05, 1.12]) == 6, "a quick look"


def test_tasks_have_as_many_samples_each_when_more_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs, "foreign_cores", lambda action: (action(), 0.0))
    rates = [[1.0], [0.93], [1.09]]
    ours = [lambda rate=rate: rate[0] for rate in rates]
    found = compare([lambda: 1.0] * 3, ours, pairs=21, title="t")
    assert len(found.ratios) > 21 and len(found.ratios) % 3 == 0


def test_an_interval_is_called_wide_beyond_five_percent() -> None:
    assert shown_interval(0.96, 1.04, 1.0) == "0.96-1.04"
    assert shown_interval(0.94, 1.05, 1.0) == "0.94-1.05, wide"
    assert shown_interval(40.0, 60.0, 50.0, 0) == "40-60, wide"
