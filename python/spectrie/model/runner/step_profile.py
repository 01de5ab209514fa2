"""One step of a model by kernel: what each takes on the device, and what the host adds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from spectrie.model import gpu
from spectrie.model.plan import StepPlan
from spectrie.model.runner.runner import Runner
from spectrie.model.step.wanted import Wanted

__all__ = ["KernelTime", "StepProfile", "decoding_plan", "profile_step", "serve_step"]

_STEPS = 10


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel's part of a step.

    Attributes:
        name: The kernel.
        launches: How often a step launches it.
        microseconds: What all its launches of a step take.
    """

    name: str
    launches: float
    microseconds: float


@dataclass(frozen=True, slots=True)
class StepProfile:
    """A step that was repeated a few times.

    Attributes:
        kernels: Those that take longest first.
        step_microseconds: From the call of a step until its results are there; the median, without the
            profiler.
    """

    kernels: tuple[KernelTime, ...]
    step_microseconds: float

    @property
    def device_microseconds(self) -> float:
        """What all kernels of a step take."""
        return sum(one.microseconds for one in self.kernels)

    @property
    def gap_microseconds(self) -> float:
        """What the device waits for the host in a step."""
        return max(self.step_microseconds - self.device_microseconds, 0.0)


def decoding_plan(runner: Runner, *, requests: int, rows: int, context: int) -> StepPlan:
    """Returns a step of equal requests, each with `rows` rows behind `context` cached tokens.

    Requests share the cache's pages where it has not enough for all.
    """
    most = min(runner.max_context, runner.num_pages * runner.page_size)
    kv_len = max(0, min(context, most - rows))
    count = -(-(kv_len + rows) // runner.page_size)

    def request(index: int) -> StepPlan:
        first = index * count
        pages = [(first + page) % runner.num_pages for page in range(count)]
        tokens = [(index * 31 + row * 7919) % runner.vocabulary_size for row in range(rows)]
        parents = list(range(-1, rows - 1))
        return StepPlan.single(
            tokens, kv_len=kv_len, pages=pages, parents=parents, page_size=runner.page_size
        )

    return StepPlan.joined([request(index) for index in range(requests)])


def serve_step(runner: Runner, plan: StepPlan) -> None:
    """Computes a step as plain greedy requests are served; returns when its results are on the host.

    On one GPU that is recorded work as far as possible, and tokens travel instead of logits.
    """
    if runner.launches:
        runner.launch(plan, Wanted.LIKELIEST).wait()
    else:
        runner.step(plan).logits.cpu()


def profile_step(runner: Runner, plan: StepPlan, steps: int = _STEPS) -> StepProfile:
    """Runs a step as plain greedy requests are served some times, then some times more under the profiler.

    Overwrites the pages that the plan names. Without a GPU, operators of torch stand in for kernels.
    """
    serve_step(runner, plan)
    times = []
    for _ in range(steps):
        started = time.perf_counter()
        serve_step(runner, plan)
        times.append((time.perf_counter() - started) * 1e6)
    on_gpu = gpu.device(0).type == "cuda"
    kinds = torch.profiler.ProfilerActivity
    activities = [kinds.CUDA if on_gpu else kinds.CPU]
    with torch.profiler.profile(activities=activities, acc_events=True) as profiler:
        for _ in range(steps):
            serve_step(runner, plan)
    kernels = _kernels(profiler.key_averages(), steps, on_gpu)
    return StepProfile(kernels, statistics.median(times))


def _kernels(events: Any, steps: int, on_gpu: bool) -> tuple[KernelTime, ...]:
    """Averages by name; what the host does is left out where there is a device."""
    took: Callable[[Any], float] = (
        (lambda event: float(event.self_device_time_total))
        if on_gpu
        else (lambda event: float(event.self_cpu_time_total))
    )
    found = [
        KernelTime(event.key, event.count / steps, took(event) / steps)
        for event in events
        if took(event) > 0
    ]
    return tuple(sorted(found, key=lambda one: -one.microseconds))
