"""How long a decoder takes for a step, as requests without options are served."""

from __future__ import annotations

import time
from collections.abc import Sequence

from spectrie.model.launch.launcher import Launcher
from spectrie.model.plan import Forward, PlanArrays
from spectrie.model.step.wanted import Wanted

__all__ = ["StepTimer"]


class StepTimer:
    """Times the steps of a decoder, which it alone refers to: a runner that is dropped frees its device at
    once, and not when Python next looks for cycles."""

    def __init__(self, decoder: Forward) -> None:
        self._decoder = decoder

    @property
    def has_device_clock(self) -> bool:
        """Whether `of_device` works: on one GPU, with compiled kernels."""
        return isinstance(self._decoder, Launcher)

    def of_host(self, plan: PlanArrays) -> float:
        """Computes a step as plain greedy requests are served; returns its milliseconds by the host's clock,
        until its results are there."""
        start = time.perf_counter()
        if isinstance(self._decoder, Launcher):
            self._decoder.launch(plan, Wanted.LIKELIEST).wait()
        else:
            self._decoder.forward(plan).logits.cpu()
        return (time.perf_counter() - start) * 1e3

    def of_device(self, plan: PlanArrays) -> float:
        """Computes a step twice, as plain greedy requests are served; returns the milliseconds of the second
        by the device's clock.

        Its work is launched while the device computes the first, so that the host is in no part of its time,
        unless launching takes longer than computing.
        """
        assert isinstance(self._decoder, Launcher)
        span = self._decoder.span()
        first = self._decoder.launch(plan, Wanted.LIKELIEST)
        span.begin()
        second = self._decoder.launch(plan, Wanted.LIKELIEST)
        span.end()
        first.wait()
        second.wait()
        return span.milliseconds()

    def recorded_rows(self) -> Sequence[int]:
        """Sizes of the steps whose layers are recorded, ascending."""
        return self._decoder.recorded_rows if isinstance(self._decoder, Launcher) else ()
