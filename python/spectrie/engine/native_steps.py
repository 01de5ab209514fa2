"""Steps that run without Python, and the thread that delivers what they emit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from spectrie.engine.steps import Failures, warn_of_drafter

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["MAX_BEHIND", "NativeSteps"]

MAX_BEHIND = 1024
"""Steps that may run before the output of the first of them is delivered. Then they wait for it: what
nobody takes must not fill the memory."""


class NativeSteps:
    """The steps of a decoder on this CPU; see `Steps`.

    No other Python thread delays a step: the GIL is released while there is work.

    Args:
        engine: Plans and commits.
        decoder: Computes.
        deliver: Receives each step's output on a thread of its own, from when the next step is
            planned.
        max_behind: Outputs that wait for `deliver` at most.
    """

    def __init__(
        self,
        engine: _core.Engine,
        decoder: _core.CpuDecoder,
        deliver: Callable[[_core.StepOutput], None],
        max_behind: int = MAX_BEHIND,
    ) -> None:
        from spectrie import _core

        self._core = _core.CpuSteps(engine, decoder, max_behind=max_behind)
        self._deliver = deliver
        self._failures = Failures()
        self._error: BaseException | None = None
        self._delivery = threading.Thread(
            target=self._run_delivery, name="spectrie-outputs", daemon=True
        )
        self._delivery.start()

    @property
    def steps(self) -> int:
        """See `Steps`."""
        return self._core.steps

    @property
    def busy(self) -> bool:
        """See `Steps`."""
        return self._core.busy

    @property
    def gaps_ms(self) -> Sequence[float]:
        """See `Steps`."""
        return self._core.gaps_ms

    def run(self, rest_s: float, rested: bool) -> None:
        """See `Steps`."""
        while True:
            before = self._core.steps
            failed = self._core.run(time.monotonic(), rest_s, rested)
            self._raise_error()
            if failed is None:
                return
            plan_id, error = failed
            rested = False
            if plan_id is None:
                warn_of_drafter(error)
                continue
            if self._core.steps > before:
                self._failures.clear()
            self._failures.add(self._core.steps, error)
            self._core.fail(plan_id, Failures.MESSAGE, time.monotonic())

    def wake(self) -> None:
        """See `Steps`."""
        self._core.wake()

    def stop(self) -> None:
        """See `Steps`."""
        self._core.stop()

    def close(self) -> None:
        """See `Steps`."""
        self._core.close()
        self._delivery.join()
        self._raise_error()

    def is_own_thread(self) -> bool:
        """See `Steps`."""
        return threading.current_thread() is self._delivery

    def _run_delivery(self) -> None:
        try:
            while (output := self._core.next_output()) is not None:
                self._deliver(output)
        except BaseException as error:
            self._error = error
            self._core.stop()
            # Steps may wait for room.
            while self._core.next_output() is not None:
                pass

    def _raise_error(self) -> None:
        """Raises what `deliver` raised, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error
