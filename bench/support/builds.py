"""What has another name or form in builds that are compared: one way to reach it in each of them.

A build is measured by the newer checkout's benches, so these must run with an older package too. An
older form goes from here when no bench compares with it any more.
"""

from __future__ import annotations

import importlib
from typing import Any

from spectrie import _core
from spectrie._proto import worker_pb2

__all__ = ["engine", "greedy_request", "net_gain", "running", "step_loop"]


def engine(**options: Any) -> _core.Engine:
    """An engine with these options."""
    kind: Any = _core.Engine
    try:
        made: _core.Engine = kind(options)
    except TypeError:
        made = kind(**options)
    return made


def greedy_request(
    handle: int,
    prompt_ids: list[int],
    max_tokens: int,
    *,
    namespace: str = "default",
    learn: bool = True,
    tenant: str | None = None,
    priority: int = 0,
) -> _core.Request:
    """A request whose answer has exactly `max_tokens` tokens, the likeliest ones."""
    kind: Any = _core.Request
    start = worker_pb2.Start(
        namespace=namespace,
        learn=learn,
        tenant=tenant,
        priority=priority,
        prompt_ids=prompt_ids,
        max_tokens=max_tokens,
        ignore_eos=True,
        sampling=worker_pb2.SamplingParameters(
            temperature=0.0, top_p=1.0, typical_p=1.0, repetition_penalty=1.0
        ),
    )
    try:
        made: _core.Request = kind(start.SerializeToString(), handle=handle)
    except TypeError:
        made = kind(
            handle=handle,
            namespace=namespace,
            learn=learn,
            tenant=namespace if tenant is None else tenant,
            priority=priority,
            prompt_ids=prompt_ids,
            max_tokens=max_tokens,
            temperature=0.0,
            ignore_eos=True,
        )
    return made


def net_gain(load: Any) -> float | None:
    """What an engine says that drafts gain; None until it knows."""
    try:
        gain: float | None = load.net_gain
    except AttributeError:
        held_out = load.holdout_tokens * load.step_ms_total
        gain = load.offered_tokens * load.holdout_ms_total / held_out if held_out else None
    return gain


def step_loop() -> Any:
    """The class `StepLoop`."""
    return _first("StepLoop", "spectrie.engine.loop", "spectrie.worker.loop")


def running() -> Any:
    """The function `running`, which starts another `spectrie` command."""
    return _first("running", "spectrie.supervise.command", "spectrie.cli.process")


def _first(name: str, *modules: str) -> Any:
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            continue
    raise ImportError(f"{name} is in none of {', '.join(modules)}")
