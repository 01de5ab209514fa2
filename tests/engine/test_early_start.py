"""Answers of a GPU whose forwards begin before the host knows the last tokens, and what it does meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.gpu.fake_device import FakeDevice
from spectrie import _core
from spectrie._proto import worker_pb2
from spectrie.engine.python_steps import PythonSteps
from spectrie.model import Runner
from tests.engine.requests import request
from tests.tiny_model import EOS_ID, VOCABULARY_SIZE

Answers = dict[int, tuple[list[int], Any]]


class Watched:
    """An engine whose calls are counted by whether the device had work then."""

    def __init__(self, engine: _core.Engine, device: FakeDevice) -> None:
        self._engine = engine
        self._device = device
        self.counts: Counter[tuple[str, bool]] = Counter()
        self.early_plans = 0
        self.after_commit: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._engine, name)

        def counted(*arguments: Any, **keywords: Any) -> Any:
            self.counts[name, self._device.is_busy] += 1
            result = call(*arguments, **keywords)
            self.early_plans += name == "plan_early" and result is not None
            if name.startswith("commit"):
                self.after_commit()
            return result

        return counted


def run(
    gpu: tuple[Runner, FakeDevice],
    requests: list[_core.Request],
    *,
    starts_early: bool,
    after_commit: Callable[[_core.Engine], None] = lambda engine: None,
    **options: Any,
) -> tuple[Answers, Watched]:
    """The tokens and the end of each request."""
    runner, device = gpu
    engine = _core.Engine(
        {
            "vocabulary_size": VOCABULARY_SIZE,
            "eos_token_ids": [EOS_ID],
            "num_pages": runner.num_pages,
            "max_context": 512,
            "max_running": 8,
            "speculation": "off",
        }
        | options
    )
    watched = Watched(engine, device)
    watched.after_commit = lambda: after_commit(engine)
    answers: Answers = {}

    def deliver(output: _core.StepOutput) -> None:
        bounds, ids = output.token_indptr, output.token_ids
        for index, (handle, finish) in enumerate(zip(output.handles, output.finishes, strict=True)):
            tokens, before = answers.get(handle, ([], None))
            assert before is None
            answers[handle] = (
                [
                    *tokens,
                    *ids[bounds[index] : bounds[index + 1]],
                ],
                finish,
            )

    for one in requests:
        engine.submit(one)
    steps = PythonSteps(watched, runner, deliver, starts_early=starts_early)  # type: ignore[arg-type]
    steps.run(0.0, rested=True)
    steps.close()
    assert not device.is_busy
    return answers, watched


def seen(answers: Answers) -> dict[int, Any]:
    """Tokens, ends and counts."""
    seen = {}
    for handle, (tokens, finish) in answers.items():
        stats = worker_pb2.RequestStats.FromString(finish.stats)
        # How long it took is another matter.
        counts = (stats.cached_tokens, stats.verify_steps, stats.drafted_tokens)
        seen[handle] = tokens, finish.kind, counts
    return seen


def requests(temperature: float) -> list[_core.Request]:
    source = np.random.default_rng(5)
    return [
        request(
            handle,
            source.integers(10, 300, size=4 + 3 * handle).tolist(),
            5 * handle,
            temperature=temperature,
            seed=handle,
        )
        for handle in range(1, 8)
    ]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_answers_and_usage_are_those_of_steps_one_by_one(
    gpu: tuple[Runner, FakeDevice], temperature: float
) -> None:
    early, watched = run(gpu, requests(temperature), starts_early=True)
    one_by_one, unwatched = run(gpu, requests(temperature), starts_early=False)
    assert seen(early) == seen(one_by_one)
    assert watched.early_plans > 25
    assert unwatched.early_plans == 0


def test_the_host_commits_and_learns_while_the_device_computes_the_next_step(
    gpu: tuple[Runner, FakeDevice],
) -> None:
    _, watched = run(gpu, requests(1.0), starts_early=True)
    # Whatever has an early plan behind it is committed beside that one's forward.
    assert watched.counts["commit_tokens", True] == watched.early_plans
    assert watched.counts["commit_tokens", False] <= 8
    _, one_by_one = run(gpu, requests(1.0), starts_early=False)
    assert one_by_one.counts["commit_tokens", True] == 0


def test_a_cancelled_request_ends_between_two_steps_that_overlap(
    gpu: tuple[Runner, FakeDevice],
) -> None:
    commits = 0

    def cancel(engine: _core.Engine) -> None:
        nonlocal commits
        commits += 1
        if commits == 9:
            engine.cancel(7)

    early, watched = run(gpu, requests(1.0), starts_early=True, after_commit=cancel)
    whole, _ = run(gpu, requests(1.0), starts_early=False)
    tokens, finish = early.pop(7)
    assert finish.kind == _core.FinishKind.CANCELLED
    assert 0 < len(tokens) < 35
    assert tokens == whole.pop(7)[0][: len(tokens)]
    assert seen(early) == seen(whole)
    assert watched.early_plans > 20


def test_steps_that_draft_do_not_begin_early_and_others_do(gpu: tuple[Runner, FakeDevice]) -> None:
    # A text that repeats itself, and a draft that costs nothing.
    prompt = [20, 21, 22, 23] * 10
    drafting: dict[str, Any] = {
        "speculation": "auto",
        "drafting_cost_ms": 0.001,
        "holdout_every": 0,
    }
    one = [request(1, prompt, 60, temperature=0.0)]
    early, watched = run(gpu, one, starts_early=True, **drafting)
    again = [request(1, prompt, 60, temperature=0.0)]
    one_by_one, _ = run(gpu, again, starts_early=False, **drafting)
    # How much is drafted goes by measured times, so that it is not the same twice.
    (tokens, _, (_, _, drafted)), (expected, _, (_, _, others)) = (
        seen(early)[1],
        seen(one_by_one)[1],
    )
    assert tokens == expected
    assert min(drafted, others) > 100
    assert watched.early_plans < 30


def test_steps_beside_prompts_and_behind_their_ends_begin_early(
    gpu: tuple[Runner, FakeDevice],
) -> None:
    def asked() -> list[_core.Request]:
        source = np.random.default_rng(7)
        lengths = {1: 5, 2: 150, 3: 90}
        return [
            request(handle, source.integers(10, 300, size=length).tolist(), 30, seed=handle)
            for handle, length in lengths.items()
        ]

    early, watched = run(gpu, asked(), starts_early=True, chunk_tokens=16)
    one_by_one, unwatched = run(gpu, asked(), starts_early=False, chunk_tokens=16)
    assert seen(early) == seen(one_by_one)
    # All but the first step, and the last ones of requests that end.
    assert watched.early_plans > 30
    assert watched.counts["plan", False] < watched.early_plans / 2
    assert unwatched.early_plans == 0
