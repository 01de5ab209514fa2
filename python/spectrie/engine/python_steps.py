"""Steps of any runner, called one by one."""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from spectrie.engine.steps import Failures, warn_of_drafter
from spectrie.errors import RankLost
from spectrie.model.step.wanted import Wanted

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.model import Runner
    from spectrie.model.launch.launcher import Launched
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
        starts_early: Whether a forward may be launched before the results of the one before are known,
            where the runner can. Only tests turn it off.
    """

    def __init__(
        self,
        engine: _core.Engine,
        runner: Runner,
        deliver: Callable[[_core.StepOutput], None],
        *,
        starts_early: bool = True,
    ) -> None:
        self._starts_early = starts_early and runner.device_shape is not None
        self._drafts = runner.drafts
        self._engine = engine
        self._runner = runner
        self._deliver = deliver
        self._failures = Failures()
        self._wake = threading.Event()
        self._stopping = False
        self._steps = 0
        self._busy = False
        self._output: _core.StepOutput | None = None
        self._early: _Step | None = None
        self._ended = 0.0
        self._last: Launched | None = None

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
        while not self._stopping or self._early is not None:
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
        early, self._early = self._early, None
        step = early or self._planned()
        self._busy = step is not None
        if step is None:
            self._hand_over()
            # Refusals, cancellations and deadlines end requests without a step.
            ends = self._engine.take_outputs()
            if ends.handles:
                self._deliver(ends)
            return False
        self._early = self._planned_early(step)
        # Only now: what it wakes runs beside the forward, not between two of them.
        self._hand_over()
        try:
            result = step.wait()
        except RankLost:
            # Nothing can be computed any more: waiting requests are better off on another worker.
            raise
        except Exception as error:
            return self._failed(step.plan, error)
        self._commit(step, result)
        self._failures.clear()
        self._steps += 1
        return True

    def _planned(self) -> _Step | None:
        """Plans the next step, and launches it where the runner can."""
        if self._drafts:
            self._ask()
        plan = self._engine.plan(time.monotonic())
        return None if plan is None else self._begun(plan, None)

    def _ask(self) -> None:
        """Asks drafters what the engine wants of them for the next step."""
        while (level := self._engine.draft_plan(time.monotonic())) is not None:
            self._busy = True
            self._hand_over()
            try:
                started = time.monotonic()
                answers = self._runner.draft(level)
                elapsed_ms = (time.monotonic() - started) * 1e3
                self._engine.draft_results(
                    answers.ids, answers.probabilities, answers.scored, elapsed_ms
                )
            except RankLost:
                raise
            except Exception as error:
                warn_of_drafter(error, level.drafter)
                # What failed has the drafter's memory, which the others may need at once.
                traceback.clear_frames(error.__traceback__)
                self._runner.drop_drafter(level.drafter)
                self._drafts = self._runner.drafts
                self._engine.draft_failed()
                return

    def _planned_early(self, step: _Step) -> _Step | None:
        """Launches what follows a step on the device, if that needs none of its results."""
        launched = step.launched
        # Not once steps are recorded no more.
        may_start = self._starts_early and self._runner.starts_early and not self._stopping
        if not may_start or launched is None or launched.drawn is None:
            return None
        plan = self._engine.plan_early(time.monotonic())
        return None if plan is None else self._begun(plan, launched)

    def _wanted(self, plan: _core.Plan) -> Wanted:
        """What the plan's requests need of its sample rows."""
        if plan.is_greedy:
            return Wanted.LIKELIEST
        if plan.is_drawable and self._runner.device_shape is not None:
            return Wanted.DRAWN
        return Wanted.LOGITS

    def _begun(self, plan: _core.Plan, behind: Launched | None) -> _Step:
        """Launches the forward where the runner can. What that raises, waiting for the step raises."""
        wanted, shape = self._wanted(plan), self._runner.device_shape
        step = _Step(plan, wanted, time.monotonic())
        if shape is None:
            step.wait = partial(self._computed, step)
            return step
        # Serving writes each step where the device reads it, without a detour through Python.
        pack = partial(self._engine.pack, plan, shape)
        try:
            step.launched = self._runner.launch(plan, wanted, pack, behind, plan.logit_samples)
            step.wait = step.launched.wait
        except Exception as error:
            step.wait = partial(_raise, error)
        return step

    def _computed(self, step: _Step) -> StepResult:
        """Computes a step at once."""
        step.started = time.monotonic()
        return self._runner.step(step.plan)

    def _failed(self, plan: _core.Plan, error: Exception) -> bool:
        """Ends the requests of a plan whose forward failed.

        Raises:
            RuntimeError: Too many have failed in a row.
        """
        self._hand_over()
        self._last = None
        early, self._early = self._early, None
        if early is not None:
            # It has ended with this one, but the device may still write to the cache.
            with contextlib.suppress(Exception):
                early.wait()
        self._failures.add(self._steps, error)
        self._output = self._engine.fail(plan.plan_id, Failures.MESSAGE, time.monotonic())
        return True

    def _commit(self, step: _Step, result: StepResult) -> None:
        """Commits the result of a forward."""
        plan = step.plan
        tops = result.top_ids, result.top_probabilities
        is_drawn = step.wanted is Wanted.DRAWN and result.tokens is not None
        # One that was launched behind another began when that one ended, and a drafter's level behind it.
        followed_s = 0.0 if self._last is None else self._last.followed_ms / 1e3
        before = self._ended + followed_s
        started = max(step.started, before)
        waited_s = min(followed_s, max(before - step.started, 0.0))
        if waited_s > 0:
            self._engine.note_waited(waited_s * 1e3)
        self._last = step.launched
        if result.tokens is not None and (is_drawn or plan.is_greedy):
            # Not a call of torch on this way: each costs some ten microseconds after a forward,
            # which has put other things into the caches.
            now = self._ended = time.monotonic()
            self._output = self._engine.commit_tokens(
                plan.plan_id,
                result.tokens,
                max(now - started, 0.0) * 1e3,
                now,
                *tops,
                drawn=is_drawn,
                logits=result.on_host() if is_drawn and len(result.stored) else None,
                compacted=result.compacted,
            )
            return
        # In CPU memory: the engine reads the rows where they lie. On a GPU the forward ends here.
        logits = result.on_host()
        now = self._ended = time.monotonic()
        self._output = self._engine.commit_logits(
            plan.plan_id,
            logits.ctypes.data,
            len(logits),
            logits.strides[0] // logits.itemsize if len(logits) else 0,
            max(now - started, 0.0) * 1e3,
            now,
            *tops,
        )

    def _hand_over(self) -> None:
        """Delivers the last step's output, once."""
        output, self._output = self._output, None
        if output is not None:
            self._deliver(output)


@dataclass(slots=True)
class _Step:
    """A plan whose forward was launched, or will be computed when it is waited for.

    Attributes:
        wait: Returns the result, or raises what went wrong.
    """

    plan: _core.Plan
    wanted: Wanted
    started: float
    launched: Launched | None = None
    wait: Callable[[], StepResult] = field(init=False)


def _raise(error: Exception) -> NoReturn:
    raise error
