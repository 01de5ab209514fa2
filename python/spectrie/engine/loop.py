"""The step loop: plan, forward, commit, in one thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from spectrie.engine.native_steps import NativeSteps
from spectrie.engine.python_steps import PythonSteps
from spectrie.errors import RankLost

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.engine.steps import Steps
    from spectrie.model import Runner

__all__ = ["StepLoop"]

log = logging.getLogger("spectrie.worker")

IDLE_WAIT_S = 0.25
"""Longest sleep without work, so that deadlines of waiting requests are noticed. Only after it does
the loop count as idle: a client that sends its next request at once finds the model free."""


def _nothing() -> bool:
    return False


class StepLoop:
    """Runs steps while the engine has work, and sleeps while it has none.

    A forward that raises fails only the requests of its plan; the loop continues, unless the model
    has lost a rank. With a runner whose forward is `native`, steps never wait for the GIL.

    Args:
        prepare: Creates engine and model on the loop's thread: the threads that share the work of a
            forward belong to the one that started them. Others may submit to the engine at any
            time, and then call `wake`.
        deliver: Receives each step's output, in order and on one thread of the loop, from when the
            next step is planned; must return at once.
        on_death: Receives the exception that ended the loop, after the last output; called on the
            loop's thread.
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
        self._stopping = False
        self._steps: Steps | None = None
        self._thread = threading.Thread(target=self._run, name="spectrie-steps", daemon=True)

    @property
    def steps(self) -> int:
        """Steps done since the start."""
        return 0 if self._steps is None else self._steps.steps

    @property
    def busy(self) -> bool:
        """Whether the last plan had work."""
        return self._steps is not None and self._steps.busy

    @property
    def gaps_ms(self) -> Sequence[float]:
        """Milliseconds from the end of a forward to the start of the next, of the last 1,024.

        Empty on a GPU and with ranks.
        """
        return () if self._steps is None else self._steps.gaps_ms

    def start(self) -> tuple[_core.Engine, Runner]:
        """Starts the thread; returns the result of `prepare`, or raises its exception."""
        self._thread.start()
        return self._prepared.result()

    def wake(self) -> None:
        """Wakes the loop after a change to the engine."""
        # Before there are steps nothing sleeps.
        if self._steps is not None:
            self._steps.wake()

    def stop(self) -> None:
        """Ends the loop after the current step and waits for it, outputs included."""
        self._stopping = True
        steps = self._steps
        if steps is not None:
            steps.stop()
            if steps.is_own_thread():
                return
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            engine, runner = self._prepare()
            steps: Steps
            if runner.native is not None:
                steps = NativeSteps(engine, runner.native, self._deliver)
            else:
                steps = PythonSteps(engine, runner, self._deliver)
            self._steps = steps
        except BaseException as error:
            self._prepared.set_exception(error)
            return
        self._prepared.set_result((engine, runner))
        try:
            rested = False
            # `stop` finds no steps before the line above; it is noticed here.
            while not self._stopping:
                steps.run(IDLE_WAIT_S, rested)
                rested = not self._stopping and self._idle()
            steps.close()
        except BaseException as error:
            if isinstance(error, RankLost):
                # The fault is in another process: where it was noticed says nothing.
                log.error("the step loop ended: %s", error)
            else:
                log.exception("the step loop ended")
            try:
                steps.close()
            finally:
                self._on_death(error)
