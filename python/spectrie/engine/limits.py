"""How much an engine does at once where no option says so: by the device that computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spectrie.model import machine

if TYPE_CHECKING:
    from spectrie.engine.options import EngineOptions
    from spectrie.model import Runner

__all__ = ["chunk_tokens", "draft_threads", "max_running"]

_PAGES_PER_RUNNING = 16
"""Each running request has at least this many pages, 256 tokens."""
_RUNNING = 64
_GPU_RUNNING = 256
_CHUNK_TOKENS = 256
_GPU_CHUNK_TOKENS = 2048
"""From about a thousand rows on a GPU multiplies at its full rate; answers that wait for a prompt wait
less for a shorter chunk, which `max_step_ms` sees to."""
_GPU_DRAFT_THREADS = 8
"""More would wait for each other's start longer than they draft."""


def max_running(options: EngineOptions, runner: Runner) -> int:
    """Returns the maximum number of running requests: the option, else what the cache can hold."""
    if options.max_running is not None:
        return options.max_running
    most = _GPU_RUNNING if _on_gpu(runner) else _RUNNING
    return max(1, min(most, runner.max_batch_rows, runner.num_pages // _PAGES_PER_RUNNING))


def chunk_tokens(options: EngineOptions, runner: Runner) -> int:
    """Returns the maximum prompt tokens of a step: the option, else as suits the device."""
    if options.chunk_tokens is not None:
        return options.chunk_tokens
    return min(_GPU_CHUNK_TOKENS, runner.max_batch_rows) if _on_gpu(runner) else _CHUNK_TOKENS


def draft_threads(runner: Runner) -> int:
    """Returns the maximum threads that draft between two steps: where the model computes on a GPU, its cores
    are free meanwhile."""
    return min(_GPU_DRAFT_THREADS, machine.num_cores()) if _on_gpu(runner) else 1


def _on_gpu(runner: Runner) -> bool:
    return runner.device_name != "cpu"
