"""Replays beside the engine that serves: `python -m bench.draft.heads.live --drafter PATH`.

Both draft for the same answers by the same rule: rows and levels cost next to nothing, so all that may gain are bought.
The replay takes the head to be as sure on paths that the output did not take. An engine also recycles what
the model said on such paths, which no trace holds, head or not; so both are compared without recycling, unless asked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.draft import trace
from bench.draft.bigrams import FILE, read_bigrams
from bench.draft.recording.answers import LEVELS, record_answers
from spectrie import _core
from spectrie._proto import worker_pb2
from spectrie.model.plan import StepPlan
from spectrie.types import Source

if TYPE_CHECKING:
    from spectrie.model import Runner

__all__ = ["Comparison", "compare"]

_PAGES = 512
_NODES = 16
_STEP_MS = 10.0
_LEVEL_MS = 0.001
_LEAST_GAIN = 0.001
_MOST = 63
_MIN_VALUE = 0.01
"""What an engine never drafts for, however cheap rows are: less likely tokens."""
_PROBE_EVERY = 64
"""As an engine tries a head again that it no longer asks."""
_ALLOWED = 0.02


@dataclass(frozen=True, slots=True)
class Comparison:
    """What an engine and a replay of its answers accepted.

    Attributes:
        tokens: Tokens of all answers but the first of each, which a prompt's forward gives.
        live_steps: Forwards of the engine that gave them.
        replay_steps: Forwards that the replay takes.
    """

    tokens: int
    live_steps: int
    replay_steps: int

    @property
    def live(self) -> float:
        """Accepted tokens per step of the engine."""
        return self.tokens / self.live_steps - 1

    @property
    def replayed(self) -> float:
        """Accepted tokens per step of the replay."""
        return self.tokens / self.replay_steps - 1

    @property
    def ratio(self) -> float:
        """The replay's over the engine's."""
        return self.replayed / self.live


def main() -> int:
    """Prints both; fails where they differ by more than 2 %."""
    parser = argparse.ArgumentParser(prog="python -m bench.draft.heads.live", description=__doc__)
    parser.add_argument("--drafter", type=Path, required=True, help="folder of the head")
    parser.add_argument("--model", default="smollm2-135m", help="model [smollm2-135m]")
    parser.add_argument("--trace", default="chat", help="whose prompts are answered [chat]")
    parser.add_argument("--requests", type=int, default=24, help="so many of them [24]")
    parser.add_argument("--max-tokens", type=int, default=128, help="tokens per answer [128]")
    parser.add_argument("--recycle", action="store_true", help="also recycle what the model says")
    parser.add_argument("--threads", type=int, help="threads [the fastest count]")
    args = parser.parse_args()
    from spectrie.model import load_runner, resolve

    requests = trace.read(trace.TRACES / f"{args.trace}.jsonl.xz")[: args.requests]
    runner = load_runner(
        resolve(args.model).folder,
        threads=args.threads,
        num_pages=_PAGES,
        drafter=args.drafter,
    )
    try:
        found = compare(
            runner,
            [request.prompt_ids for request in requests],
            max_tokens=args.max_tokens,
            bigrams=read_bigrams(trace.TRACES / FILE),
            recycle=args.recycle,
        )
    finally:
        runner.close()
    print(
        f"{args.trace}, {len(requests)} requests, {found.tokens} tokens, {runner.dtype_name}: accepted per step"
        f" {found.live:.3f} live in {found.live_steps} steps, {found.replayed:.3f} replayed in"
        f" {found.replay_steps}: {found.ratio:.3f}x"
    )
    return 0 if abs(found.ratio - 1) <= _ALLOWED else 1


def compare(
    runner: Runner,
    prompts: Sequence[Sequence[int]],
    *,
    max_tokens: int,
    bigrams: _core.Bigrams | None = None,
    recycle: bool = False,
) -> Comparison:
    """Answers prompts one after the other, greedily, and replays the answers; equal runs give equal figures.

    Args:
        runner: A model on a CPU with a drafter, that serves nobody.
        prompts: Token ids, at least one each.
        max_tokens: Tokens of an answer at most.
        bigrams: What the model says after one token alone.
        recycle: Whether both also draft from what the model said before.

    Raises:
        ValueError: There is no drafter, or a text does not fit the cache.
    """
    engine = _engine(runner, recycle=recycle)
    engine.set_bigrams(None if bigrams is None else _of_all(bigrams, runner.vocabulary_size))
    replay = _core.Replay(
        nodes=_NODES,
        min_value=_MIN_VALUE,
        bigrams=bigrams,
        recycle=recycle,
        head="on",
        head_levels=LEVELS,
        head_rows=_MOST,
        head_least_gain=_LEAST_GAIN,
        head_probe_every=_PROBE_EVERY,
    )
    served = [
        _serve(engine, runner, handle, prompt, max_tokens)
        for handle, prompt in enumerate(prompts, 1)
    ]
    for prompt, (answer, _) in zip(prompts, served, strict=True):
        # The forward of the prompt gives the first token, without drafts.
        known, output = [*prompt, *answer[:1]], answer[1:]
        topk = _topk(runner, [*known, *output], len(prompt) - 1)
        names = replay.names(known, output, topk)
        head = record_answers(runner, known, output, names)
        replay.push(known, output, topk=topk, head=head)
    return Comparison(
        tokens=sum(len(answer) - 1 for answer, _ in served),
        live_steps=sum(steps for _, steps in served),
        replay_steps=replay.report()["steps"],
    )


def _engine(runner: Runner, *, recycle: bool) -> _core.Engine:
    """An engine that buys whatever may gain."""
    drafter = runner.drafter
    if drafter is None:
        raise ValueError("a replay is compared with a model that has a drafter")
    engine = _core.Engine(
        {
            "vocabulary_size": runner.vocabulary_size,
            "eos_token_ids": list(runner.eos_token_ids),
            "num_pages": runner.num_pages,
            "page_size": runner.page_size,
            "max_context": runner.max_context,
            "max_running": 1,
            "max_batch_rows": runner.max_batch_rows,
            "speculation": "auto",
            "max_draft_tokens": _NODES,
            "drafting_cost_ms": 0.0,
            "holdout_every": 0,
            "recycle": "decode" if recycle else "off",
        }
    )
    engine.set_costs([1, _MOST + 1], [_STEP_MS, _STEP_MS])
    levels_ms = [_LEVEL_MS, _LEVEL_MS]
    engine.add_drafter(
        source=Source.HEAD,
        max_levels=min(LEVELS, drafter.max_levels),
        max_rows=drafter.max_rows,
        rows=[1, _MOST + 1],
        first_ms=levels_ms,
        later_ms=levels_ms,
    )
    return engine


def _of_all(bigrams: _core.Bigrams, vocabulary_size: int) -> _core.Bigrams:
    """The table for the whole vocabulary; a trace's ends at the last token that it needs."""
    ids, probabilities = bigrams.rows()
    missing = ((0, vocabulary_size - len(ids)), (0, 0))
    return _core.Bigrams(np.pad(ids, missing), np.pad(probabilities, missing))


