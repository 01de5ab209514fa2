"""What tenants do to each other: priority, many prompts, many names, text that nothing predicts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bench.against.samplers import Sample, Sampler
from bench.support import builds
from spectrie import _core

__all__ = ["SAMPLERS", "Tenants"]

GREEDY_REQUESTS, GREEDY_PRIORITY = 12, 100
STEP_S, GIVEN_UP_S = 0.05, 1_500.0
SIBLINGS = 16_000
SYSTEM_PROMPT_TOKENS, QUESTION_TOKENS = 32, 17
TIMED = 200
NAMES, NAMES_OF_BASE = 1_000_000, 20_000
"""Distinct tenants that end a request each; fewer where each costs more than the one before."""
ANSWERS = 64
_VOCABULARY = 512

_Tokens = NDArray[np.int32]
_Next = Callable[[_Tokens, _Tokens], _Tokens]
"""The next token after each token at each position."""


class Tenants(Sampler):
    """Counts and times of a single engine's thread; forwards take none, or count as 50 or 10 ms."""

    def open(self) -> None:
        """Nothing is kept from one figure to the next."""

    def take(self, number: int) -> Sample:
        share = float(self.more.get("share", 1.0))
        names = NAMES_OF_BASE if self.more.get("is_base") else round(NAMES * share)
        start_us, end_us = _start_and_end_us(names)
        return {
            "first token beside priority 100, s": _first_token_s(),
            "admission beside 16,000 siblings, us": _admission_us(round(SIBLINGS * share)),
            "start of a request after 1,000,000 tenants, us": start_us,
            "end of a request after 1,000,000 tenants, us": end_us,
            "accepted after 64 unpredictable requests, over before": _kept(),
        }, {}


def _first_token_s() -> float:
    """Until the first token of a tenant beside one that keeps up twelve requests at priority 100."""
    engine = _engine(num_pages=600, max_running=4)
    now_s, handle, running = 0.0, 1, 0
    asked_s: float | None = None
    while now_s < GIVEN_UP_S:
        while running < GREEDY_REQUESTS:
            handle, running = handle + 1, running + 1
            engine.submit(_request(handle, [1 + handle % 500] * 4, 20, "greedy", GREEDY_PRIORITY))
        if asked_s is None and now_s > 5.0:
            asked_s = now_s
            engine.submit(_request(1, [3] * 4, 20, "other"))
        plan = engine.plan(now_s)
        now_s += STEP_S
        if plan is None:
            continue
        output = engine.commit_tokens(plan.plan_id, _ones(plan), 1.0, now_s)
        if asked_s is not None and 1 in output.handles:
            return now_s - asked_s
        running -= sum(finish is not None for finish in output.finishes)
    return GIVEN_UP_S


def _admission_us(siblings: int) -> float:
    """The first plan of a request whose system prompt so many texts in the prefix cache follow."""
    engine = _engine(num_pages=2 * siblings + 2_000, max_running=8, vocabulary_size=49_152)
    random = np.random.default_rng(1)
    system = list(range(100, 100 + SYSTEM_PROMPT_TOKENS))
    times = []
    for handle in range(siblings + TIMED):
        question = random.integers(1_000, 49_152, QUESTION_TOKENS).tolist()
        engine.submit(_request(handle, system + question, 1, "one"))
        began = time.thread_time()
        plan = engine.plan(0.0)
        times.append(time.thread_time() - began)
        while plan is not None:
            engine.commit_tokens(plan.plan_id, _ones(plan), 1.0, 0.0)
            plan = engine.plan(0.0)
    return 1e6 * statistics.median(times[-TIMED:])


def _start_and_end_us(names: int) -> tuple[float, float]:
    """Submitting and planning a request, and the commit that ends it, after one of each of so many tenants.

    Each has a namespace of its own, and engine and requests draft and learn as they do by default.
    """
    engine = builds.engine(
        vocabulary_size=_VOCABULARY,
        eos_token_ids=[0],
        max_context=1_000,
        num_pages=600,
        max_running=8,
        overlap=False,
    )
    starts, ends = [], []
    for handle in range(names + TIMED):
        name = f"tenant-{handle}"
        request = builds.greedy_request(handle, [5, 6, 7, 8], 1, namespace=name, tenant=name)
        began = time.thread_time()
        engine.submit(request)
        plan = engine.plan(handle * 1e-3)
        starts.append(time.thread_time() - began)
        if plan is None:
            raise RuntimeError("a request was not planned")
        began = time.thread_time()
        engine.commit_tokens(plan.plan_id, _ones(plan), 1.0, handle * 1e-3)
        ends.append(time.thread_time() - began)
        engine.plan(handle * 1e-3)
    return (
        1e6 * statistics.median(starts[-TIMED:]),
        1e6 * statistics.median(ends[-TIMED:]),
    )


def _kept() -> float:
    """Accepted tokens a step of predictable requests: after unpredictable ones, over a fresh engine."""
    return _accepted([_unpredictable, _predictable]) / _accepted([_predictable])


def _accepted(phases: list[_Next]) -> float:
    engine = _engine(
        num_pages=20_000,
        max_context=4_096,
        max_running=1,
        speculation="auto",
        holdout_every=0,
        memory_bytes=256 << 20,
    )
    engine.set_costs([1, 512], [10.0, 10.1])
    random, handle, accepted = np.random.default_rng(3), 0, 0.0
    for follow in phases:
        before = engine.load()
        for _ in range(ANSWERS):
            handle += 1
            prompt = random.integers(1, _VOCABULARY, 24).tolist()
            engine.submit(builds.greedy_request(handle, prompt, 64, namespace="a"))
        while (plan := engine.plan(0.0)) is not None:
            rows = plan.sample_rows
            tokens = follow(plan.row_token[rows], plan.row_position[rows]).astype(np.int32)
            engine.commit_tokens(plan.plan_id, tokens, 10.0, 0.0)
        load = engine.load()
        taken = load.accepted_tokens - before.accepted_tokens
        accepted = taken / (load.generated_tokens - before.generated_tokens - taken)
    return accepted


def _unpredictable(tokens: _Tokens, positions: _Tokens) -> _Tokens:
    wide, at = tokens.astype(np.int64), positions.astype(np.int64)
    return ((wide * 131 + at * at * 2_654_435_761 % 9_973) % (_VOCABULARY - 1) + 1).astype(np.int32)


def _predictable(tokens: _Tokens, positions: _Tokens) -> _Tokens:
    return ((tokens // 8) * 8 + (tokens % 8 + 1) % 8).astype(np.int32)


def _engine(**options: object) -> _core.Engine:
    given = {
        "vocabulary_size": _VOCABULARY,
        "eos_token_ids": [0],
        "max_context": 1_000,
        "speculation": "off",
        "memory_bytes": 1 << 20,
        "overlap": False,
    }
    return builds.engine(**given | options)


def _request(
    handle: int, prompt: list[int], tokens: int, tenant: str, priority: int = 0
) -> _core.Request:
    return builds.greedy_request(
        handle, prompt, tokens, learn=False, tenant=tenant, priority=priority
    )


def _ones(plan: _core.Plan) -> _Tokens:
    return np.ones(len(plan.sample_rows), dtype=np.int32)


SAMPLERS: dict[str, type[Sampler]] = {"tenants": Tenants}
