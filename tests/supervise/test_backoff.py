"""Pauses grow while a child cannot run, and stay short for one that works."""

from __future__ import annotations

from spectrie.supervise.backoff import FIRST_PAUSE_S, LONGEST_PAUSE_S, Backoff


def test_pauses_double_up_to_the_longest_while_starts_fail() -> None:
    backoff = Backoff()
    pauses_s = [backoff.after_failed_start() for _ in range(8)]
    assert pauses_s == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_child_that_ends_again_and_again_without_work_pauses_longer_each_time() -> None:
    backoff = Backoff()
    pauses_s = [backoff.after_end(2.0, has_worked=False) for _ in range(8)]
    assert pauses_s[-1] == LONGEST_PAUSE_S
    assert pauses_s == sorted(pauses_s)


def test_a_child_that_works_pauses_a_tenth_of_that_time_at_most() -> None:
    backoff = Backoff()
    for ready_s in (2.0, 3.0, 9.0, 1.0, 20.0, 4.0):
        for _ in range(4):
            pause_s = backoff.after_end(ready_s, has_worked=True)
            assert FIRST_PAUSE_S <= pause_s <= max(ready_s / 10, FIRST_PAUSE_S)


def test_a_child_that_was_ready_for_long_pauses_shortly_whether_it_worked_or_not() -> None:
    backoff = Backoff()
    for _ in range(8):
        backoff.after_failed_start()
    assert backoff.after_end(60.0, has_worked=False) == FIRST_PAUSE_S


def test_a_hopeless_child_pauses_longest_until_it_has_run_for_long() -> None:
    backoff = Backoff()
    assert backoff.after_hopeless_start() == LONGEST_PAUSE_S
    assert backoff.after_failed_start() == LONGEST_PAUSE_S
    assert backoff.after_end(60.0, has_worked=False) == FIRST_PAUSE_S
