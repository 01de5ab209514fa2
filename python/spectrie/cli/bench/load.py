"""Load on a server: requests at a chosen concurrency, and the latencies that came of it."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from spectrie.client import AsyncClient
from spectrie.errors import SpectrieError
from spectrie.types import Completion, SpeculationOptions

__all__ = ["LoadPlan", "Outcome", "Sample", "run_load", "summarise"]

_PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What to send.

    Attributes:
        prompts: Prompts in the form that `AsyncClient.stream` takes, used in turn.
        num_prompts: How many requests.
        max_concurrency: Requests under way at the same time, at most.
        request_rate: Requests started per second; None starts each as soon as another has ended.
        options: Options of every request, such as `max_tokens`.
        speculation: Whether to speculate; None is the server's setting.
    """

    prompts: Sequence[dict[str, Any]]
    num_prompts: int
    max_concurrency: int
    request_rate: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    speculation: bool | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One finished request.

    Attributes:
        completion: Its answer.
        ttft_s: Seconds to the first piece with a token.
        e2el_s: Seconds to the end.
        gaps_s: Seconds between pieces.
    """

    completion: Completion
    ttft_s: float
    e2el_s: float
    gaps_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """All requests of a plan.

    Attributes:
        samples: Those that finished.
        errors: The messages of those that failed.
        duration_s: From the first start to the last end.
    """

    samples: tuple[Sample, ...]
    errors: tuple[str, ...]
    duration_s: float


async def run_load(client: AsyncClient, plan: LoadPlan) -> Outcome:
    """Sends the requests of `plan` and waits for all of them."""
    gate = asyncio.Semaphore(plan.max_concurrency)
    samples: list[Sample] = []
    errors: list[str] = []

    async def one(number: int) -> None:
        if plan.request_rate is not None:
            await asyncio.sleep(number / plan.request_rate)
        async with gate:
            try:
                samples.append(await _request(client, plan, number))
            except SpectrieError as error:
                errors.append(str(error))

    began = time.monotonic()
    await asyncio.gather(*(one(number) for number in range(plan.num_prompts)))
    return Outcome(tuple(samples), tuple(errors), time.monotonic() - began)


async def _request(client: AsyncClient, plan: LoadPlan, number: int) -> Sample:
    prompt = plan.prompts[number % len(plan.prompts)]
    began = time.monotonic()
    times: list[float] = []
    # Nothing is learnt, so that the order of requests and of runs does not decide the figures.
    wish = SpeculationOptions(enabled=plan.speculation, learn=False)
    async with client.stream(**prompt, **plan.options, speculation=wish) as stream:
        async for delta in stream:
            if delta.token_ids:
                times.append(time.monotonic())
        completion = await stream.final()
    ended = time.monotonic()
    first = times[0] if times else ended
    gaps = tuple(later - earlier for earlier, later in pairwise(times))
    return Sample(completion, first - began, ended - began, gaps)


def summarise(outcome: Outcome) -> dict[str, Any]:
    """Counts, throughput, latencies and acceptance, under the names that other tools use.

    TPOT is (end to end - first token) / (tokens - 1), over requests of at least two tokens. ITL is
    the time between two pieces; a piece may carry several tokens.
    """
    samples = outcome.samples
    completions = [sample.completion for sample in samples]
    input_tokens = sum(c.usage.prompt_tokens for c in completions)
    output_tokens = sum(c.usage.completion_tokens for c in completions)
    steps = sum(c.speculation.verify_steps for c in completions)
    accepted = sum(c.speculation.accepted_tokens for c in completions)
    drafted = sum(c.speculation.drafted_tokens for c in completions)
    by_source: dict[str, int] = {}
    for completion in completions:
        for source, count in completion.speculation.accepted_by_source.items():
            by_source[source] = by_source.get(source, 0) + count
    result: dict[str, Any] = {
        "completed": len(samples),
        "failed": len(outcome.errors),
        "duration": outcome.duration_s,
        "total_input_tokens": input_tokens,
        "total_output_tokens": output_tokens,
        "request_throughput": len(samples) / outcome.duration_s,
        "output_throughput": output_tokens / outcome.duration_s,
        "total_token_throughput": (input_tokens + output_tokens) / outcome.duration_s,
        "tokens_per_step": 1 + accepted / steps if steps else None,
        "accepted_per_step": accepted / steps if steps else None,
        "drafted_per_step": drafted / steps if steps else None,
        "acceptance_rate": accepted / drafted if drafted else None,
        "accepted_by_source": by_source,
    }
    tpots = [
        (s.e2el_s - s.ttft_s) / (s.completion.usage.completion_tokens - 1)
        for s in samples
        if s.completion.usage.completion_tokens > 1
    ]
    for name, seconds in (
        ("ttft", [s.ttft_s for s in samples]),
        ("tpot", tpots),
        ("itl", [gap for s in samples for gap in s.gaps_s]),
        ("e2el", [s.e2el_s for s in samples]),
    ):
        result |= _latencies(name, seconds)
    return result


def _latencies(name: str, seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    ordered = sorted(1000 * value for value in seconds)
    result = {f"mean_{name}_ms": statistics.fmean(ordered)}
    for percentile in _PERCENTILES:
        index = min(len(ordered) - 1, int(len(ordered) * percentile / 100))
        result[f"p{percentile}_{name}_ms"] = ordered[index]
    return result
