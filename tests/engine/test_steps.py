"""What a loop does with a real forward, called from Python or not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spectrie._core import FinishKind
from spectrie.engine import loop
from spectrie.engine.steps import MAX_CONSECUTIVE_FAILURES
from spectrie.model import Runner
from tests.engine.requests import request
from tests.engine.running import MAX_ROWS, WAIT_S, Kind, RunningLoop, load_tiny_runner
from tests.tiny_model import VOCABULARY_SIZE
from tests.waiting import wait_until

PROMPT = [5, 6, 7]
TOO_LONG = [5] * (MAX_ROWS + 1)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield load_tiny_runner(tmp_path_factory.mktemp("model"))


@pytest.fixture(params=["native", "python"])
def start(request: pytest.FixtureRequest, runner: Runner) -> Iterator[Callable[..., RunningLoop]]:
    kind: Kind = request.param
    loops: list[RunningLoop] = []

    def make(**options: Any) -> RunningLoop:
        loops.append(RunningLoop(runner, kind, **options))
        return loops[-1]

    yield make
    for one in loops:
        one.close()


def greedy(handle: int, max_tokens: int, prompt: list[int] = PROMPT, **options: Any) -> Any:
    return request(handle, prompt, max_tokens, temperature=0.0, **options)


@pytest.mark.parametrize("speculation", ["off", "auto"])
def test_both_kinds_give_the_same_tokens_in_order(runner: Runner, speculation: str) -> None:
    tokens = []
    kinds: tuple[Kind, ...] = ("native", "python")
    for kind in kinds:
        one = RunningLoop(runner, kind, speculation=speculation, max_batch_rows=MAX_ROWS)
        for handle in range(4):
            # Half of them greedy: a forward gives tokens to some steps and logits to others.
            one.submit(request(handle, PROMPT, 40 + handle, temperature=handle % 2, seed=handle))
            if handle > 1:
                one.await_finish(handle)
        assert [one.await_finish(handle).kind for handle in range(4)] == [FinishKind.LENGTH] * 4
        one.close()
        tokens.append(one.tokens)
    assert tokens[0] == tokens[1]
    assert [len(tokens[0][handle]) for handle in range(4)] == [40, 41, 42, 43]


def test_an_idle_loop_takes_up_work_that_comes_later(start: Any) -> None:
    one = start()
    for handle in range(3):
        one.submit(greedy(handle, 4))
        one.await_finish(handle)
    assert one.loop.steps == 12
    wait_until(lambda: not one.loop.busy, WAIT_S, lambda: "still busy")


def test_ends_without_a_step_are_delivered(start: Any) -> None:
    one = start()
    one.submit(greedy(1, 1000))
    assert one.await_finish(1).kind == FinishKind.REFUSED
    assert one.loop.steps == 0


def test_deadlines_are_on_the_clock_of_time_monotonic(start: Any) -> None:
    one = start()
    now_s = time.monotonic()
    one.submit(greedy(1, 4, deadline_s=now_s - 1))
    assert one.await_finish(1).kind == FinishKind.DEADLINE
    one.submit(greedy(2, 4, deadline_s=now_s + 3600))
    assert one.await_finish(2).kind == FinishKind.LENGTH


def test_a_failed_forward_fails_its_requests_alone(
    start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    one = start()
    for handle in range(0, 2 * MAX_CONSECUTIVE_FAILURES, 2):
        one.submit(greedy(handle, 4, TOO_LONG))
        failed = one.await_finish(handle)
        assert failed.kind == FinishKind.FAILED
        assert "worker's log" in str(failed.message)
        one.submit(greedy(handle + 1, 4))
        assert one.await_finish(handle + 1).kind == FinishKind.LENGTH
    assert not one.death
    assert "step 0 failed (1 in a row)" in caplog.messages
    assert str(MAX_ROWS) in caplog.text


def test_failures_in_a_row_end_the_loop(start: Any) -> None:
    one = start()
    for handle in range(MAX_CONSECUTIVE_FAILURES):
        one.submit(greedy(handle, 4, TOO_LONG))
        if handle < MAX_CONSECUTIVE_FAILURES - 1:
            assert one.await_finish(handle).kind == FinishKind.FAILED
    assert f"{MAX_CONSECUTIVE_FAILURES} steps failed in a row" in str(one.await_death())
    assert one.loop.steps == 0


def test_everything_is_delivered_before_a_death_is_reported(start: Any) -> None:
    # Logits are narrower than the engine's vocabulary, tokens that the forward gives are not.
    sizes = {"vocabulary_size": VOCABULARY_SIZE + 1, "max_batch_rows": MAX_ROWS}
    one = start(speculation="auto", **sizes)
    one.submit(greedy(1, 400))
    one.await_steps(5)
    one.submit(request(2, PROMPT, 4))
    assert "row stride is 352" in str(one.await_death())
    assert one.events == ["output"] * one.loop.steps + ["death"]
    assert one.num_tokens == one.engine.load().generated_tokens
    assert not one.loop.busy


def test_a_stop_in_the_middle_loses_no_output(start: Any) -> None:
    one = start(max_batch_rows=MAX_ROWS)
    for handle in range(200):
        one.submit(greedy(handle, 400))
    one.await_steps(5)
    one.loop.stop()
    steps = one.loop.steps
    assert one.events == ["output"] * steps
    assert one.num_tokens == one.engine.load().generated_tokens
    assert len(one.finishes) < 200
    one.loop.stop()
    assert one.loop.steps == steps


def test_an_error_of_the_receiver_ends_the_loop(start: Any) -> None:
    one = start()
    one.tokens = None
    one.submit(greedy(1, 400))
    assert isinstance(one.await_death(), AttributeError)
    # Nothing is delivered after it.
    assert one.events == ["output", "death"]


def test_what_can_wait_is_done_after_a_rest_and_yields_to_work(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "IDLE_WAIT_S", 0.01)
    steps: list[int] = []
    is_bound, enough = threading.Event(), threading.Event()

    def idle() -> bool:
        assert is_bound.wait(WAIT_S)
        steps.append(one.loop.steps)
        if len(steps) == 3:
            # Comes while the slice is computed.
            one.submit(greedy(1, 2))
        if len(steps) == 6:
            enough.set()
        return len(steps) < 6

    one = start(idle=idle)
    is_bound.set()
    assert enough.wait(WAIT_S)
    assert steps[:6] == [0, 0, 0, 2, 2, 2]


def test_a_loop_that_is_asked_again_within_its_rest_does_not_count_as_idle(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "IDLE_WAIT_S", WAIT_S)
    one = start(idle=lambda: pytest.fail("not idle"))
    # A wake-up that is lost in one of them costs the whole rest.
    for handle in range(50):
        one.submit(greedy(handle, 1 + handle % 2))
        one.await_finish(handle)
    assert not one.death
