"""When a process counts as stalled, on a clock of the test's own."""

from __future__ import annotations

import itertools

import pytest

from spectrie.supervise.pulse import Pulse
from spectrie.supervise.stall import LOADING_S, StallWatch

LOOK_S = 0.25


def watched_until(watch: StallWatch, begin_s: float, end_s: float) -> float | None:
    """When a watch that is looked at four times a second finds a stall, up to `end_s`."""
    for index in itertools.count():
        now_s = begin_s + index * LOOK_S
        if now_s > end_s:
            return None
        if watch.stalled(now_s) is not None:
            return now_s
    raise AssertionError


def pulsed(watch: StallWatch, pulse: Pulse, begin_s: float, end_s: float) -> str | None:
    """Why a process that sends the same pulse again and again counts as stalled."""
    now_s = begin_s
    while now_s <= end_s:
        watch.note(pulse, now_s)
        reason = watch.stalled(now_s)
        if reason is not None:
            return reason
        now_s += LOOK_S
    return None


def test_standing_still_with_work_pending_is_a_stall_and_without_it_is_none() -> None:
    watch = StallWatch(10.0, 0.0)
    assert pulsed(watch, Pulse(7, pending=False, patience_s=0.0), 0.0, 100.0) is None
    reason = pulsed(watch, Pulse(7, pending=True, patience_s=0.0), 100.0, 109.75)
    assert reason is None
    reason = pulsed(watch, Pulse(7, pending=True, patience_s=0.0), 110.0, 111.0)
    assert reason == "made no progress for 10 s with work pending"


def test_steps_are_progress() -> None:
    watch = StallWatch(10.0, 0.0)
    for step in range(100):
        watch.note(Pulse(step, pending=True, patience_s=0.0), step * 9.0)
        assert watched_until(watch, step * 9.0, step * 9.0 + 8.75) is None


@pytest.mark.parametrize("pending", [True, False])
def test_silence_is_a_stall_whether_work_is_pending_or_not(pending: bool) -> None:
    watch = StallWatch(10.0, 0.0)
    watch.note(Pulse(1, pending, patience_s=0.0), 5.0)
    assert watched_until(watch, 5.0, 100.0) == 15.25
    assert watch.stalled(15.5) == "said nothing for 10 s"


def test_a_process_that_foresees_long_steps_has_the_time_for_them() -> None:
    watch = StallWatch(10.0, 0.0)
    assert pulsed(watch, Pulse(1, pending=True, patience_s=40.0), 0.0, 40.0) is None
    assert pulsed(watch, Pulse(1, pending=True, patience_s=40.0), 40.25, 41.0) is not None
    shorter = StallWatch(10.0, 0.0)
    assert pulsed(shorter, Pulse(1, pending=True, patience_s=0.5), 0.0, 10.0) is None


def test_loading_has_its_own_time_before_the_first_pulse() -> None:
    watch = StallWatch(10.0, 0.0)
    assert watched_until(watch, 0.0, LOADING_S) is None
    assert watched_until(watch, LOADING_S + LOOK_S, 2 * LOADING_S) is not None


def test_a_watcher_that_was_held_up_itself_blames_nobody_for_it() -> None:
    watch = StallWatch(10.0, 0.0)
    watch.note(Pulse(1, pending=True, patience_s=0.0), 0.0)
    assert watch.stalled(0.0) is None
    assert watch.stalled(600.0) is None
    assert watched_until(watch, 600.0, 700.0) == 610.25
