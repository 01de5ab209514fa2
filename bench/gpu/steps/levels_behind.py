"""What levels take that are computed behind a step, and what of that the host waits for."""

from __future__ import annotations

import time

from spectrie.model import Runner
from spectrie.model.drafters import LevelPlan
from spectrie.model.launch.drafts.drafts import Drafts
from spectrie.model.launch.launcher import Launcher
from spectrie.model.plan import StepPlan
from spectrie.model.step.wanted import Wanted

__all__ = ["levels_behind_steps"]

_REQUESTS = (1, 8, 64)
_ROUNDS = 5
_CONTEXT = 256
_SCORED = [1, 2]


def levels_behind_steps(runner: Runner) -> dict[str, dict[str, float]]:
    """Returns, by numbers of requests, the microseconds of a first level by the device's clock, and those until its
    answers are there once the step's results are. Then those from the end of a step to that of a second level, where
    text names tokens of each row of the first; those until the answers of such a first level are there; and those until
    the answers of the second are, once the first is answered. Nothing for a drafter whose first levels are always
    asked, and none of second levels for more requests than have these.

    Overwrites the cache's first pages.

    Args:
        runner: With a drafter, on one GPU.
    """
    decoder = runner._decoder
    assert isinstance(decoder, Launcher)
    counts = [count for count in _REQUESTS if count <= runner.max_batch_rows]
    values: dict[str, dict[str, float]] = {}
    for goes_on in (False, True):
        for count in counts:
            for what, time_us in _levels(runner, decoder.drafts[0], count, goes_on).items():
                values.setdefault(f"{what}_behind_step_microseconds", {})[str(count)] = time_us
    return values


def _levels(runner: Runner, drafts: Drafts, count: int, goes_on: bool) -> dict[str, float]:
    """The times of one number of requests, of the fastest of some steps, whose levels go on to a second one or not;
    nothing where no such level follows a step."""
    most = min(runner.max_context, runner.num_pages * runner.page_size)
    kv_len = max(1, min(_CONTEXT, most - 3))
    pages = list(range(-(-(kv_len + 1) // runner.page_size)))
    stores = [runner.num_pages + index for index in range(count)]
    step = StepPlan.joined(
        [StepPlan.single([0], kv_len=kv_len, pages=pages, feature=store) for store in stores]
    )
    moves = list(enumerate(stores))
    requests = [(kv_len + 1, store, pages) for store in stores]
    names = ("two_levels", "scored_answers", "second_answers") if goes_on else ("level", "answers")
    times = []
    # Behind the first step no level was asked.
    for _ in range(_ROUNDS + 1):
        launched = runner.launch(step, Wanted.LIKELIEST)
        tokens = launched.wait().tokens
        assert tokens is not None
        roots = [(token, kv_len + 1, row, -1) for row, token in enumerate(tokens.tolist())]
        scored = [_SCORED] * count if goes_on else None
        level = LevelPlan.of(requests, roots, moves=moves, scored=scored)
        before = drafts.num_ahead, drafts.num_beams
        started = time.perf_counter()
        answers = runner.draft(level)
        waited_ms = [(time.perf_counter() - started) * 1e3]
        if goes_on:
            beams = [
                (int(one[0]), kv_len + 2, row, row) for row, one in enumerate(answers.ids.tolist())
            ]
            second = LevelPlan.of(requests, beams, level=2, row_index=count)
            started = time.perf_counter()
            runner.draft(second)
            waited_ms.append((time.perf_counter() - started) * 1e3)
        if drafts.num_beams > before[1] if goes_on else drafts.num_ahead > before[0]:
            times.append((launched.followed_ms, *waited_ms))
    if not times:
        return {}
    fastest = [min(column) for column in zip(*times, strict=True)]
    return {what: round(1e3 * ms, 2) for what, ms in zip(names, fastest, strict=True)}