def _serve(
    engine: _core.Engine, runner: Runner, handle: int, prompt: Sequence[int], max_tokens: int
) -> tuple[list[int], int]:
    """One answer, and the steps that gave what follows its first token. Time is what costs say, not what passes."""
    sampling = worker_pb2.SamplingParameters(temperature=0.0, top_p=1.0, repetition_penalty=1.0)
    start = worker_pb2.Start(
        prompt_ids=prompt,
        max_tokens=max_tokens,
        sampling=sampling,
        namespace="default",
        learn=False,
    )
    engine.submit(_core.Request(start.SerializeToString(), handle=handle))
    answer: list[int] = []
    now = steps = 0
    while True:
        while (level := engine.draft_plan(now)) is not None:
            answers = runner.draft(level)
            engine.draft_results(answers.ids, answers.probabilities, answers.scored, _LEVEL_MS)
        plan = engine.plan(now)
        if plan is None:
            return answer, steps
        result = runner.step(plan)
        logits = result.logits
        steps += bool(answer)
        output = engine.commit_logits(
            plan.plan_id,
            logits.data_ptr(),
            logits.shape[0],
            logits.stride(0) if logits.shape[0] else 0,
            _STEP_MS,
            now,
            result.top_ids,
            result.top_probabilities,
        )
        answer += output.token_ids


def _topk(
    runner: Runner, tokens: Sequence[int], first: int
) -> tuple[list[list[int]], list[list[float]]]:
    """The model's likeliest tokens after each token from `first` on, as the engine recycles them."""
    ids: list[list[int]] = [[] for _ in range(first)]
    probabilities: list[list[float]] = [[] for _ in range(first)]
    size = runner.page_size
    for start in range(0, len(tokens), runner.max_batch_rows):
        rows = tokens[start : start + runner.max_batch_rows]
        plan = StepPlan.single(
            rows,
            kv_len=start,
            pages=range(-(-(start + len(rows)) // size)),
            top_rows=range(len(rows)),
            page_size=size,
        )
        result = runner.step(plan)
        begin = max(0, first - start)
        ids += result.top_ids[begin:].tolist()
        probabilities += result.top_probabilities[begin:].tolist()
    return ids, probabilities


if __name__ == "__main__":
    sys.exit(main())
