"""Made-up sequences of steps and levels: each of several drafters answers, and keeps, what it would alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.model import Runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.plan import StepPlan
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.session import same
from tests.model.launch.drafts.followed import (
    Followed,
    accept,
    drafts_of,
    likeliest,
    owed,
    rewind,
    roots,
)
from tests.model.launch.drafts.scenes import written
from tests.model.launch.drafts.test_ahead import load
from tests.model.launch.test_draft_set import FAR_SLOTS, requests_of

pytestmark = pytest.mark.usefixtures("own_cache")

KINDS = ("eagle3", "eagle3_deep", "dflash2", "model_itself")
"""A head, one of several layers with attention of its own, one of blocks, and one that reads no features."""
ROUNDS = 6

Call = tuple[Literal["likeliest", "logits"], StepPlan] | tuple[Literal["level"], LevelPlan]


@pytest.fixture(autouse=True)
def _on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    make_levels_cheap(monkeypatch)
    with simulated_gpu(), small_start((1, 8, 64)):
        yield


class Play:
    """Steps of some requests, and levels of some drafters behind each, in any order.

    Args:
        runner: With all drafters.
        seed: Of what is done.
    """

    def __init__(self, runner: Runner, seed: int) -> None:
        self._runner = runner
        self._random = random.Random(seed)
        self._requests = requests_of(runner)
        self._alive = list(range(len(KINDS)))
        self.calls: list[Call] = []
        self.answers: list[tuple[int, Answers]] = []

    def play(self, dropped: int | None) -> list[int]:
        """Plays all rounds; takes a drafter away in the middle, if one is named; returns the others."""
        for number in range(ROUNDS):
            if number == ROUNDS // 2 and dropped is not None:
                self._runner.drop_drafter(dropped)
                self._alive.remove(dropped)
            rest = [one.prompt[one.computed :] for one in self._requests]
            pairs = list(zip(self._requests, rest, strict=True))
            plan = StepPlan.joined([one.request.chunk(tokens) for one, tokens in pairs])
            self._step("logits" if self._random.random() < 0.3 else "likeliest", plan)
            row = 0
            for one, tokens in pairs:
                one.request.commit(row, len(tokens))
                row += len(tokens)
            self._levels([one.truth[0] for one in self._requests])
            self._step("likeliest", StepPlan.joined([one.tree for one in self._requests]))
            accept(self._requests)
            self._levels(roots(self._requests))
            rewind(self._requests)
        return self._alive

    def _step(self, wanted: Literal["likeliest", "logits"], plan: StepPlan) -> None:
        self.calls.append((wanted, plan))
        computed(self._runner, self.calls[-1])

    def _levels(self, tokens: Sequence[int]) -> None:
        """A level or two of some drafters; what moves is in the first of them, or else in the next step."""
        rng, requests = self._random, self._requests
        asked = [number for number in self._alive if rng.random() < 0.7]
        rng.shuffle(asked)
        if not asked:
            return
        moves, slots = owed(requests), FAR_SLOTS if rng.random() < 0.2 else []
        for number in asked:
            roots = [(t, requests[i].request.kv_len, i, -1) for i, t in enumerate(tokens)]
            plan = LevelPlan.of(
                [one.request.asked() for one in requests],
                roots,
                moves=moves,
                slots=slots,
                scored=[[5, 9], [], [3], []] if rng.random() < 0.5 else None,
                fills=[made(one) for one in requests] if KINDS[number] == "model_itself" else None,
                drafter=number,
            )
            moves, slots = [], []
            ids = self._level(plan).ids
            if rng.random() < 0.7:
                rows = [(int(ids[i, 0]), at + 1, i, i) for i, (_, at, _, _) in enumerate(roots)]
                of = [one.request.asked() for one in requests]
                self._level(LevelPlan.of(of, rows, level=2, row_index=len(roots), drafter=number))

    def _level(self, plan: LevelPlan) -> Answers:
        self.calls.append(("level", plan))
        answers = self._runner.draft(plan)
        self.answers.append((plan.drafter, answers))
        return answers


def made(one: Followed) -> tuple[int, list[int]]:
    """The committed tokens of a request, whose keys are made up."""
    return 0, [*one.prompt, *one.truth][: one.request.kv_len]


def computed(runner: Runner, call: Call) -> None:
    if call[0] == "logits":
        runner.step(call[1])
    elif call[0] == "likeliest":
        likeliest(runner, call[1])


def alone(runner: Runner, calls: Sequence[Call], number: int) -> list[Answers]:
    """What one drafter answers to its own levels; of those of others it has what moves."""
    requests_of(runner)
    found = []
    for call in calls:
        computed(runner, call)
        if call[0] != "level":
            continue
        plan = replace(call[1], drafter=0)
        if call[1].drafter == number:
            found.append(runner.draft(plan))
        elif len(plan.kv_move_src) or len(plan.feature_moves):
            slots = list(zip(plan.kv_move_src.tolist(), plan.kv_move_dst.tolist(), strict=True))
            runner.draft(LevelPlan.of([], [], slots=slots, moves=plan.feature_moves.tolist()))
    return found


def kept(runner: Runner, number: int) -> list[torch.Tensor]:
    """Keys, values and features of the pages, those of the model included."""
    drafts: Any = drafts_of(runner, number)
    decoder: Any = runner._decoder
    drafts.settle()
    decoder._device.wait()
    end = runner.num_pages * runner.page_size
    both = (decoder._operators, drafts._operators)
    found = [part[:, :end] for one in both for part in (one._keys, one._values)]
    if drafts._keeper is not None:
        found.append(drafts._keeper.features[: drafts._keeper.store_rows])
    return found


@pytest.mark.parametrize(
    ("seed", "dropped"),
    [(1, None), (2, 1), *(pytest.param(s, s % 5, marks=pytest.mark.deep) for s in range(5, 25))],
)
def test_each_answers_and_keeps_what_it_does_alone(
    seed: int, dropped: int | None, tiny: Path, tmp_path: Path
) -> None:
    drafters = [written(kind, tiny, tmp_path / kind)[1] for kind in KINDS]
    runner = load(tiny, drafters)
    sequence = Play(runner, seed)
    alive = sequence.play(None if dropped == len(KINDS) else dropped)
    assert sum(drafts_of(runner, number).num_ahead for number in alive) > 0
    for number, drafter in enumerate(drafters):
        one = load(tiny, [drafter])
        found = alone(one, sequence.calls, number)
        assert found
        assert same([given for by, given in sequence.answers if by == number], found), KINDS[number]
        if number in alive:
            pairs = zip(kept(runner, number), kept(one, 0), strict=True)
            assert all(torch.equal(ours, theirs) for ours, theirs in pairs), KINDS[number]
