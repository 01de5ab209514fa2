"""The step loop: plan, forward, commit, in one thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from spectrie.errors import RankLost

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.model import Runner
    from spectrie.model.plan import StepResult

__all__ = ["StepLoop"]

log = logging.getLogger("spectrie.worker")

MAX_CONSECUTIVE_FAILURES = 5
"""Consecutive failed forwards after which the loop gives up: no single request is to blame."""

IDLE_WAIT_S = 0.25
"""Longest sleep without work, so that deadlines of waiting requests are noticed. Only after it does
the loop count as idle: a client that sends its next request at once finds the model free."""


def _nothing() -> bool:
    return False


class StepLoop:
    """Runs steps while the engine has work, and sleeps while it has none.

    A forward that raises fails only the requests of its plan; the loop continues, unless the model
    has lost a rank. `plan`, `forward` and `commit` release the GIL.

    Args:
        prepare: Creates engine and model on the loop's thread: the threads that share the work of a
            forward belong to the one that started them. Others may submit to the engine at any
            time, and then call `wake`.
        deliver: Receives each step's output on the loop's thread, when the next step is planned;
            must return at once.
        on_death: Receives the exception that ended the loop; called on the loop's thread.
        idle: Does a little deferred work on the loop's thread while no request is held; returns
            False if there is none.
    """

    def __init__(
        self,
        prepare: Callable[[], tuple[_core.Engine, Runner]],
        deliver: Callable[[_core.StepOutput], None],
        on_death: Callable[[BaseException], None],
        idle: Callable[[], bool] = _nothing,
    ) -> None:
        self._prepare = prepare
        self._prepared: Future[tuple[_core.Engine, Runner]] = Future()
        self._deliver = deliver
        self._on_death = on_death
        self._idle = idle
        self._wake = threading.Event()
        self._stopping = False
        self._failures = 0
        self._steps = 0
        self._busy = False
        self._output: _core.StepOutput | None = None
        self._thread = threading.Thread(target=self._run, name="spectrie-steps", daemon=True)

    @property
    def steps(self) -> int:
        """Steps done since the start."""
        return self._steps

    @property
    def busy(self) -> bool:
        """Whether the last plan had work."""
        return self._busy

    def start(self) -> tuple[_core.Engine, Runner]:
        """Starts the thread; returns the result of `prepare`, or raises its exception."""
        self._thread.start()
        return self._prepared.result()

    def wake(self) -> None:
        """Wakes the loop after a change to the engine."""
        self._wake.set()

    def stop(self) -> None:
        """Ends the loop after the current step and waits for it."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            engine, runner = self._prepare()
        except BaseException as error:
            self._prepared.set_exception(error)
            return
        self._prepared.set_result((engine, runner))
        try:
            rested = False
            while not self._stopping:
                # Cleared before planning: a submit after this line either is in the plan or
                # leaves the event set.
                self._wake.clear()
                if self._step(engine, runner):
                    rested = False
                elif not (rested and self._idle()):
                    rested = not self._wake.wait(IDLE_WAIT_S)
        except BaseException as error:
            if isinstance(error, RankLost):
                # The fault is in another process: where it was noticed says nothing.
                log.error("the step loop ended: %s", error)
            else:
                log.exception("the step loop ended")
            self._busy = False
            try:
                self._hand_over()
            finally:
                self._on_death(error)
        else:
            self._hand_over()

    def _step(self, engine: _core.Engine, runner: Runner) -> bool:
        """Runs one step; returns False if there was no work."""
        plan = engine.plan(time.monotonic())
        self._busy = plan is not None
        # Only now: what it wakes runs beside the forward, not between two of them.
        self._hand_over()
        if plan is None:
            # Refusals, cancellations and deadlines end requests without a step.
            ends = engine.take_outputs()
            if ends.handles:
                self._deliver(ends)
            return False
        started = time.monotonic()
        try:
            result = runner.step(plan)
        except RankLost:
            # Nothing can be computed any more: waiting requests are better off on another worker.
            raise
        except Exception as error:
            self._fail(engine, plan.plan_id, error)
            return True
        self._output = _commit(engine, plan, result, started)
        self._failures = 0
        self._steps += 1
        return True

    def _hand_over(self) -> None:
        """Delivers the last step's output, once."""
        output, self._output = self._output, None
        if output is not None:
            self._deliver(output)

    def _fail(self, engine: _core.Engine, plan_id: int, error: Exception) -> None:
        self._failures += 1
        log.exception("step %d failed (%d in a row)", self._steps, self._failures)
        if self._failures >= MAX_CONSECUTIVE_FAILURES:
            raise RuntimeError(f"{self._failures} steps failed in a row") from error
        message = "the model failed on this step; the worker's log has the details"
        self._output = engine.fail(plan_id, message, time.monotonic())


def _commit(
    engine: _core.Engine, plan: _core.Plan, result: StepResult, started: float
) -> _core.StepOutput:
    """Commits the result of a forward that began at `started`."""
    tops = result.top_ids, result.top_probabilities
    if plan.is_greedy and result.tokens is not None:
        # Not a call of torch on this way: each costs some ten microseconds after a forward, which
        # has put other things into the caches.
        now = time.monotonic()
        return engine.commit_tokens(plan.plan_id, result.tokens, (now - started) * 1e3, now, *tops)
    # In CPU memory: the engine reads the rows where they lie. On a GPU the forward ends here.
    logits = result.logits.cpu()
    now = time.monotonic()
    return engine.commit_logits(
        plan.plan_id,
        logits.data_ptr(),
        logits.shape[0],
        logits.stride(0) if logits.shape[0] else 0,
        (now - started) * 1e3,
        now,
        *tops,
    )
