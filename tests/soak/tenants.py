"""Traffic of 200 tenants on an engine whose model is a table, and the memory that it leaves behind.

Run as a program, in a process of its own: `python -m tests.soak.tenants TOKENIZER_FOLDER`.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spectrie._core import (
    Engine,
    FinishKind,
    Grammar,
    GrammarCompiler,
    Plan,
    Request,
    Source,
    StepOutput,
    Tokenizer,
    constraint_of,
)
from spectrie._proto import worker_pb2
from tests.soak.heap import heap_bytes, resident_bytes

__all__ = ["MEMORY_BYTES", "TENANTS", "Traffic"]

TENANTS = 200
MEMORY_BYTES = 8 << 20
LIVE = 48
BURST = 20
RUNNING = 24
PAGES = 160
"""2560 tokens: too few for the longest of the running requests side by side."""

MAX_CONTEXT = 400
MOST_NAMESPACES = TENANTS + 50
RAMP = 400
STEP_S = 0.01
Point = dict[str, int]
Series = dict[str, list[Point]]

PATTERNS = ("[a-z ]{1,40}", "(def|class) [a-z]{2,9}", "[0-9]{1,8}", "[^x]{4,24}")


@dataclass(slots=True)
class Tally:
    """What was tried.

    Attributes:
        ends: Requests by how they ended.
        stopped: Those that ended at a stop text.
        failed_steps: Forwards that failed.
        forgotten: Namespaces that were forgotten.
    """

    ends: collections.Counter[str] = field(default_factory=collections.Counter)
    stopped: int = 0
    failed_steps: int = 0
    forgotten: int = 0


class Traffic:
    """Requests of many tenants, without a clock: the same ones in each run.

    Args:
        tokenizer: Finds stop texts and compiles constraints.
        visitors: The share of requests, 0 to 1, of tenants that nobody saw before.
        overlap: Whether a thread learns while a forward runs.
        drafter: Whether a drafter is asked, which knows the model.
    """

    def __init__(self, tokenizer: Tokenizer, visitors: float, overlap: bool, drafter: bool) -> None:
        self._draw = random.Random(7)
        self._tokenizer = tokenizer
        self._visitors = visitors
        self._vocabulary = tokenizer.vocabulary_size
        self._now_s = 0.0
        self._handles = 0
        self._live: dict[int, None] = {}
        self.tally = Tally()
        self.engine = Engine(
            {
                "vocabulary_size": self._vocabulary,
                "eos_token_ids": [2],
                "num_pages": PAGES,
                "max_context": MAX_CONTEXT,
                "max_running": RUNNING,
                "memory_bytes": MEMORY_BYTES,
                "max_namespaces": MOST_NAMESPACES,
                "recycle": "all",
                "overlap": overlap,
                # With room for what they will grow by, requests would never lose their pages.
                "lookahead_tokens": 0,
                # What is drafted must not depend on the machine.
                "drafting_cost_ms": 0.0,
            }
        )
        compiler = GrammarCompiler(tokenizer, [2])
        self._grammars = {text: compiler.compile("regex", text) for text in PATTERNS}
        # Token t is mostly followed by some other one, which suits drafting.
        numbers = np.random.default_rng(7)
        self._logits = numbers.standard_normal(
            (self._vocabulary, self._vocabulary), dtype=np.float32
        )
        order = np.argsort(-self._logits, axis=1, kind="stable")
        self._logits[np.arange(self._vocabulary), order[:, 0]] += 4.0
        self._top_ids = np.ascontiguousarray(order[:, :8], dtype=np.int32)
        self._top_probabilities = np.tile(
            np.array([0.6, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01, 0.01], dtype=np.float32),
            (self._vocabulary, 1),
        )
        if drafter:
            self.engine.set_costs([1, 64], [10.0, 20.0])
            self.engine.add_drafter(
                source=Source.HEAD,
                max_levels=3,
                max_rows=64,
                rows=[1, 64],
                first_ms=[0.01, 0.02],
                later_ms=[0.01, 0.02],
            )

    def run(self, requests: int, planted_bytes: int = 0) -> None:
        """Sends so many requests, in bursts, and returns when the last burst is under way.

        Args:
            requests: How many, a multiple of `BURST`.
            planted_bytes: Bytes that are allocated for each and never freed: what a leak would do.
        """
        for _ in range(0, requests, BURST):
            while len(self._live) > LIVE - BURST:
                self._step()
            for _ in range(BURST):
                self._submit()
                if planted_bytes:
                    _leak(planted_bytes)

    def drain(self) -> None:
        """Returns when all requests have ended."""
        while self._live:
            self._step()

    def _step(self) -> None:
        draw, engine = self._draw, self.engine
        self._now_s += STEP_S
        if draw.random() < 0.1:
            self._cancel()
        if draw.random() < 0.002:
            self.tally.forgotten += engine.forget(f"tenant-{draw.randrange(TENANTS)}")
        if draw.random() < 0.05:
            text = draw.choices(range(3, self._vocabulary), k=60)
            engine.learn(f"tenant-{draw.randrange(TENANTS)}", text)
        while (level := engine.draft_plan(self._now_s)) is not None:
            ids = self._top_ids[level.row_token]
            scored = np.full(len(level.scored_token), -3.0, dtype=np.float32)
            engine.draft_results(ids, self._top_probabilities[level.row_token], scored, 0.01)
        plan = engine.plan(self._now_s)
        if plan is None:
            self._take(engine.take_outputs())
        elif draw.random() < 0.001:
            self.tally.failed_steps += 1
            self._take(engine.fail(plan.plan_id, "a forward that failed on purpose", self._now_s))
        else:
            self._take(self._commit(plan))

    def _commit(self, plan: Plan) -> StepOutput:
        row_token = plan.row_token
        logits = self._logits[row_token[plan.sample_rows]]
        tops = row_token[plan.top_rows]
        return self.engine.commit_logits(
            plan.plan_id,
            logits.ctypes.data,
            len(logits),
            self._vocabulary,
            elapsed_ms=1.0 + 0.01 * len(row_token),
            now_s=self._now_s,
            top_ids=self._top_ids[tops],
            top_probabilities=self._top_probabilities[tops],
        )

    def _take(self, output: StepOutput) -> None:
        for handle, finish in zip(output.handles, output.finishes, strict=True):
            if finish is not None:
                del self._live[handle]
                self.tally.ends[finish.kind.name] += 1
                self.tally.stopped += finish.kind == FinishKind.COMPLETE

    def _cancel(self) -> None:
        if self._live:
            handle = self._draw.choice(list(self._live))
            keep, finished = self._draw.choice(((None, False), (0, False), (1, True)))
            self.engine.cancel(handle, keep, finished)

    def _submit(self) -> None:
        self._handles += 1
        start = _start(self._draw, self._handles, self._vocabulary, self._now_s)
        if self._draw.random() < self._visitors:
            _visit(self._draw, self._handles, start)
        message = start.SerializeToString()
        self.engine.submit(
            Request(
                message,
                handle=self._handles,
                now_s=self._now_s,
                now_unix_s=self._now_s,
                grammar=self._grammar(message),
                tokenizer=self._tokenizer,
            )
        )
        self._live[self._handles] = None

    def _grammar(self, message: bytes) -> Grammar | None:
        constraint = constraint_of(message)
        return None if constraint is None else self._grammars[str(constraint[1])]


def _leak(count: int) -> None:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc(ctypes.c_size_t(count))


def _start(draw: random.Random, number: int, vocabulary: int, now_s: float) -> worker_pb2.Start:
    """A request of one of the tenants; half of them begin as the others of their tenant do."""
    tenant = draw.randrange(TENANTS)
    shared = [3 + (tenant + place) % (vocabulary - 3) for place in range(40)]
    own = draw.choices(range(3, vocabulary), k=draw.choice((4, 20, 20, 90, 250)))
    start = worker_pb2.Start(
        request_id=f"request-{number}",
        namespace=f"tenant-{tenant}",
        learn=draw.random() < 0.8,
        prompt_ids=(shared if draw.random() < 0.5 else []) + own,
        sampling=worker_pb2.SamplingParameters(
            temperature=draw.choice((0.0, 0.0, 0.9)), top_p=1.0, repetition_penalty=1.0
        ),
        choice_seed=number,
        max_tokens=draw.choice((1, 6, 6, 24, 60)),
        ignore_eos=draw.random() < 0.5,
        priority=draw.randrange(-2, 3),
    )
    kind = draw.randrange(24)
    if kind < 3:
        start.structured.regex = draw.choice(PATTERNS)
        start.ignore_eos = False
    elif kind < 7:
        start.stop.extend(("e", " the"))
    elif kind == 7:
        start.deadline_ms = int(1000 * (now_s + draw.choice((0.0, 0.1, 0.5))))
    elif kind == 8:
        start.logprobs, start.prompt_logprobs = 3, 1
    elif kind == 9:
        start.prediction_ids.extend(draw.choices(range(3, vocabulary), k=30))
    elif kind == 10:
        # More than the context, which is refused.
        start.max_tokens = MAX_CONTEXT
    elif kind == 11:
        start.sampling.repetition_penalty = 1.2
        start.sampling.logit_bias[5] = -2.0
    return start


def _visit(draw: random.Random, number: int, start: worker_pb2.Start) -> None:
    """Gives a request to a tenant of its own, or to a namespace of its own of one tenant."""
    if draw.random() < 0.5:
        start.namespace = f"visitor-{number}"
    else:
        start.tenant, start.namespace = "key", f"client-{number}"


def _series(traffic: Traffic, requests: int, every: int, planted_bytes: int) -> Series:
    """Memory without requests before and after so many of them, and in between, under steady load."""
    idle = [_point(traffic, 0)]
    # Until as much is under way as on average.
    traffic.run(RAMP)
    busy = [_point(traffic, 0)]
    for done in range(every, requests + 1, every):
        traffic.run(every, planted_bytes)
        busy.append(_point(traffic, done))
    traffic.drain()
    return {"idle": [*idle, _point(traffic, RAMP + requests)], "busy": busy}


def _point(traffic: Traffic, requests: int) -> Point:
    return {
        "requests": requests,
        "heap_bytes": heap_bytes(),
        "memory_bytes": traffic.engine.load().memory_bytes,
        "resident_bytes": resident_bytes(),
    }


def main(arguments: list[str]) -> int:
    """Prints, as JSON, memory after every so many requests, without a leak and with one of known size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a model folder, for its tokenizer")
    parser.add_argument("--warm-up", type=int, default=0, help="requests before the first point")
    parser.add_argument("--requests", type=int, default=0, help="requests that are measured")
    parser.add_argument("--planted", type=int, default=0, help="as many more, each with a leak")
    parser.add_argument("--planted-bytes", type=int, default=0, help="the size of that leak")
    parser.add_argument("--every", type=int, default=40, help="requests from point to point")
    parser.add_argument("--visitors", type=float, default=0.0, help="share of new tenants")
    parser.add_argument("--overlap", action="store_true", help="learn on a thread of its own")
    parser.add_argument("--drafter", action="store_true", help="ask a drafter too")
    options = parser.parse_args(arguments)
    tokenizer = Tokenizer.from_folder(options.folder)
    traffic = Traffic(tokenizer, options.visitors, options.overlap, options.drafter)
    traffic.run(options.warm_up)
    traffic.drain()
    warm = traffic.engine.load()
    plain = _series(traffic, options.requests, options.every, 0)
    planted = _series(traffic, options.planted, options.every, options.planted_bytes)
    load, tally = traffic.engine.load(), traffic.tally
    json.dump(
        {
            "plain": plain,
            "planted": planted,
            "ends": dict(tally.ends),
            "stopped": tally.stopped,
            "failed_steps": tally.failed_steps,
            "forgotten": tally.forgotten,
            "evicted_tokens": load.evicted_tokens - warm.evicted_tokens,
            "accepted_tokens": load.accepted_tokens - warm.accepted_tokens,
            "accepted_by_source": load.accepted_by_source,
            "preemptions": load.preemptions - warm.preemptions,
            "head_levels": load.head_levels - warm.head_levels,
            "prefix_hit_tokens": load.prefix_hit_tokens - warm.prefix_hit_tokens,
            "left": load.running + load.waiting + load.pages_used,
        },
        sys.stdout,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
