"""What a drafter adds to a forward, on a machine whose times are restless."""

from __future__ import annotations

import itertools
import random
from functools import partial

import pytest

from spectrie.model.drafters import beside


class Machine:
    """Forwards that take ever longer, some of them much longer, in seconds of a clock of their own."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._noise = random.Random(seed)
        self._now_s = 0.0
        self.asked: list[str] = []
        monkeypatch.setattr("time.perf_counter", lambda: self._now_s)

    def added_s(self, forward_s: float, more_s: float) -> float:
        """What a forward of another kind is found to take more."""
        return beside.added_seconds(
            partial(self._forward, "base", forward_s),
            partial(self._forward, "more", forward_s + more_s),
        )

    def _forward(self, name: str, forward_s: float) -> float:
        self.asked.append(name)
        took_s = forward_s + 0.002 * self._now_s + self._noise.expovariate(1 / 0.0003)
        self._now_s += took_s
        return took_s


@pytest.mark.parametrize("more_s", [0.0, 0.0005, 0.002])
def test_what_is_added_is_found_though_times_drift_and_jump(
    monkeypatch: pytest.MonkeyPatch, more_s: float
) -> None:
    found = [Machine(seed, monkeypatch).added_s(0.006, more_s) for seed in range(20)]
    assert min(found) >= 0
    assert sum(found) / 20 == pytest.approx(more_s, abs=1e-4)


@pytest.mark.parametrize(
    ("forward_s", "least", "most"), [(0.4, 10, 10), (0.006, 30, 50), (0.0001, 100, 100)]
)
def test_long_forwards_are_measured_ten_times_and_short_ones_more_often(
    monkeypatch: pytest.MonkeyPatch, forward_s: float, least: int, most: int
) -> None:
    machine = Machine(3, monkeypatch)
    machine.added_s(forward_s, 0.0)
    pairs = [machine.asked[at : at + 2] for at in range(0, len(machine.asked), 2)]
    assert least <= len(pairs) <= most
    # Which comes first changes, so that a machine that slows down favours none.
    turns = itertools.cycle([["base", "more"], ["more", "base"]])
    assert pairs == list(itertools.islice(turns, len(pairs)))
