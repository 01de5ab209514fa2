"""A model that goes on as texts do that were written beforehand, and an engine driven by it.

Forwards take no time here: what counts is the time of the engine's thread, and what it did.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bench.support import builds
from spectrie import _core

__all__ = ["VOCABULARY", "Driver", "Script", "StepCost", "zipf"]

VOCABULARY = 49152
TOP_K = 8
_FIRST_MARK = 40_000
_MARKS = 9_000
"""Texts begin with a token of their own: the model knows a request by its first row."""
_FORWARD_MS = 10.0


@dataclass(frozen=True, slots=True)
class Script:
    """A request and the answer that the model gives.

    Attributes:
        tokens: Prompt and answer, int32.
        num_prompt: How many of them are the prompt.
        top: After each token, the likeliest next ones and their probabilities, each [tokens, 8]; None
            where nothing is known.
    """

    tokens: NDArray[np.int32]
    num_prompt: int
    top: tuple[NDArray[np.int32], NDArray[np.float32]] | None = None


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds of the engine's thread in one step, and what happened in it."""

    plan_s: float
    commit_s: float
    draft_calls: int
    num_rows: int
    num_tokens: int
    is_decoding: bool
    ends: bool
    preempts: bool


@dataclass(slots=True)
class Driver:
    """An engine, and the model that answers its plans.

    Args:
        engine: Must be idle.
        forward_ms: Milliseconds that a forward of some rows counts as.
        next_request: Number of the first request. One of the same number begins with the same token, which the
            prefix cache may have.
    """

    engine: _core.Engine
    forward_ms: Callable[[int], float] = lambda _: _FORWARD_MS
    next_request: int = 0
    _texts: dict[int, Script] = field(default_factory=dict)
    _owners: dict[int, int] = field(default_factory=dict)

    def run(
        self, scripts: Sequence[Script], *, namespace: str, learn: bool = False
    ) -> list[StepCost]:
        """Runs requests at once, to their end, and gives what each step cost.

        Args:
            scripts: At most `_MARKS` of them.
            namespace: Of all requests.
            learn: Whether their text is learnt.
        """
        engine = self.engine
        for script in scripts:
            self._submit(script, namespace, learn)
        costs: list[StepCost] = []
        load, now_s = engine.load(), 0.0
        while True:
            began = time.thread_time()
            plan = engine.plan(now_s)
            planned = time.thread_time()
            if plan is None:
                return costs
            forward_ms = self.forward_ms(len(plan.row_token))
            now_s += forward_ms / 1e3
            tokens, ids, probabilities = self._forward(plan)
            committing = time.thread_time()
            output = engine.commit_tokens(
                plan.plan_id, tokens, forward_ms, now_s, ids, probabilities
            )
            commit_s = time.thread_time() - committing
            before, load = load, engine.load()
            costs.append(
                StepCost(
                    plan_s=planned - began,
                    commit_s=commit_s,
                    draft_calls=load.draft_calls - before.draft_calls,
                    num_rows=len(plan.row_token),
                    num_tokens=len(output.token_ids),
                    is_decoding=bool((plan.request_kind == 1).all()),
                    ends=load.running + load.waiting < before.running + before.waiting,
                    preempts=load.preemptions > before.preemptions,
                )
            )

    def repeat(self) -> None:
        """Has the next request be the last one once more, its first token included."""
        self.next_request -= 1

    def _submit(self, script: Script, namespace: str, learn: bool) -> None:
        mark = self.next_request % _MARKS
        tokens = script.tokens.copy()
        tokens[0] = _FIRST_MARK + mark
        self._texts[mark] = replace(script, tokens=tokens)
        prompt = tokens[: script.num_prompt].tolist()
        answer = len(tokens) - script.num_prompt
        self.engine.submit(
            builds.greedy_request(
                self.next_request, prompt, answer, namespace=namespace, learn=learn
            )
        )
        self.next_request += 1

    def _texts_of(self, plan: _core.Plan) -> list[Script]:
        """The text of each request of a plan."""
        firsts = plan.row_token[plan.request_row_start].tolist()
        pages = plan.page_ids[plan.page_indptr[:-1]].tolist()
        for page, first, kv_len in zip(pages, firsts, plan.request_kv_len.tolist(), strict=True):
            if kv_len == 0:
                self._owners[page] = first - _FIRST_MARK
        return [self._texts[self._owners[page]] for page in pages]

    def _forward(
        self, plan: _core.Plan
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        """The next token after each sampled row, and the likeliest ones after each top row."""
        texts = self._texts_of(plan)
        owners, positions, given = plan.row_owner, plan.row_position, plan.row_token
        tokens = np.ones(len(plan.sample_rows), np.int32)
        for index, row in enumerate(plan.sample_rows.tolist()):
            text, at = texts[owners[row]].tokens, positions[row] + 1
            if at < len(text):
                tokens[index] = text[at]
        ids = np.full((len(plan.top_rows), TOP_K), -1, np.int32)
        probabilities = np.zeros((len(plan.top_rows), TOP_K), np.float32)
        for index, row in enumerate(plan.top_rows.tolist()):
            script, at = texts[owners[row]], positions[row]
            # Of a rejected row nobody recorded what the model says.
            if (
                script.top is not None
                and at < len(script.tokens)
                and given[row] == script.tokens[at]
            ):
                ids[index], probabilities[index] = script.top[0][at], script.top[1][at]
        return tokens, ids, probabilities


def zipf(random: np.random.Generator, count: int) -> NDArray[np.int32]:
    """Tokens by Zipf's law, below the marks of requests."""
    weights = 1.0 / np.arange(1, _FIRST_MARK)
    steps = np.cumsum(weights / weights.sum())
    found = np.searchsorted(steps, random.random(count)) + 1
    return found.clip(1, _FIRST_MARK - 1).astype(np.int32)
