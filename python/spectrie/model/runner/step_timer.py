"""How long a decoder takes for a step, as requests without options are served."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spectrie.model.decoder.cpu import CpuDecoder
from spectrie.model.plan import Forward, PlanArrays
from spectrie.model.step.wanted import Wanted

if TYPE_CHECKING:
    from spectrie.model.launch.launcher import Launcher

__all__ = ["StepTimer", "launcher_of"]


def launcher_of(decoder: Forward) -> Launcher | None:
    """Returns a decoder that launches its steps, on one GPU; None for one that computes them at once."""
    if isinstance(decoder, CpuDecoder):
        # Without torch, which the other's type needs.
        return None
    from spectrie.model.launch.launcher import Launcher

    return decoder if isinstance(decoder, Launcher) else None


class StepTimer:
    """Times the steps of a decoder, which it alone refers to: a runner that is dropped frees its device at
    once, and not when Python next looks for cycles."""

    def __init__(self, decoder: Forward) -> None:
        self._decoder = decoder
        self._launcher = launcher_of(decoder)

    @property
    def has_device_clock(self) -> bool:
        """Whether `of_device` works: on one GPU, with compiled kernels."""
        return self._launcher is not None

    def of_host(self, plan: PlanArrays) -> float:
        """Computes a step as plain greedy requests are served; returns its milliseconds by the host's clock,
        until its results are there."""
        start = time.perf_counter()
        if self._launcher is not None:
            self._launcher.launch(plan, Wanted.LIKELIEST).wait()
        else:
            self._decoder.forward(plan).on_host()
        return (time.perf_counter() - start) * 1e3

    def of_device(self, plan: PlanArrays) -> float:
        """Computes a step twice, as plain greedy requests are served; returns the milliseconds of the second
        by the device's clock.

        Its work is launched while the device computes the first, so that the host is in no part of its time,
        unless launching takes longer than computing.
        """
        launcher = self._launcher
        assert launcher is not None
        span = launcher.span()
        first = launcher.launch(plan, Wanted.LIKELIEST)
        span.begin()
        second = launcher.launch(plan, Wanted.LIKELIEST)
        span.end()
        first.wait()
        second.wait()
        return span.milliseconds()

    def recorded_rows(self) -> Sequence[int]:
        """Sizes of the steps whose layers are recorded, ascending."""
        return () if self._launcher is None else self._launcher.recorded_rows
