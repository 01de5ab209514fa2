"""Levels behind steps, the second of beams: asked with those computed ahead, and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from spectrie.model import Runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.launch.drafts.memory import BEAMS
from spectrie.model.plan import StepPlan
from tests.model.launch.drafts.followed import (
    Followed,
    accept,
    drafts_of,
    likeliest,
    prefilled,
    rewind,
    roots,
)
from tests.model.launch.drafts.test_ahead import first_level, poison

__all__ = [
    "ALL",
    "Tokens",
    "asked_of_beams",
    "both",
    "levels",
    "named_level",
    "nothing_ahead",
    "second_level",
]

Tokens = Sequence[tuple[int, int]]
"""Rows of a second level: the row of the first that each continues, and which of its likeliest tokens."""
ALL = [(row, beam) for row in range(8) for beam in (0, 2)]
SCORED = [[5, 9], [], [3, 3, 8], []]
NAMED = [[5, 9, 77]]


def second_level(
    requests: Sequence[Followed],
    first: Answers,
    rows: Tokens,
    *,
    wrong: Sequence[int] = (),
    scored: Sequence[Sequence[int]] = SCORED,
    **options: Any,
) -> LevelPlan:
    """A level of beams, but for rows of a token that is none."""
    found = []
    for number, (row, beam) in enumerate(rows):
        token = int(first.ids[row, beam])
        if number in wrong:
            token = next(one for one in range(200) if one not in first.ids[row, :BEAMS])
        found.append((token, requests[row].request.kv_len + 1, row, row))
    asked = [one.request.asked() for one in requests]
    given = [*scored, *[[]] * len(rows)][: len(rows)]
    return LevelPlan.of(asked, found, level=2, row_index=len(first.ids), scored=given, **options)


def third_level(requests: Sequence[Followed], known: int, rows: Tokens) -> LevelPlan:
    """One token behind some rows of the second level."""
    found = [
        (11 + number, requests[row].request.kv_len + 2, row, len(requests) + number)
        for number, (row, _) in enumerate(rows)
    ]
    asked = [one.request.asked() for one in requests]
    scored = [[4, 9], *[[]] * (len(rows) - 1)]
    return LevelPlan.of(asked, found, level=3, row_index=known, scored=scored)


def levels(
    runner: Runner,
    requests: Sequence[Followed],
    rows: Tokens,
    *,
    named_before: bool = False,
    named: bool = True,
    **options: Any,
) -> tuple[list[Answers], int]:
    """Answers of three levels behind a step of trees, before which two were asked of beams; and how many rows of the
    second were answered by what was computed behind the step.

    Args:
        runner: Of the requests.
        requests: Rows of the step, and of its first level.
        rows: Of the second.
        named_before: Whether text names tokens of the first level before the step: then those of the next one are
            scored before beams are computed.
        named: Whether it names tokens of the first level behind the step.
        options: As for `second_level`.
    """
    asked_of_beams(runner, requests, named=named_before)
    likeliest(runner, StepPlan.joined([one.tree for one in requests]))
    accept(requests)
    used = drafts_of(runner).num_beams
    # Scored by what the head left of the first level.
    first = runner.draft(named_level(requests, roots(list(requests)), named=named))
    second = runner.draft(second_level(requests, first, rows, **options))
    third = runner.draft(third_level(requests, len(requests) + len(rows), rows))
    rewind(requests)
    return [first, second, third], drafts_of(runner).num_beams - used


def named_level(requests: Sequence[Followed], tokens: list[int], *, named: bool) -> LevelPlan:
    """A first level, with tokens that text names or without."""
    scored = [*NAMED, *[[]] * (len(requests) - 1)] if named else None
    return first_level(list(requests), tokens, scored=scored)


def asked_of_beams(runner: Runner, requests: Sequence[Followed], *, named: bool = False) -> None:
    """Computes prompts, and asks a second level behind them."""
    prefilled(runner, requests)
    first = runner.draft(named_level(requests, [one.truth[0] for one in requests], named=named))
    beams = [(row, 0) for row in range(len(requests))]
    runner.draft(second_level(requests, first, beams, scored=[]))


@contextmanager
def nothing_ahead() -> Iterator[None]:
    """Has all levels computed as they are asked."""
    with mock.patch("spectrie.model.launch.drafts.levels.demand._LEAST_SHARE", 0):
        yield


def both(
    runner: Runner, requests: Sequence[Followed], rows: Tokens, **options: Any
) -> tuple[list[list[Answers]], int]:
    """Answers without levels behind steps and with them, and how many rows of the second these answered."""
    poison(runner)
    with nothing_ahead():
        expected, used = levels(runner, requests, rows, **options)
    assert used == 0
    poison(runner)
    found, used = levels(runner, requests, rows, **options)
    return [expected, found], used
