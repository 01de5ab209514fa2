"""What the device waits for the host in a step of serving: through `spectrie.LLM` and the engine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from bench.gpu.check import Item, Settings
from bench.gpu.clock import clock_of
from bench.gpu.goals import beside
from bench.gpu.models.shapes import ModelShape
from bench.gpu.steps.loaded import dry_options, folder_of, measured_models, on_device
from spectrie import LLM

__all__ = ["items"]

_PROMPT, _TOKENS = 64, 96
_DRY_PROMPT, _DRY_TOKENS = 8, 4


def items(settings: Settings) -> Iterator[Item]:
    """One item a model: one request, and 64."""
    with on_device(settings):
        for model in measured_models(settings)[:2]:
            yield Item(model.name, partial(_measure, settings, model))


def _measure(settings: Settings, model: ModelShape) -> dict[str, Any]:
    with LLM(
        folder_of(settings, model),
        device="cuda",
        speculation=False,
        bigrams="off",
        **dry_options(settings),
    ) as llm:
        found = {
            count: _gap(settings, llm, model, min(count, 3) if settings.dry else count)
            for count in (1, 64)
        }
        exact = llm.numeric_fingerprint
    return {
        "requests": {str(count): one for count, one in found.items()},
        "fingerprint": exact,
        "goals": [
            beside(
                f"host gap of {count} request{'s' if count > 1 else ''}, microseconds",
                one["gap_microseconds"],
            )
            for count, one in found.items()
        ],
    }


def _gap(settings: Settings, llm: LLM, model: ModelShape, count: int) -> dict[str, float]:
    _run(settings, llm, model, count)  # compiles
    step_us = _run(settings, llm, model, count)
    kinds = torch.profiler.ProfilerActivity
    profiler: Any = contextlib.nullcontext()
    if not settings.dry:
        profiler = torch.profiler.profile(activities=[kinds.CUDA], acc_events=True)
    with profiler:
        steps_before = llm.load().steps
        _run(settings, llm, model, count)
        steps = llm.load().steps - steps_before
    device_us = 0.0
    if not settings.dry:
        device_us = sum(one.self_device_time_total for one in profiler.key_averages()) / steps
    return {
        "step_microseconds": round(step_us, 1),
        "device_microseconds": round(device_us, 1),
        "gap_microseconds": round(step_us - device_us, 1),
    }


def _run(settings: Settings, llm: LLM, model: ModelShape, count: int) -> float:
    """Answers some prompts at once; returns microseconds a step, the prompts' among them."""
    length = _DRY_PROMPT if settings.dry else _PROMPT
    prompts = [
        [(request * 7919 + place * 31 + 1) % model.vocabulary for place in range(length)]
        for request in range(count)
    ]
    clock = clock_of(settings.dry)
    steps, started = llm.load().steps, clock.seconds()
    llm.generate(
        prompt_token_ids=prompts,
        max_tokens=_DRY_TOKENS if settings.dry else _TOKENS,
        temperature=0.0,
        ignore_eos=True,
    )
    return 1e6 * (clock.seconds() - started) / max(1, llm.load().steps - steps)
