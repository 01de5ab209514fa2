"""Steps of any runner, called one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from spectrie.engine.steps import Failures
from spectrie.errors import RankLost

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.model import Runner
    from spectrie.model.plan import StepResult

__all__ = ["PythonSteps"]


class PythonSteps:
    """The steps of a runner on a GPU or on several ranks; see `Steps`.

    `plan`, `forward` and `commit` release the GIL and wait for it afterwards.

    Args:
        engine: Plans and commits.
        runner: Computes.
        deliver: Receives each step's output on the thread that runs steps, when the next step is
            planned; must return at once.
    """

    def __init__(
        self,
        engine: _core.Engine,
        runner: Runner,
        deliver: Callable[[_core.StepOutput], None],
    ) -> None:
        self._engine = engine
        self._runner = runner
        self._deliver = deliver
        self._failures = Failures()
        self._wake = threading.Event()
        self._stopping = False
        self._steps = 0
        self._busy = False
        self._output: _core.StepOutput | None = None

    @property
    def steps(self) -> int:
        """See `Steps`."""
        return self._steps

    @property
    def busy(self) -> bool:
        """See `Steps`."""
        return self._busy

    @property
    def gaps_ms(self) -> Sequence[float]:
        """See `Steps`."""
        return ()

    def run(self, rest_s: float, rested: bool) -> None:
        """See `Steps`."""
        while not self._stopping:
            # Cleared before planning: a submit after this line either is in the plan or leaves the
            # event set.
            self._wake.clear()
            if self._step():
                rested = False
            elif rested or not self._wake.wait(rest_s):
                return

    def wake(self) -> None:
        """See `Steps`."""
        self._wake.set()

    def stop(self) -> None:
        """See `Steps`."""
        self._stopping = True
        self._wake.set()

    def close(self) -> None:
        """See `Steps`."""
        self._busy = False
        self._hand_over()

    def is_own_thread(self) -> bool:
        """See `Steps`."""
        return False

    def _step(self) -> bool:
        """Runs one step; returns False if there was no work."""
        plan = self._engine.plan(time.monotonic())
        self._busy = plan is not None
        # Only now: what it wakes runs beside the forward, not between two of them.
        self._hand_over()
        if plan is None:
            # Refusals, cancellations and deadlines end requests without a step.
            ends = self._engine.take_outputs()
            if ends.handles:
                self._deliver(ends)
            return False
        started = time.monotonic()
        try:
            result = self._runner.step(plan)
        except RankLost:
            # Nothing can be computed any more: waiting requests are better off on another worker.
            raise
        except Exception as error:
            self._failures.add(self._steps, error)
            message = Failures.MESSAGE
            self._output = self._engine.fail(plan.plan_id, message, time.monotonic())
            return True
        self._commit(plan, result, started)
        self._failures.clear()
        self._steps += 1
        return True

    def _commit(self, plan: _core.Plan, result: StepResult, started: float) -> None:
        """Commits the result of a forward that began at `started`."""
        tops = result.top_ids, result.top_probabilities
        if plan.is_greedy and result.tokens is not None:
            # Not a call of torch on this way: each costs some ten microseconds after a forward,
            # which has put other things into the caches.
            now = time.monotonic()
            self._output = self._engine.commit_tokens(
                plan.plan_id, result.tokens, (now - started) * 1e3, now, *tops
            )
            return
        # In CPU memory: the engine reads the rows where they lie. On a GPU the forward ends here.
        logits = result.logits.cpu()
        now = time.monotonic()
        self._output = self._engine.commit_logits(
            plan.plan_id,
            logits.data_ptr(),
            logits.shape[0],
            logits.stride(0) if logits.shape[0] else 0,
            (now - started) * 1e3,
            now,
            *tops,
        )

    def _hand_over(self) -> None:
        """Delivers the last step's output, once."""
        output, self._output = self._output, None
        if output is not None:
            self._deliver(output)
