"""Steps that need no Python: no GIL, and outputs that wait for their receiver."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from spectrie import _core
from spectrie.engine import loop
from spectrie.engine.native_steps import NativeSteps
from spectrie.model import Runner
from tests.engine.requests import request
from tests.engine.running import WAIT_S, RunningLoop, load_tiny_runner

PROMPT = [5, 6, 7]
MAX_BEHIND = 4


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield load_tiny_runner(tmp_path_factory.mktemp("model"))


@pytest.fixture
def running(runner: Runner) -> Iterator[RunningLoop]:
    running = RunningLoop(runner, "native")
    yield running
    running.close()


def test_steps_go_on_while_another_thread_keeps_the_gil(running: RunningLoop) -> None:
    # The thread that delivers must not be the reason why the test passes, nor ask for the GIL.
    running.submit(request(1, PROMPT, 2, temperature=0.0))
    running.await_finish(1)
    before, events = running.loop.steps, len(running.events)
    # Unlike other calls of ctypes, one of this kind does not release the GIL.
    sleep_us = ctypes.PyDLL(None).usleep
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    try:
        running.submit(request(2, PROMPT, 64, temperature=0.0))
        deadline = time.monotonic() + WAIT_S
        while running.loop.steps < before + 64 and time.monotonic() < deadline:
            sleep_us(500)
        steps, delivered = running.loop.steps, len(running.events)
    finally:
        sys.setswitchinterval(interval_s)
    assert steps == before + 64
    # No other thread ran Python meanwhile.
    assert delivered == events
    running.await_finish(2)
    assert len(running.tokens[2]) == 64


def test_gaps_are_counted_while_there_is_work_and_not_while_there_is_none(
    running: RunningLoop,
) -> None:
    for handle in range(3):
        running.submit(request(handle, PROMPT, 5, temperature=0.0))
        running.await_finish(handle)
    assert len(running.loop.gaps_ms) == running.loop.steps - 3 == 12
    assert min(running.loop.gaps_ms) > 0


def test_steps_do_not_wait_for_a_slow_receiver_which_gets_everything_in_order(
    running: RunningLoop,
) -> None:
    running.submit(request(1, PROMPT, 64, temperature=0.0))
    running.await_finish(1)
    running.gate.clear()
    running.waits.clear()
    running.submit(request(2, PROMPT, 64, temperature=0.0))
    running.await_steps(128)
    assert running.waits.wait(WAIT_S)
    assert 2 not in running.tokens
    running.gate.set()
    running.await_finish(2)
    assert running.tokens[2] == running.tokens[1]


def test_steps_wait_once_too_many_outputs_do(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "NativeSteps", partial(NativeSteps, max_behind=MAX_BEHIND))
    running = RunningLoop(runner, "native")
    running.gate.clear()
    running.submit(request(1, PROMPT, 64, temperature=0.0))
    # One is being delivered, and one finds no room.
    most = 1 + MAX_BEHIND + 1
    running.await_steps(most)
    for _ in range(50):
        time.sleep(0.001)
        assert running.loop.steps == most
    running.gate.set()
    running.await_finish(1)
    assert len(running.tokens[1]) == 64 == len(running.events)
    running.close()


def test_a_loop_whose_steps_wait_for_room_can_be_stopped(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "NativeSteps", partial(NativeSteps, max_behind=MAX_BEHIND))
    running = RunningLoop(runner, "native")
    running.gate.clear()
    running.submit(request(1, PROMPT, 64, temperature=0.0))
    running.await_steps(1 + MAX_BEHIND + 1)
    stop, is_told = running.loop._steps.stop, threading.Event()  # type: ignore[union-attr]

    def tell() -> None:
        stop()
        is_told.set()

    running.loop._steps.stop = tell  # type: ignore[union-attr, method-assign]
    stopping = threading.Thread(target=running.loop.stop)
    stopping.start()
    assert is_told.wait(WAIT_S)
    running.gate.set()
    stopping.join(WAIT_S)
    assert not stopping.is_alive()
    assert running.num_tokens == running.loop.steps < 64


def test_the_receiver_may_stop_the_loop(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without room for more, steps are not done before the receiver comes to it.
    monkeypatch.setattr(loop, "NativeSteps", partial(NativeSteps, max_behind=MAX_BEHIND))
    running = RunningLoop(runner, "native")
    deliver = running.loop._steps._deliver  # type: ignore[union-attr]
    stopped = threading.Event()

    def stop(output: Any) -> None:
        deliver(output)
        running.loop.stop()
        stopped.set()

    running.loop._steps._deliver = stop  # type: ignore[union-attr]
    running.submit(request(1, PROMPT, 400, temperature=0.0))
    assert stopped.wait(WAIT_S)
    running.close()
    assert running.num_tokens == running.loop.steps < 400


def test_a_queue_without_room_is_refused(running: RunningLoop, runner: Runner) -> None:
    assert runner.native is not None
    with pytest.raises(ValueError, match=r"max_behind is 0; allowed: 1 or more"):
        _core.CpuSteps(running.engine, runner.native, max_behind=0)
