"""Start, memory, and what a step takes by its rows, its requests and its prompts: exact and fast."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from bench.gpu.check import Item, Settings, Wrong
from bench.gpu.clock import clock_of
from bench.gpu.goals import beside, share_of_copy, share_of_matrix
from bench.gpu.models.shapes import MODELS
from bench.gpu.steps.cold_start import cold_start
from bench.gpu.steps.loaded import LoadedModel, measured_models, on_device
from bench.gpu.steps.to_host import bytes_to_host
from spectrie.model.plan import StepPlan
from spectrie.model.runner.step_profile import decoding_plan, profile_step, serve_step

__all__ = ["items"]

_ROWS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_SENT_ROWS = (1, 8, 24, 64)
_REQUESTS = (1, 4, 16, 64, 128, 256)
_TREE_ROWS = 64
_CONTEXT, _DRY_CONTEXT = 1024, 40
_CHUNK = 2048
_LATER = 8192
_RUNS = 7
_KERNELS = 25


@dataclass(slots=True)
class _Times:
    """Milliseconds of steps of both arithmetics, by number of rows."""

    exact: dict[int, float] = field(default_factory=dict)
    fast: dict[int, float] = field(default_factory=dict)

    def ratio(self, few: bool) -> float | None:
        """The largest of exact over fast, to 64 rows or above; None where one was not measured."""
        both = [n for n in self.exact if n in self.fast and (n <= _TREE_ROWS) == few]
        return max((self.exact[n] / self.fast[n] for n in both), default=None)


def items(settings: Settings) -> Iterator[Item]:
    """Six items a model and arithmetic, loaded by the first one that runs; then a start with nothing
    compiled, of a model that is soon read."""
    with on_device(settings):
        for model in measured_models(settings):
            times = _Times()
            for arithmetic in ("exact", "fast"):
                loaded = LoadedModel(settings, model, arithmetic)
                name = f"{model.name} {arithmetic}"
                yield Item(f"{name}: start", partial(_start, settings, loaded, arithmetic))
                rows = partial(_rows, settings, loaded, times, arithmetic)
                yield Item(f"{name}: rows", rows)
                yield Item(f"{name}: requests", partial(_requests, settings, loaded))
                yield Item(f"{name}: prompts", partial(_prompts, settings, loaded))
                for requests in (1, 64):
                    kernels = partial(_kernels, settings, loaded, requests)
                    yield Item(f"{name}: kernels of {requests} requests", kernels)
                loaded.close()
    soon = measured_models(settings)[-1]
    yield Item(f"{soon.name}: start with nothing compiled", partial(cold_start, settings, soon))


def _start(settings: Settings, loaded: LoadedModel, arithmetic: str) -> dict[str, Any]:
    runner = loaded.runner
    started = clock_of(settings.dry).seconds()
    runner.measure_costs()
    runner.measure_context_cost()
    costs_s = clock_of(settings.dry).seconds() - started
    # What a user waits for once weights are read: graphs, compiling, and the check of bits.
    started_s = loaded.seconds_from("computing") or loaded.seconds_from("warming")
    parts = [loaded.bytes_of(stage) for stage in ("computing", "recording")]
    graphs = None if None in parts else sum(filter(None, parts))
    values = {
        "exact": runner.exact,
        "why_fast": runner.why_fast,
        "fingerprint": runner.numeric_fingerprint,
        "load_seconds": round(loaded.load_seconds, 3),
        "stages": loaded.stages,
        "costs_seconds": round(costs_s, 3),
        "kv_bytes": runner.info.kv_bytes,
        "num_pages": runner.num_pages,
        "max_context": runner.max_context,
        "memory": _memory(settings),
        "goals": [beside("start, seconds", started_s), beside("graph memory, bytes", graphs)],
    }
    if runner.exact != (arithmetic == "exact"):
        raise Wrong(f"served with fast arithmetic, since {runner.why_fast}", values)
    return values


def _memory(settings: Settings) -> dict[str, int]:
    """Bytes on the device: of tensors, kept by torch, and left."""
    if settings.dry:
        return {"tensors": 0, "kept": 0, "left": 0}
    return {
        "tensors": torch.cuda.memory_allocated(),
        "kept": torch.cuda.memory_reserved(),
        "left": int(torch.cuda.mem_get_info()[0]),
    }


def _rows(
    settings: Settings, loaded: LoadedModel, times: _Times, arithmetic: str
) -> dict[str, Any]:
    """Steps of trees of up to 64 rows, each behind a thousand tokens."""
    runner, model = loaded.runner, loaded.model
    took = times.exact if arithmetic == "exact" else times.fast
    for count in (1, 8, 66) if settings.dry else _ROWS:
        requests = -(-count // _TREE_ROWS)
        plan = decoding_plan(
            runner,
            requests=requests,
            rows=count // requests,
            context=_DRY_CONTEXT if settings.dry else _CONTEXT,
        )
        took[count] = _milliseconds(settings, loaded, plan)
    values: dict[str, Any] = {"milliseconds": _rounded(took), "tokens_per_second": 1e3 / took[1]}
    share = share_of_copy(2 * model.weights, 1e3 * took[1], settings.device)
    values["share_of_copy"] = share
    # As the engine asks for them: with likeliest tokens. Recorded heads may have more rows.
    sent = {n: bytes_to_host(runner, runner._costs.plan(n)) for n in _SENT_ROWS if n in took}
    values["bytes_to_host"] = {str(n): one for n, one in sent.items()}
    a_row = max((one / n for n, one in sent.items() if one is not None), default=None)
    goals = [
        beside(f"rows {count} over 1", took[count] / took[1])
        for count in (8, 16, 32, 64)
        if count in took
    ]
    goals.append(beside("bytes to the host a row", a_row))
    if model == MODELS[-1] and arithmetic == "exact":
        goals.append(beside("decode weight bytes, share of copy", share))
    if arithmetic == "fast":
        for name, few in (("to 64 rows", True), ("more rows", False)):
            goals.append(beside(f"exact over fast, {name}", times.ratio(few)))
    return values | {"goals": goals}


def _requests(settings: Settings, loaded: LoadedModel) -> dict[str, Any]:
    """Steps of requests with one row each."""
    took = {}
    for count in (1, 3) if settings.dry else _REQUESTS:
        context = _DRY_CONTEXT if settings.dry else _CONTEXT
        plan = decoding_plan(loaded.runner, requests=count, rows=1, context=context)
        took[count] = _milliseconds(settings, loaded, plan)
    return {"milliseconds": _rounded(took)}


def _prompts(settings: Settings, loaded: LoadedModel) -> dict[str, Any]:
    """Chunks of a prompt, its first and a later one."""
    runner, model = loaded.runner, loaded.model
    chunk = 70 if settings.dry else _CHUNK
    found, goals = {}, []
    for kv_len in (0, 40 if settings.dry else _LATER):
        pages = range(-(-(kv_len + chunk) // runner.page_size))
        tokens = [row * 7919 % runner.vocabulary_size for row in range(chunk)]
        plan = StepPlan.single(
            tokens,
            kv_len=kv_len,
            pages=pages,
            sample_rows=[chunk - 1],
            page_size=runner.page_size,
        )
        took = _milliseconds(settings, loaded, plan)
        *layer, _ = (one.out_features * one.in_features for one in model.products)
        pairs = chunk * (kv_len + (chunk + 1) / 2)
        per_layer = 2 * chunk * sum(layer) + 4 * pairs * model.heads * model.head_dim
        share = share_of_matrix(model.layers * per_layer, 1e3 * took, settings.device)
        found[str(kv_len)] = {"milliseconds": round(took, 3), "share_of_matrix": share}
        if model == MODELS[-1] and not kv_len:
            goals.append(beside("prefill, share of matrix", share))
    return {"chunk": chunk, "after": found, "goals": goals}


def _kernels(settings: Settings, loaded: LoadedModel, requests: int) -> dict[str, Any]:
    """One step by kernel, the slowest first."""
    context = _DRY_CONTEXT if settings.dry else _CONTEXT
    requests = min(requests, 3) if settings.dry else requests
    plan = decoding_plan(loaded.runner, requests=requests, rows=1, context=context)
    profile = profile_step(loaded.runner, plan, steps=1 if settings.dry else 10)
    return {
        "launches": sum(one.launches for one in profile.kernels),
        "kernels": [
            [one.name[:100], one.launches, 0.0 if settings.dry else round(one.microseconds, 2)]
            for one in profile.kernels[:_KERNELS]
        ],
        "device_microseconds": 0.0 if settings.dry else round(profile.device_microseconds, 1),
        "step_microseconds": 0.0 if settings.dry else round(profile.step_microseconds, 1),
    }


def _milliseconds(settings: Settings, loaded: LoadedModel, plan: StepPlan) -> float:
    """The median of some steps as they are served, until their results are on the host."""
    clock, runner = clock_of(settings.dry), loaded.runner
    serve_step(runner, plan)
    times = []
    for _ in range(1 if settings.dry else _RUNS):
        started = clock.seconds()
        serve_step(runner, plan)
        times.append(clock.seconds() - started)
    return 1e3 * statistics.median(times)


def _rounded(times: dict[int, float]) -> dict[str, float]:
    return {str(count): round(ms, 4) for count, ms in times.items()}
