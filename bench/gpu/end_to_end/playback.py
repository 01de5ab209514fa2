"""Recorded answers in place of a model's own, computed at the model's full cost.

Drawn weights answer noise, which no memory predicts. So the model computes every row of every step, and
then its tokens and likeliest tokens are replaced by those of a recorded request. Rows that leave the
recorded text teach nothing: nobody knows what a model would have said there.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from bench.draft.trace import TOP_K, Request
from spectrie.engine import loop
from spectrie.engine.python_steps import PythonSteps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spectrie import LLM, Completion, _core

__all__ = ["Playback", "thinned"]


@dataclass(frozen=True, slots=True)
class _Text:
    """A recorded request.

    Attributes:
        ids: Prompt and answer.
        topk: After each of them, the likeliest tokens and their probabilities.
    """

    ids: list[int]
    topk: Sequence[tuple[list[int], list[float]]]


def thinned(requests: Sequence[Request], share: float, vocabulary: int) -> list[Request]:
    """The requests with a share of their answers' tokens replaced by unexpected ones, always the same.

    Args:
        requests: The recorded ones.
        share: Of each answer's tokens.
        vocabulary: Tokens are below this.
    """
    source = random.Random(7)

    def changed(token: int) -> int:
        return source.randrange(vocabulary) if source.random() < share else token

    return [
        replace(one, output_ids=[changed(token) for token in one.output_ids]) for one in requests
    ]


class Playback:
    """Recorded answers of an `LLM` that was started within `engines` and then given to `play_on`.

    Attributes:
        replacing_seconds: What finding the recorded tokens took so far, of the time of the steps.
    """

    def __init__(self) -> None:
        self.replacing_seconds = 0.0
        self._texts: dict[int, _Text] = {}
        self._own = threading.local()
        self._numbers = itertools.count(1)

    @contextmanager
    def engines(self) -> Iterator[None]:
        """Engines that are started meanwhile have their results replaced."""

        def steps(engine: Any, runner: Any, deliver: Any) -> PythonSteps:
            played: Any = _PlayedEngine(engine, self)
            return PythonSteps(played, runner, deliver)

        with mock.patch.object(loop, "PythonSteps", steps):
            yield

    def play_on(self, llm: LLM) -> None:
        """Numbers the requests of this `LLM` from now on, so that each is known by its number."""
        numbered: Any = self
        llm._handles = numbered

    def answer(self, llm: LLM, request: Request, **options: Any) -> Completion:
        """Answers a recorded request, greedily and in its recorded length."""
        # It is begun in this thread, which makes the next number its own.
        self._own.text = _Text([*request.prompt_ids, *request.output_ids], request.topk or ())
        return llm.generate(
            prompt_token_ids=request.prompt_ids,
            max_tokens=len(request.output_ids),
            temperature=0.0,
            ignore_eos=True,
            **options,
        )

    def __next__(self) -> int:
        handle = next(self._numbers)
        self._texts[handle] = self._own.text
        return handle

    def results(
        self, plan: _core.Plan
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        """The recorded token after each sampled row, and the likeliest after each top row."""
        started = time.perf_counter()
        after = np.full(len(plan.row_token), -1, np.int64)
        texts: list[_Text] = []
        owners = plan.row_owner
        for begin, count, handle in zip(
            plan.request_row_start.tolist(),
            plan.request_row_count.tolist(),
            plan.request_handle.tolist(),
            strict=True,
        ):
            text = self._texts[handle]
            texts.append(text)
            rows = slice(begin, begin + count)
            after[rows] = _on_path(
                text.ids,
                plan.row_token[rows].tolist(),
                plan.row_position[rows].tolist(),
                plan.row_parent[rows].tolist(),
            )
        tokens = [
            texts[owners[row]].ids[at + 1] if 0 <= at < len(texts[owners[row]].ids) - 1 else 0
            for row in plan.sample_rows.tolist()
            for at in (int(after[row]),)
        ]
        ids = np.full((len(plan.top_rows), TOP_K), -1, np.int32)
        probabilities = np.zeros((len(plan.top_rows), TOP_K), np.float32)
        for place, row in enumerate(plan.top_rows.tolist()):
            topk = texts[owners[row]].topk
            if 0 <= after[row] < len(topk):
                likeliest, values = topk[int(after[row])]
                ids[place, : len(likeliest)] = likeliest
                probabilities[place, : len(values)] = values
        self.replacing_seconds += time.perf_counter() - started
        return np.array(tokens, np.int32), ids, probabilities


def _on_path(
    text: list[int], tokens: list[int], positions: list[int], parents: list[int]
) -> list[int]:
    """Each row's position where it and all before it are the recorded text, else -1."""
    found: list[int] = []
    for token, position, parent in zip(tokens, positions, parents, strict=True):
        follows = parent < 0 or found[parent] >= 0
        # Below -1: what the forward before gives, whose results are those recorded.
        is_recorded = token < -1 or (position < len(text) and text[position] == token)
        there = follows and is_recorded
        if parent < 0 and not there:
            raise RuntimeError(f"the token at {position} is {token}, which was not recorded")
        found.append(position if there else -1)
    return found


class _PlayedEngine:
    """An engine that takes the recorded results in place of those it is given."""

    def __init__(self, engine: Any, playback: Playback) -> None:
        self._engine = engine
        self._playback = playback
        self._plans: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def plan(self, now_s: float) -> Any:
        return self._kept(self._engine.plan(now_s))

    def plan_early(self, now_s: float) -> Any:
        return self._kept(self._engine.plan_early(now_s))

    def fail(self, plan_id: int, *others: Any) -> Any:
        # A plan that began behind it ends with it.
        self._plans.clear()
        return self._engine.fail(plan_id, *others)

    def commit_tokens(
        self, plan_id: int, tokens: Any, elapsed_ms: float, now_s: float, *_: Any, **__: Any
    ) -> Any:
        return self._commit(plan_id, elapsed_ms, now_s)

    def commit_logits(
        self,
        plan_id: int,
        pointer: int,
        rows: int,
        stride: int,
        elapsed_ms: float,
        now_s: float,
        *_: Any,
    ) -> Any:
        return self._commit(plan_id, elapsed_ms, now_s)

    def _commit(self, plan_id: int, elapsed_ms: float, now_s: float) -> Any:
        tokens, *tops = self._playback.results(self._plans.pop(plan_id))
        return self._engine.commit_tokens(plan_id, tokens, elapsed_ms, now_s, *tops)

    def _kept(self, plan: Any) -> Any:
        if plan is not None:
            self._plans[plan.plan_id] = plan
        return plan
