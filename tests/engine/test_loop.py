"""The step loop over a scripted engine: work, none, a failing forward."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from spectrie.engine import loop
from spectrie.engine.loop import StepLoop
from spectrie.engine.steps import MAX_CONSECUTIVE_FAILURES
from spectrie.errors import RankLost
from spectrie.model.plan import StepResult

WAIT_S = 60.0


def one_row(*_: Any) -> StepResult:
    """What a step of one row over four tokens gives."""
    ids = np.full((1, 8), -1, np.int32)
    return StepResult(torch.zeros(1, 4), ids, np.zeros((1, 8), np.float32))


@dataclass
class ScriptedEngine:
    """Plans as many steps as were queued, and records what came back."""

    queued: int = 0
    committed: list[tuple[Any, ...]] = field(default_factory=list)
    failed: list[tuple[int, str]] = field(default_factory=list)
    ends: list[SimpleNamespace] = field(default_factory=list)
    next_plan: int = 0
    greedy: list[bool] = field(default_factory=list)

    def draft_plan(self, now_s: float) -> SimpleNamespace | None:
        return SimpleNamespace(drafter=0) if self.queued else None

    def plan(self, now_s: float) -> SimpleNamespace | None:
        if self.queued == 0:
            return None
        self.queued -= 1
        self.next_plan += 1
        is_greedy = self.greedy.pop(0) if self.greedy else False
        return SimpleNamespace(plan_id=self.next_plan, is_greedy=is_greedy, is_drawable=True)

    def take_outputs(self) -> SimpleNamespace:
        return self.ends.pop() if self.ends else SimpleNamespace(handles=[])

    def commit_logits(self, *arguments: Any) -> SimpleNamespace:
        self.committed.append(arguments)
        return SimpleNamespace(handles=[7], step=arguments[0])

    def commit_tokens(
        self, *arguments: Any, drawn: bool, logits: Any, compacted: bool
    ) -> SimpleNamespace:
        assert not drawn and not compacted and logits is None
        self.committed.append(arguments)
        return SimpleNamespace(handles=[7], step=arguments[0])

    def fail(self, plan_id: int, message: str, now_s: float) -> SimpleNamespace:
        self.failed.append((plan_id, message))
        return SimpleNamespace(handles=[7], step=plan_id)


class Harness:
    """A loop over a scripted engine; `deliveries` are awaited one by one."""

    def __init__(
        self,
        step: Callable[[Any], StepResult],
        idle: Callable[[], bool] = lambda: False,
        draft: Callable[[Any], Any] | None = None,
    ) -> None:
        self.engine = ScriptedEngine()
        self.delivered: list[Any] = []
        self.arrived = threading.Semaphore(0)
        self.death: list[BaseException] = []
        self.died = threading.Event()
        runner = SimpleNamespace(
            step=step, device_shape=None, native=None, draft=draft, drafts=draft is not None
        )
        prepared: Any = (self.engine, runner)
        self.loop = StepLoop(lambda: prepared, self._deliver, self._die, idle)
        self.loop.start()

    def _deliver(self, output: Any) -> None:
        self.delivered.append(output)
        self.arrived.release()

    def _die(self, error: BaseException) -> None:
        self.death.append(error)
        self.died.set()

    def queue(self, steps: int) -> None:
        self.engine.queued += steps
        self.loop.wake()

    def await_deliveries(self, count: int) -> None:
        for _ in range(count):
            assert self.arrived.acquire(timeout=WAIT_S)


@pytest.fixture
def start() -> Iterator[Callable[..., Harness]]:
    harnesses: list[Harness] = []

    def make(*arguments: Any) -> Harness:
        harnesses.append(Harness(*arguments))
        return harnesses[-1]

    yield make
    for harness in harnesses:
        harness.loop.stop()


def test_each_planned_step_is_committed_and_delivered_once(start: Any) -> None:
    harness = start(one_row)
    harness.queue(3)
    harness.await_deliveries(3)
    assert [c[0] for c in harness.engine.committed] == [1, 2, 3]
    assert [o.step for o in harness.delivered] == [1, 2, 3]
    assert harness.engine.committed[0][2:4] == (1, 4)
    assert [array.shape for array in harness.engine.committed[0][6:]] == [(1, 8), (1, 8)]


def test_a_step_is_delivered_once_the_next_one_is_planned_and_before_it_runs(start: Any) -> None:
    seen: list[tuple[int, int]] = []

    def step(plan: Any) -> StepResult:
        seen.append((harness.engine.next_plan, len(harness.delivered)))
        return one_row()

    harness = start(step)
    deliver = harness._deliver
    planned: list[int] = []

    def note(output: Any) -> None:
        planned.append(harness.engine.next_plan)
        deliver(output)

    harness.loop._steps._deliver = note
    harness.queue(3)
    harness.await_deliveries(3)
    assert seen == [(1, 0), (2, 1), (3, 2)]
    assert planned == [2, 3, 3]


def test_what_the_last_step_gave_is_delivered_though_the_engine_breaks(start: Any) -> None:
    harness = start(one_row)
    plan = harness.engine.plan

    def stop_after_one(now_s: float) -> Any:
        if harness.engine.committed:
            raise ValueError("broken engine")
        return plan(now_s)

    harness.engine.plan = stop_after_one
    harness.queue(2)
    assert harness.died.wait(WAIT_S)
    assert "broken engine" in str(harness.death[0])
    assert [output.step for output in harness.delivered] == [1]


def test_tokens_of_the_forward_spare_the_search_in_logits_where_the_plan_is_greedy(
    start: Any,
) -> None:
    harness = start(lambda plan: replace(one_row(), tokens=np.array([3], np.int32)))
    harness.engine.greedy = [True, False]
    harness.queue(2)
    harness.await_deliveries(2)
    first, second = harness.engine.committed
    assert first[1].tolist() == [3]
    assert second[2:4] == (1, 4)


def test_idle_loop_takes_up_work_that_comes_later(start: Any) -> None:
    harness = start(one_row)
    harness.queue(1)
    harness.await_deliveries(1)
    harness.queue(1)
    harness.await_deliveries(1)
    assert harness.loop.steps == 2


def test_ends_without_a_step_are_delivered(start: Any) -> None:
    harness = start(one_row)
    harness.engine.ends.append(SimpleNamespace(handles=[1], step=None))
    harness.loop.wake()
    harness.await_deliveries(1)
    assert harness.delivered[0].handles == [1]


def test_failed_forward_fails_its_plan_alone_and_the_loop_goes_on(start: Any) -> None:
    def step(plan: Any) -> StepResult:
        if plan.plan_id == 1:
            raise RuntimeError("secret path /srv/x")
        return one_row()

    harness = start(step)
    harness.queue(2)
    harness.await_deliveries(2)
    ((plan_id, message),) = harness.engine.failed
    assert plan_id == 1
    assert "secret" not in message
    assert [c[0] for c in harness.engine.committed] == [2]
    assert not harness.died.is_set()


def test_failures_in_a_row_end_the_loop(start: Any) -> None:
    def step(plan: Any) -> StepResult:
        raise RuntimeError("broken for good")

    harness = start(step)
    harness.queue(MAX_CONSECUTIVE_FAILURES + 2)
    assert harness.died.wait(WAIT_S)
    assert f"{MAX_CONSECUTIVE_FAILURES} steps failed in a row" in str(harness.death[0])
    assert len(harness.engine.failed) == MAX_CONSECUTIVE_FAILURES - 1


def test_a_lost_rank_ends_the_loop_at_once(start: Any) -> None:
    def step(plan: Any) -> StepResult:
        raise RankLost("another rank is gone")

    harness = start(step)
    harness.queue(3)
    assert harness.died.wait(WAIT_S)
    assert isinstance(harness.death[0], RankLost)
    assert harness.engine.next_plan == 1
    assert harness.engine.failed == []


def test_a_rank_that_is_lost_while_drafts_are_made_ends_the_loop_at_once(start: Any) -> None:
    def draft(level: Any) -> Any:
        raise RankLost("another rank is gone")

    harness = start(one_row, lambda: False, draft)
    harness.queue(3)
    assert harness.died.wait(WAIT_S)
    assert isinstance(harness.death[0], RankLost)
    assert harness.engine.committed == []


def test_broken_engine_ends_the_loop(start: Any) -> None:
    harness = start(one_row)
    harness.engine.commit_logits = lambda *_: (_ for _ in ()).throw(ValueError("unknown plan"))
    harness.queue(1)
    assert harness.died.wait(WAIT_S)
    assert "unknown plan" in str(harness.death[0])


def test_what_can_wait_is_done_after_a_rest_and_yields_to_work_at_once(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "IDLE_WAIT_S", 0.01)
    done: list[str] = []
    slices = threading.Semaphore(0)
    is_bound = threading.Event()

    def step(plan: Any) -> StepResult:
        done.append("step")
        return one_row()

    def idle() -> bool:
        assert is_bound.wait(WAIT_S)
        done.append("slice")
        slices.release()
        if done.count("slice") == 3:
            # Comes while the slice is computed.
            harness.queue(2)
        return done.count("slice") < 6

    harness = start(step, idle)
    is_bound.set()
    for _ in range(6):
        assert slices.acquire(timeout=WAIT_S)
    assert done[:8] == ["slice"] * 3 + ["step"] * 2 + ["slice"] * 3


def test_a_loop_that_is_asked_again_within_its_rest_does_not_count_as_idle(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "IDLE_WAIT_S", WAIT_S)
    harness = start(one_row, lambda: pytest.fail("not idle"))
    for _ in range(3):
        harness.queue(1)
        harness.await_deliveries(1)
    assert not harness.died.is_set()


def test_error_while_preparing_is_raised_by_start() -> None:
    def prepare() -> Any:
        raise ValueError("no such folder")

    loop = StepLoop(prepare, lambda output: None, lambda error: None)
    with pytest.raises(ValueError, match="no such folder"):
        loop.start()
