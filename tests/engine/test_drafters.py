"""A drafter in both loops: it changes no token, whatever it answers, and its failure ends no request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spectrie import _core
from spectrie.engine import idle_bigrams
from spectrie.engine.idle_bigrams import IdleBigrams
from spectrie.model import Runner, load_runner
from spectrie.model.drafters import Answers
from spectrie.model.plan import StepResult
from spectrie.types import Source
from tests.engine.requests import request
from tests.engine.running import (
    FORWARD_MS,
    LEVEL_MS,
    MAX_ROWS,
    WAIT_S,
    Kind,
    RunningLoop,
    load_tiny_runner,
)
from tests.model.drafters.heads import tiny_head_tensors, write_tiny_head
from tests.tiny_model import VOCABULARY_SIZE, write_tiny_model
from tests.waiting import wait_until

PROMPT = [5, 6, 7]
NUM_TOKENS = 120
ENGINE: dict[str, Any] = {
    "speculation": "auto",
    "max_batch_rows": MAX_ROWS,
    "drafting_cost_ms": 0.01,
}

Script = Callable[[_core.DraftPlan, Answers], Answers]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    folder = tmp_path_factory.mktemp("model")
    return load_tiny_runner(folder / "tiny", write_tiny_head(folder / "head"))


def generate(running: RunningLoop, temperature: float, first: int = 1) -> list[list[int]]:
    """The answers to three requests in one batch."""
    handles = range(first, first + 3)
    for handle in handles:
        prompt = [*PROMPT, 10 + (handle - first)]
        one = request(handle, prompt, NUM_TOKENS, temperature=temperature, seed=handle - first)
        running.submit(one)
    for handle in handles:
        running.await_finish(handle)
    return [running.tokens[handle] for handle in handles]


def plain(
    runner: Runner, kind: Kind, temperature: float, limits: dict[str, Any] | None = None
) -> list[list[int]]:
    """The answers without drafts."""
    running = RunningLoop(runner, kind, **(limits or {"max_batch_rows": MAX_ROWS}))
    answers = generate(running, temperature)
    running.close()
    return answers


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["native", "python"])
def test_answers_are_those_of_plain_decoding(
    runner: Runner, kind: Kind, temperature: float
) -> None:
    running = RunningLoop(runner, kind, drafts=True, **ENGINE)
    answers = generate(running, temperature)
    load = running.engine.load()
    running.close()
    assert answers == plain(runner, kind, temperature)
    assert load.head_levels > 0
    assert load.head_rows >= load.head_levels


def test_a_head_of_numbers_that_are_none_changes_no_answer_of_the_native_loop(
    tmp_path: Path,
) -> None:
    tensors = tiny_head_tensors()
    tensors["lm_head.weight"][:] = torch.nan
    runner = load_tiny_runner(tmp_path / "tiny", write_tiny_head(tmp_path / "head", tensors))
    running = RunningLoop(runner, "native", drafts=True, **ENGINE)
    answers = generate(running, 0.0)
    load = running.engine.load()
    running.close()
    assert answers == plain(runner, "native", 0.0)
    assert load.head_levels > 0
    assert load.accepted_by_source[Source.HEAD] == 0


def scripted(runner: Runner, script: Script) -> Callable[[_core.DraftPlan], Answers]:
    """A drafter whose answers a script replaces; keys and features move as the plan says."""

    def draft(plan: _core.DraftPlan) -> Answers:
        return script(plan, runner.draft(plan))

    return draft


def wrong(plan: _core.DraftPlan, answers: Answers) -> Answers:
    ids = np.tile(np.arange(8, dtype=np.int32) + 300, (len(plan.row_token), 1))
    probabilities = np.full(ids.shape, 0.12, np.float32)
    return Answers(ids, probabilities, np.full_like(answers.scored, -0.01))


def random(plan: _core.DraftPlan, answers: Answers) -> Answers:
    dice = np.random.default_rng(int(plan.row_token.sum()))
    ids = dice.integers(-2, VOCABULARY_SIZE, answers.ids.shape).astype(np.int32)
    probabilities = dice.normal(0.5, 1.0, ids.shape).astype(np.float32)
    return Answers(ids, probabilities, dice.normal(0, 9, answers.scored.shape).astype(np.float32))


def nan(plan: _core.DraftPlan, answers: Answers) -> Answers:
    none = np.full_like(answers.probabilities, np.nan)
    return Answers(answers.ids, none, np.full_like(answers.scored, np.nan))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("script", [wrong, random, nan])
def test_answers_of_any_kind_change_no_token(
    runner: Runner, script: Script, temperature: float
) -> None:
    running = RunningLoop(runner, "python", draft=scripted(runner, script), **ENGINE)
    answers = generate(running, temperature)
    load = running.engine.load()
    running.close()
    assert answers == plain(runner, "python", temperature)
    assert load.head_levels > 0
    assert not running.is_dropped


class ToldClock:
    """A clock on which forwards and levels take what the engine was told, on any machine."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    def spend(self, ms: tuple[list[int], list[float]], rows: int) -> None:
        self._now_s += float(np.interp(rows, *ms)) / 1e3


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_right_answers_are_accepted_and_save_steps(
    runner: Runner, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How many levels are bought follows the times that are measured. By the machine's clock, a level
    # takes about half as long as a forward of this model, and one that is interrupted much longer: then
    # fewer are bought, however right they are. By this clock they are worth their price.
    clock, step = ToldClock(), runner.step

    def timed(plan: _core.Plan) -> StepResult:
        clock.spend(FORWARD_MS, len(plan.row_token))
        return step(plan)

    monkeypatch.setattr(runner, "step", timed)
    monkeypatch.setattr("spectrie.engine.python_steps.time", clock)
    one = request(1, PROMPT, NUM_TOKENS, temperature=temperature)
    alone = RunningLoop(runner, "python", max_batch_rows=MAX_ROWS)
    alone.submit(one)
    alone.await_finish(1)
    alone.close()
    text = np.array([*PROMPT, *alone.tokens[1], 0], np.int32)
    levels = []

    def right(plan: _core.DraftPlan, answers: Answers) -> Answers:
        levels.append(plan.level)
        clock.spend(LEVEL_MS, len(plan.row_token))
        ids, probabilities = np.full_like(answers.ids, -1), np.zeros_like(answers.probabilities)
        ids[:, 0] = text[plan.row_position + 1]
        probabilities[:, 0] = 0.98
        return Answers(ids, probabilities, np.full_like(answers.scored, -9.0))

    running = RunningLoop(runner, "python", draft=scripted(runner, right), **ENGINE)
    running.submit(one)
    running.await_finish(1)
    load = running.engine.load()
    running.close()
    assert running.tokens == alone.tokens
    # Three levels and the model's own token are four a step: 30 steps for 120 tokens. It takes 32, since
    # three give one token each: the prompt's, a plain one that measures, and the last. With two levels
    # it would take 40 or more.
    assert 3 * running.loop.steps < alone.loop.steps
    assert load.head_levels == len(levels)
    assert max(levels) == 3
    assert load.accepted_by_source[Source.HEAD] > 0


def broken(plan: _core.DraftPlan, answers: Answers) -> Answers:
    raise ValueError("broken")


def misshapen(plan: _core.DraftPlan, answers: Answers) -> Answers:
    return Answers(answers.ids[:, :3], answers.probabilities, answers.scored)


@pytest.mark.parametrize("script", [broken, misshapen])
def test_a_drafter_that_fails_is_given_up_with_one_warning(
    runner: Runner, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def counted(plan: _core.DraftPlan, answers: Answers) -> Answers:
        calls.append(plan.level)
        return script(plan, answers)

    running = RunningLoop(runner, "python", draft=scripted(runner, counted), **ENGINE)
    with caplog.at_level(logging.WARNING, "spectrie.worker"):
        answers = generate(running, 0.0), generate(running, 0.0, first=11)
    running.close()
    expected = plain(runner, "python", 0.0)
    assert answers == (expected, expected)
    assert calls == [1]
    assert running.is_dropped
    assert [one.levelname for one in caplog.records] == ["WARNING"]


def test_a_drafter_that_fails_in_the_native_loop_is_given_up_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runner = load_tiny_runner(tmp_path / "tiny", write_tiny_head(tmp_path / "head"), max_rows=4)
    assert runner.native is not None
    # It refuses to answer more rows than it has room for.
    limits = {"max_batch_rows": 4, "max_running": 4}
    running = RunningLoop(runner, "native", drafts=True, draft_rows=1000, **ENGINE | limits)
    with caplog.at_level(logging.WARNING, "spectrie.worker"):
        answers = generate(running, 1.0), generate(running, 1.0, first=11)
    running.close()
    expected = plain(runner, "native", 1.0, limits)
    assert answers == (expected, expected)
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "the drafter failed" in caplog.text
    assert not runner.native.drafts


def hits(runner: Runner, kind: Kind, drafts: bool) -> list[int]:
    """Cached tokens of each of three like prompts, with a slice of bigrams after each."""
    bigrams: list[IdleBigrams] = []
    slices: list[bool] = []
    wanted = [0]

    def idle() -> bool:
        if len(slices) < wanted[0]:
            slices.append(bigrams[0].step())
        return False

    running = RunningLoop(runner, kind, idle, drafts=drafts, **ENGINE | {"chunk_tokens": MAX_ROWS})
    bigrams.append(IdleBigrams(running.engine, runner))
    found = []
    for handle in range(1, 4):
        before = running.engine.load().prefix_hit_tokens
        running.submit(request(handle, range(5, 55), 1))
        running.await_finish(handle)
        found.append(running.engine.load().prefix_hit_tokens - before)
        wanted[0] = handle
        wait_until(lambda: len(slices) == wanted[0], WAIT_S, lambda: "no idle work")
    running.close()
    assert all(slices)
    return found


@pytest.mark.parametrize("kind", ["native", "python"])
def test_a_hit_after_idle_work_is_as_long_as_without_a_drafter(
    runner: Runner, kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_bigrams, "SLICE_MS", 0.0)
    found = []
    for drafts in (False, True):
        # Each computes the table anew.
        monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / str(drafts)))
        found.append(hits(runner, kind, drafts))
    assert found[0] == found[1]
    assert found[0] == [0, 48, 48]


def test_beside_forwards_of_one_row_a_drafter_has_the_price_of_one_row(tmp_path: Path) -> None:
    runner = load_runner(
        write_tiny_model(tmp_path / "tiny"),
        threads=1,
        num_pages=16,
        max_batch_rows=1,
        drafter=write_tiny_head(tmp_path / "head"),
    )
    assert runner.drafter is not None
    costs = runner.drafter.costs
    assert costs.rows == [1]
    assert costs.first_ms[0] > 0.0
    # There is room for no second level.
    assert costs.later_ms == costs.first_ms
